"""run.json: what is written is read again; what is damaged is refused."""

from __future__ import annotations

import dataclasses
import json

import pytest

from slurmswift.domain.lifecycle import AT_REST, MOVES, TERMINAL, IllegalMoveError, RunStatus, move
from slurmswift.domain.run import (
    AttemptEnd,
    AvoidedNode,
    Intent,
    KnownCheckpoint,
    RunState,
)
from slurmswift.errors import StateError

STATE = RunState(
    run_id="r-260101-abcde",
    status=RunStatus.RUNNING,
    name="r",
    cluster="c",
    epoch=2,
    job_id="7",
    restart_count=1,
    attempt=3,
    job_state="RUNNING",
    reason="Slurm says RUNNING",
    submitted_at=1.5,
    not_before=None,
    missing_since=None,
    intent=Intent("requeue", 2, "7", ("n1",), hold=True, at=3.0),
    checkpoint=KnownCheckpoint("/o/checkpoint-5", 5),
    avoid=(AvoidedNode("n1", "hsn0 is down", 2.0),),
    ends=(
        AttemptEnd(
            attempt=1,
            epoch=1,
            job_id="6",
            restart_count=0,
            slurm_state="FAILED",
            cause="comm-remote-peer-lost",
            category="communication",
            node="n1",
            rank=3,
            evidence="job.log:1: x",
            remedy="look",
            rule="gloo",
            transient=None,
            step=5,
            progress=True,
            seconds=12.5,
            decision="resume",
            reason="because",
            at=2.0,
        ),
    ),
)


def written() -> dict[str, object]:
    body: dict[str, object] = json.loads(json.dumps(STATE.to_json()))
    return body


def test_a_state_survives_being_written() -> None:
    assert RunState.parse(written(), "run.json") == STATE


def test_the_status_is_the_third_key_for_the_gate_to_find() -> None:
    assert list(STATE.to_json())[:3] == ["schema", "run_id", "status"]


@pytest.mark.parametrize("key", list(STATE.to_json()))
def test_a_key_of_another_type_is_damage_and_names_the_file(key: str) -> None:
    with pytest.raises(StateError, match=r"run\.json"):
        RunState.parse(written() | {key: {"not": ["what", "it", "was"]}}, "run.json")


def test_a_newer_schema_is_refused() -> None:
    with pytest.raises(StateError, match="newer"):
        RunState.parse(written() | {"schema": 99}, "run.json")


def test_restarts_are_counted_by_whoever_made_them() -> None:
    ends = [dataclasses.replace(STATE.ends[0], decision=d) for d in ("resume", "adopt", "stop")]

    assert dataclasses.replace(STATE, ends=tuple(ends)).restarts == 2


@pytest.mark.parametrize("status", [status for status in RunStatus if status in TERMINAL])
def test_only_a_person_leads_out_of_an_end(status: RunStatus) -> None:
    assert MOVES[status] <= {RunStatus.RESTARTING}
    with pytest.raises(IllegalMoveError):
        move(status, RunStatus.RUNNING)


def test_every_status_can_reach_rest() -> None:
    for status in set(RunStatus) - AT_REST:
        assert MOVES[status] >= AT_REST


def test_staying_is_no_move() -> None:
    assert move(RunStatus.COMPLETED, RunStatus.COMPLETED) is RunStatus.COMPLETED
