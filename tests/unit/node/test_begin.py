"""What an attempt resumes from, and what becomes of the newer checkpoints that it passes over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurmswift.domain.diagnosis import AttemptFacts, diagnose
from slurmswift.domain.records import ExitRecord, StartRecord
from slurmswift.node.begin import begin
from tests.support.checkpoint_folder import save, save_with_deepspeed
from tests.support.job_script import JobScript
from tests.support.run_folder import make_attempt, make_run
from tests.unit.node.test_script import TRAINING, run, started


@pytest.fixture
def script(tmp_path: Path) -> JobScript:
    training = tmp_path / "train"
    training.write_text(TRAINING)
    return JobScript.make(tmp_path / "run", ["bash", str(training)])


def test_it_resumes_from_the_newest_whole_checkpoint(script: JobScript) -> None:
    output = script.run_dir / "output"
    whole, torn = save(output, 4), save(output, 8)
    (torn / "optimizer.pt").write_bytes(b"PK\x03\x04torn")
    run(script, "exit 0")

    assert started(script)[0] == f"n1 resumes from [{whole}]"
    start = script.record("001-7", "start.json")
    assert (start["resume_from"], start["resume_step"]) == (str(whole), 4)
    assert start["passed_over"] == [
        {
            "path": str(torn),
            "why": "corrupt: optimizer.pt: cut: a zip archive without its end",
            "moved_to": str(output / ".bad-checkpoint-8-001"),
        }
    ]
    # Under its own name a trainer's rotation would count it, and remove a good one for it.
    assert sorted(path.name for path in output.glob("*checkpoint-*")) == [
        ".bad-checkpoint-8-001",
        "checkpoint-4",
    ]


def test_what_lies_outside_the_runs_output_keeps_its_name(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    whole, torn = save(elsewhere, 4), save(elsewhere, 8)
    (torn / "trainer_state.json").unlink()
    training = tmp_path / "train"
    training.write_text(TRAINING)
    command = ["bash", str(training)]
    script = JobScript.make(tmp_path / "run", command, checkpoint_directory=str(elsewhere))
    run(script, "exit 0")

    start = StartRecord.parse(script.record("001-7", "start.json"), "start.json")
    assert start.resume_from == str(whole)
    assert [(item.path, item.moved_to) for item in start.passed_over] == [(str(torn), None)]
    assert torn.is_dir()


def test_one_in_quarantine_is_passed_over_though_it_is_whole(script: JobScript) -> None:
    output = script.run_dir / "output"
    older, newer = save(output, 4), save(output, 8)
    state = json.loads((script.run_dir / "run.json").read_text())
    state["quarantine"] = [{"path": str(newer), "why": "x", "at": 1.0}]
    (script.run_dir / "run.json").write_text(json.dumps(state))
    run(script, "exit 0")

    start = StartRecord.parse(script.record("001-7", "start.json"), "start.json")
    assert start.resume_from == str(older)
    assert "in quarantine" in start.passed_over[0].why
    assert (output / ".bad-checkpoint-8-001" / "trainer_state.json").is_file()


def test_a_finished_run_is_not_resumed(script: JobScript) -> None:
    save(script.run_dir / "output", 100, max_steps=100)

    assert run(script, "exit 1")[0] == 0
    assert started(script) == []
    ended = script.record("001-7", "exit.json")
    assert ended["status"] == 0
    assert str(ended["message"]).startswith("already finished: ")


@pytest.mark.parametrize("ranks", [2, 4])
def test_where_only_the_number_of_ranks_is_in_the_way_nothing_is_trained_anew(
    tmp_path: Path, ranks: int
) -> None:
    run = make_run(tmp_path / "run")
    attempt = make_attempt(run, 1)
    path = save_with_deepspeed(run.path / "output", 8, ranks=ranks)
    output = str(run.path / "output")
    words = ["--run-dir", str(run.path), "--attempt-dir", str(attempt.path), "--interface", "lo"]
    words += ["--checkpoint-dir", output, "--output-dir", output, "--ranks-per-node", "2"]

    status = begin(words)

    assert path.is_dir()
    if ranks == 2:
        assert (status, attempt.start().resume_from) == (0, str(path))
        return
    assert status == 1
    ended = ExitRecord.parse(json.loads(attempt.exit_file.read_text()), "exit.json")
    assert "4 ranks saved and this run has 2" in str(ended.message)
    diagnosis = diagnose((), AttemptFacts("FAILED", (1, 0), exit_record=ended))
    assert (diagnosis.cause, diagnosis.transient) == ("ckpt-incompatible", False)
