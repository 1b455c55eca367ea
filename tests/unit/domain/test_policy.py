"""The policy table, as a user could read it."""

from __future__ import annotations

import dataclasses

import pytest

from slurmswift.domain import policy
from slurmswift.domain.policy import Hold, Limits, Resume, Stop, attempts_left, decide
from slurmswift.domain.run import AttemptEnd

END = AttemptEnd(
    attempt=1,
    epoch=1,
    job_id="7",
    restart_count=0,
    slurm_state="FAILED",
    cause="comm-remote-peer-lost",
    category="communication",
    node=None,
    rank=None,
    evidence="",
    remedy="",
    rule="",
    transient=None,
    step=None,
    progress=False,
    seconds=4000.0,
    decision="resume",
    reason="",
    at=0.0,
)
LIMITS = Limits(max_restarts=50)


def ends(*causes: str, **facts: object) -> list[AttemptEnd]:
    return [dataclasses.replace(END, cause=cause, **facts) for cause in causes]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cause", "first", "budget"),
    [
        ("sched-preempted", Resume, 2),
        ("sched-time-limit", Resume, 2),
        ("sched-launch-failure", Resume, 3),
        ("comm-network-fabric", Resume, 3),
        ("comm-collective-timeout-unexplained", Resume, 3),
        ("comm-interface-misconfig", Stop, 0),
        ("hw-gpu-ecc", Resume, 3),
        ("hw-node-failure", Resume, 3),
        ("storage-fs-error", Resume, 3),
        ("storage-full", Hold, 0),
        ("ckpt-corrupt", Resume, 2),
        ("ckpt-missing-files", Resume, 2),
        ("ckpt-save-race", Resume, 3),
        ("ckpt-incompatible", Stop, 0),
        ("config-port-in-use", Resume, 3),
        ("config-hub-unreachable", Resume, 3),
        ("config-bad-arguments", Stop, 0),
        ("mem-host-oom", Resume, 1),
        ("mem-cuda-oom", Stop, 0),
        ("mem-shm-exhausted", Stop, 0),
        ("code-python-exception", Stop, 0),
        ("data-missing", Stop, 0),
        ("numerics-divergence", Stop, 0),
        ("sched-cancelled", Hold, 0),
        ("unexplained", Resume, 1),
        ("a-cause-of-tomorrow", Resume, 1),
    ],
)
def test_each_cause_has_its_action_and_its_budget(cause: str, first: type, budget: int) -> None:
    assert type(decide(ends(cause), LIMITS, 0)) is first
    if first is Resume:
        assert type(decide(ends(*[cause] * budget), LIMITS, 0)) is Resume
        assert isinstance(decide(ends(*[cause] * (budget + 1)), LIMITS, 0), Stop)


def test_a_new_checkpoint_renews_the_budget() -> None:
    history = ends(*["comm-remote-peer-lost"] * 3) + ends("comm-remote-peer-lost", progress=True)

    assert isinstance(decide(history, LIMITS, 3), Resume)


def test_budgets_of_different_causes_are_counted_apart() -> None:
    history = ends("comm-remote-peer-lost", "comm-remote-peer-lost", "hw-gpu-ecc")

    assert isinstance(decide(history, LIMITS, 2), Resume)


def test_five_attempts_of_any_causes_without_a_checkpoint_are_held() -> None:
    history = ends(
        "comm-remote-peer-lost", "hw-gpu-ecc", "unexplained", "sched-preempted", "mem-host-oom"
    )

    assert isinstance(decide(history, LIMITS, 4), Hold)


def test_three_quick_deaths_in_a_row_are_held() -> None:
    history = ends("comm-remote-peer-lost", "hw-gpu-ecc", "storage-fs-error", seconds=20.0)

    assert isinstance(decide(history, LIMITS, 2), Hold)


def test_quick_deaths_that_each_bring_a_checkpoint_go_on() -> None:
    history = ends(*["sched-preempted"] * 4, seconds=20.0, progress=True)

    assert isinstance(decide(history, LIMITS, 3), Resume)


def test_the_most_restarts_are_a_floor() -> None:
    history = ends("sched-preempted", progress=True)

    assert isinstance(decide(history, Limits(max_restarts=3), 3), Stop)


def test_the_node_that_the_evidence_names_is_avoided() -> None:
    decision = decide(ends("comm-network-fabric", node="n2"), LIMITS, 0)

    assert isinstance(decision, Resume)
    assert decision.avoid == ("n2",)


def test_a_python_node_is_not_blamed() -> None:
    decision = decide(ends("sched-preempted", node="n2"), LIMITS, 0)

    assert isinstance(decision, Resume)
    assert decision.avoid == ()


def test_waits_grow() -> None:
    delays = []
    for count in range(1, 4):
        decision = decide(ends(*["comm-remote-peer-lost"] * count), LIMITS, count - 1)
        assert isinstance(decision, Resume)
        delays.append(decision.delay)

    assert delays == [0.0, 60.0, 120.0]


def test_the_recipe_may_change_a_budget() -> None:
    limits = Limits(50, budgets=(("communication", 1),))

    assert isinstance(decide(ends("comm-remote-peer-lost"), limits, 0), Resume)
    assert isinstance(decide(ends(*["comm-remote-peer-lost"] * 2), limits, 1), Stop)


def test_the_gate_may_start_no_more_attempts_than_the_floors_allow() -> None:
    assert attempts_left((), LIMITS, 0) == policy.MAX_WITHOUT_CHECKPOINT
    assert attempts_left(ends("x", "x"), LIMITS, 2) == policy.MAX_WITHOUT_CHECKPOINT - 2
    assert attempts_left(ends("x", progress=True), Limits(1), 1) == 0
