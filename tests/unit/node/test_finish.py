"""The attempt's verdict: success needs a witness on every node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurmswift.atomic import read_json
from slurmswift.node.attempt import Attempt
from slurmswift.node.finish import finish
from tests.support.checkpoint_folder import save
from tests.support.run_folder import age, leave_record, make_attempt, make_run

NODES = ("n1", "n2")


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return make_attempt(make_run(tmp_path / "run"), 1, nodes=NODES)


def verdict(attempt: Attempt, srun_status: int) -> dict[str, object]:
    folder = attempt.path.parent.parent / "output"
    finish(
        ["--attempt-dir", str(attempt.path), "--checkpoint-dir", str(folder),
         "--srun-status", str(srun_status)]
    )  # fmt: skip
    body = read_json(attempt.exit_file)
    assert isinstance(body, dict)
    del body["ended_at"], body["schema"]
    return body


def test_every_node_says_zero(attempt: Attempt, capsys: pytest.CaptureFixture[str]) -> None:
    for node in NODES:
        leave_record(attempt, node)

    assert verdict(attempt, 0) == {
        "status": 0,
        "srun_status": 0,
        "nodes_expected": 2,
        "nodes_reported": 2,
        "nodes_silent": [],
        "cause_hint": None,
        "message": None,
    }
    assert capsys.readouterr().out == "0\n"


def test_sruns_zero_is_no_witness_for_a_node_that_never_started(attempt: Attempt) -> None:
    attempt.alive_file("n1").touch()  # killed by srun when n2 did not answer
    found = verdict(attempt, 0)

    assert (found["status"], found["cause_hint"]) == (1, "node-lost")
    assert found["nodes_silent"] == ["n2"]
    assert found["message"] == "no record from n2"


def test_the_launchers_status_counts_before_sruns(attempt: Attempt) -> None:
    leave_record(attempt, "n1", status=3, ended_at=9.0)
    leave_record(attempt, "n2", status=7, ended_at=8.0)
    found = verdict(attempt, 143)

    assert (found["status"], found["cause_hint"]) == (7, "training")
    assert found["message"] == "n2: the launcher ended with status 7"


def test_no_status_is_above_120(attempt: Attempt) -> None:
    leave_record(attempt, "n1", status=None, signal=9)
    leave_record(attempt, "n2")

    assert verdict(attempt, 137)["status"] == 120


def test_a_launcher_whose_end_nobody_saw_did_not_succeed(attempt: Attempt) -> None:
    leave_record(attempt, "n1", status=None)
    leave_record(attempt, "n2")

    assert verdict(attempt, 0)["status"] == 1


def test_a_fenced_attempt_says_so(attempt: Attempt) -> None:
    leave_record(attempt, "n1", status=None, signal=9, fenced="attempt 2 has started")
    found = verdict(attempt, 101)

    assert (found["status"], found["cause_hint"]) == (101, "fenced")
    assert found["message"] == "n1: attempt 2 has started"


def test_a_damaged_record_is_reported_and_counts_as_none(attempt: Attempt) -> None:
    leave_record(attempt, "n1")
    attempt.node_file("n2").write_text("{")
    found = verdict(attempt, 0)

    assert (found["status"], found["nodes_silent"]) == (1, ["n2"])
    assert "n2.json: damaged" in str(found["message"])


@pytest.mark.parametrize(("step", "status", "hint"), [(8, 1, "time-limit"), (20, 0, None)])
def test_a_training_that_left_when_asked_to_is_done_only_at_its_last_step(
    attempt: Attempt, step: int, status: int, hint: str | None
) -> None:
    for node in NODES:
        leave_record(attempt, node)
    save(attempt.path.parent.parent / "output", step, max_steps=20)
    (attempt.path / "save-request").touch()
    found = verdict(attempt, 0)

    assert (found["status"], found["cause_hint"]) == (status, hint)
    assert status == 0 or found["message"] == "left when asked to, at step 8 of 20"


@pytest.mark.parametrize(("seconds", "hint"), [(-60.0, "training"), (1.0, "ended")])
def test_after_a_term_a_launchers_status_counts_only_where_nothing_was_saved(
    attempt: Attempt, seconds: float, hint: str
) -> None:
    """torchrun ends with 1 on every TERM, though all its ranks saved and ended with 0."""
    for node in NODES:
        leave_record(attempt, node, status=1)
    (attempt.path / "ending.json").touch()
    checkpoint = save(attempt.path.parent.parent / "output", 8, max_steps=20)
    age(checkpoint, -seconds)
    found = verdict(attempt, 1)

    assert (found["status"], found["cause_hint"]) == (1, hint)


def test_exit_json_is_one_line_for_anyone_to_read(attempt: Attempt) -> None:
    verdict(attempt, 1)
    text = attempt.exit_file.read_text()

    assert text.count("\n") == 1
    assert json.loads(text)["schema"] == 1
