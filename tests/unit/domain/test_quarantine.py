"""Which failures put the checkpoint they came after in quarantine."""

from __future__ import annotations

import dataclasses

import pytest

from slurmswift.domain.policy import Limits, Resume, Stop, decide
from slurmswift.domain.quarantine import to_quarantine
from slurmswift.domain.run import AttemptEnd, Quarantined, parse_quarantine
from tests.unit.domain.test_policy import END

FROM_10 = dataclasses.replace(
    END, cause="unexplained", resumed_from="/out/checkpoint-10", resumed_step=10, failed_at=12
)


def quarantined(*ends: AttemptEnd) -> str | None:
    found = to_quarantine(ends, 5.0)
    return None if found is None else found.path


def test_the_same_failure_at_the_same_step_twice_is_the_checkpoints() -> None:
    assert quarantined(FROM_10) is None
    assert quarantined(FROM_10, FROM_10) == "/out/checkpoint-10"


@pytest.mark.parametrize(
    "other",
    [{"failed_at": 13}, {"cause": "mem-host-oom"}, {"resumed_from": "/out/checkpoint-5"}],
)
def test_another_step_cause_or_checkpoint_is_no_second_time(other: dict[str, object]) -> None:
    assert quarantined(dataclasses.replace(FROM_10, **other), FROM_10) is None  # type: ignore[arg-type]


def test_a_trainer_that_cannot_read_it_says_so_once() -> None:
    corrupt = dataclasses.replace(FROM_10, cause="ckpt-corrupt")

    assert quarantined(corrupt) == "/out/checkpoint-10"
    assert quarantined(dataclasses.replace(corrupt, resumed_from=None)) is None


@pytest.mark.parametrize("cause", ["sched-time-limit", "storage-fs-error", "hw-gpu-ecc"])
def test_what_a_checkpoint_has_no_part_in_never_counts(cause: str) -> None:
    end = dataclasses.replace(FROM_10, cause=cause)

    assert quarantined(end, end, end) is None


def test_a_network_that_fails_before_the_first_step_is_the_networks() -> None:
    late = dataclasses.replace(FROM_10, cause="comm-remote-peer-lost")
    early = dataclasses.replace(late, failed_at=10)

    assert quarantined(early, early) is None
    assert quarantined(late, late) == "/out/checkpoint-10"


def test_a_spent_budget_is_no_reason_to_stop_before_the_older_one_is_tried() -> None:
    ends = (FROM_10, FROM_10)

    assert isinstance(decide(ends, Limits(50), 1), Stop)
    tried = decide(ends, Limits(50), 1, other_checkpoint=True)
    assert isinstance(tried, Resume)
    assert "from an older checkpoint" in tried.why
    assert isinstance(decide(ends, Limits(1), 1, other_checkpoint=True), Stop)


def test_a_runs_state_of_before_has_none_in_quarantine() -> None:
    body = {"path": "/out/checkpoint-10", "why": "x", "at": 1.0}

    assert parse_quarantine({"schema": 1}, "run.json") == ()
    assert parse_quarantine({"schema": 1, "quarantine": [body]}, "run.json") == (
        Quarantined("/out/checkpoint-10", "x", 1.0),
    )
