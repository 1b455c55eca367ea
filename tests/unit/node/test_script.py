"""The job's script as bash runs it: the gate, the claim, the records, the ends."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from slurmswift.atomic import write_json
from slurmswift.domain.records import Ending, ExitRecord, Grant, StartRecord
from slurmswift.node.processes import descendants
from tests.support.checkpoint_folder import save
from tests.support.job_script import JobScript, render
from tests.support.run_folder import age, grant_to
from tests.test_architecture import python_of_version

TRAINING = """\
#!/bin/bash
echo "$SLURMSWIFT_NODE resumes from [${*: -1}]" >>"$SLURMSWIFT_RUN_DIR/output/started"
eval "$TRAINING"
"""
# Every character that has ended a shell script or a JSON file before its time.
WEIRD = "a 'run' \"x\" \\n $(touch canary) `touch canary` & ; é #"


@pytest.fixture
def script(tmp_path: Path) -> JobScript:
    training = tmp_path / "train"
    training.write_text(TRAINING)
    return JobScript.make(tmp_path / WEIRD, ["bash", str(training)])


def started(script: JobScript) -> list[str]:
    path = script.run_dir / "output" / "started"
    return sorted(path.read_text().splitlines()) if path.exists() else []


def run(script: JobScript, training: str, *arguments: str, **more: object) -> tuple[int, str]:
    environment = {"TRAINING": training}
    return script.run(*(arguments or ("1",)), environment=environment, **more)  # type: ignore[arg-type]


def test_one_attempt_from_gate_to_record(script: JobScript) -> None:
    status, said = run(script, "exit 0")

    assert status == 0
    assert said == f"slurmswift: attempt 1: its log is {script.run_dir}/attempts/001-7/job.log\n"
    assert script.attempts() == ["001-7"]
    assert started(script) == ["n1 resumes from []", "n2 resumes from []"]
    ended = ExitRecord.parse(script.record("001-7", "exit.json"), "exit.json")
    assert (ended.status, ended.nodes_expected, ended.nodes_reported) == (0, 2, 2)
    start = StartRecord.parse(script.record("001-7", "start.json"), "start.json")
    assert (start.nodes, start.batch_host, start.epoch) == (("n1", "n2"), "n1", 1)
    assert start.slurm_log.path == f"{script.run_dir}/slurm-7.out"
    assert start.rendezvous is not None
    assert not list(script.run_dir.parent.rglob("canary"))


def test_the_scripts_status_is_the_trainings_and_never_above_120(script: JobScript) -> None:
    assert run(script, "exit 3")[0] == 3
    assert run(script, "kill -9 $$", job_id=8)[0] == 120
    assert script.record("002-8", "exit.json")["cause_hint"] == "training"


def test_a_victims_zero_is_no_success(script: JobScript) -> None:
    status, _ = run(script, "[[ $SLURMSWIFT_NODE == n1 ]]")

    assert status == 1
    assert script.record("001-7", "exit.json")["message"] == (
        "n2: the launcher ended with status 1"
    )


class TestTheGate:
    """What may not train makes no attempt directory and says one line."""

    def closed(self, script: JobScript, *arguments: str, status: int = 0) -> str:
        ended, said = run(script, "exit 0", *arguments)

        assert (ended, script.attempts(), started(script)) == (status, [], [])
        assert said.count("\n") == 1
        return said

    def test_a_stopped_run(self, script: JobScript) -> None:
        (script.run_dir / "stop").touch()

        assert "the run was stopped" in self.closed(script)

    def test_a_run_that_finished_and_was_started_again_by_somebody(self, script: JobScript) -> None:
        run(script, "exit 0")
        status, said = run(script, "exit 0", job_id=8)

        assert (status, script.attempts()) == (0, ["001-7"])
        assert "the run is complete: attempts/001-7/exit.json" in said

    @pytest.mark.parametrize("word", ["COMPLETED", "FAILED", "CANCELLED", "HELD"])
    def test_a_run_at_rest(self, script: JobScript, word: str) -> None:
        body = {"schema": 1, "run_id": "x", "status": word, "name": '"status": "RUNNING"'}
        write_json(script.run_dir / "run.json", body)

        assert f"the run is {word}" in self.closed(script)

    @pytest.mark.parametrize("epoch", ["0", "2", "10"])
    def test_another_epoch(self, script: JobScript, epoch: str) -> None:
        assert f"epoch 1 was granted, this is epoch {epoch}" in self.closed(script, epoch)

    def test_another_job_of_the_same_epoch(self, script: JobScript) -> None:
        grant_to(script.run_dir, epoch=1, job_id="6")

        assert "job 6 was granted, this is job 7" in self.closed(script)

    def test_spent_budgets(self, script: JobScript) -> None:
        grant_to(script.run_dir, epoch=1, last_attempt=0)

        assert "the budgets are spent" in self.closed(script)

    @pytest.mark.parametrize("name", ["grant.json", "run.json"])
    @pytest.mark.parametrize("text", ["", "{", '{"schema": 1}'])
    def test_a_damaged_record_is_never_guessed_over(
        self, script: JobScript, name: str, text: str
    ) -> None:
        (script.run_dir / name).write_text(text)
        said = self.closed(script, status=1)

        assert f"{name} " in said

    def test_a_record_behind_a_link_is_not_read(self, script: JobScript) -> None:
        grant = script.run_dir / "grant.json"
        grant.rename(script.run_dir / "elsewhere")
        grant.symlink_to("elsewhere")

        assert "grant.json is missing or damaged" in self.closed(script, status=1)

    def test_what_is_no_epoch(self, script: JobScript) -> None:
        assert "'1; touch x' is not an epoch's number" in self.closed(
            script, "1; touch x", status=1
        )

    def test_a_folder_that_is_not_there(self, script: JobScript) -> None:
        shutil.copy(script.run_dir / "job.sbatch", script.run_dir.parent / "job.sbatch")
        moved = script.run_dir.rename(script.run_dir.parent / "moved")
        lost = JobScript(moved, script.tools)
        status, said = run(lost, "exit 0")

        assert status == 1
        assert "is it a shared folder?" in said


def test_the_granted_job_may_start_again_after_a_requeue(script: JobScript) -> None:
    grant_to(script.run_dir, epoch=1, job_id="7", last_attempt=2)
    run(script, "exit 1")
    (script.run_dir / "slurm-7.out").write_text("x" * 10)
    environment = {"TRAINING": "exit 1", "SLURM_RESTART_COUNT": "1"}

    assert script.run("1", environment=environment)[0] == 1
    assert script.attempts() == ["001-7", "002-7"]
    start = script.record("002-7", "start.json")
    assert (start["restart_count"], start["attempt"]) == (1, 2)
    assert start["slurm_log"] == {"path": f"{script.run_dir}/slurm-7.out", "offset": 10}
    assert run(script, "exit 0")[1].endswith("the budgets are spent\n")


def test_of_many_that_start_at_once_one_trains(script: JobScript) -> None:
    """A stale record of the grant lets them all in; the claim orders them, the fence ends all but
    the newest.
    """
    training = 'sleep 1; echo trained >>"$SLURMSWIFT_RUN_DIR/output/trained"'
    jobs = [
        script.start("1", job_id=number, nodes="n1", environment={"TRAINING": training})
        for number in range(11, 15)
    ]
    for job in jobs:
        job.communicate(timeout=120)

    assert len(script.attempts()) == 4
    assert sorted(name[:3] for name in script.attempts()) == ["001", "002", "003", "004"]
    assert (script.run_dir / "output" / "trained").read_text() == "trained\n"
    records = [script.record(name, "exit.json") for name in script.attempts()]
    assert [record["cause_hint"] for record in records] == ["fenced", "fenced", "fenced", None]
    assert [job.returncode for job in jobs].count(0) >= 1


class TestTheSetup:
    def test_what_it_exports_reaches_the_training(self, script: JobScript) -> None:
        (script.run_dir / "setup.sh").write_text("export COLOUR=blue\nunset NOT_SET; : $NOT_SET\n")

        assert run(script, "[[ $COLOUR == blue ]]")[0] == 0

    @pytest.mark.parametrize("text", ["return 4", "exit 4", "set -e; false; true"])
    def test_its_failure_is_recorded(self, script: JobScript, text: str) -> None:
        (script.run_dir / "setup.sh").write_text(text + "\n")
        status, _ = run(script, "exit 0")
        ended = script.record("001-7", "exit.json")

        assert status == ended["status"] == (4 if "4" in text else 1)
        assert ended["cause_hint"] == "setup"
        assert "setup.sh" in str(ended["message"])
        assert started(script) == []

    def test_an_exit_with_zero_is_no_success(self, script: JobScript) -> None:
        (script.run_dir / "setup.sh").write_text("exit 0\n")

        assert run(script, "exit 0")[0] == 1
        assert script.record("001-7", "exit.json")["status"] == 1

    def test_its_traps_and_options_do_not_replace_ours(self, script: JobScript) -> None:
        (script.run_dir / "setup.sh").write_text("trap 'exit 0' EXIT TERM USR2\nset -e -f\n")

        assert run(script, "exit 3")[0] == 3
        assert script.record("001-7", "exit.json")["status"] == 3


def test_without_a_new_enough_python_bash_writes_the_record(tmp_path: Path) -> None:
    old = tmp_path / "python3.6"
    old.write_text("#!/bin/bash\nexit 1\n")
    old.chmod(0o755)
    script = JobScript.make(tmp_path / WEIRD, ["true"], python=str(old))
    status, _ = script.run("1")
    ended = ExitRecord.parse(script.record("001-7", "exit.json"), "exit.json")

    assert (status, ended.status, ended.cause_hint) == (1, 1, "no-python")
    assert ended.message == (f"no Python 3.8 or newer among: {old}; name it by launch.python")
    assert ended.nodes_expected == 2


def test_all_of_it_runs_on_python_3_8(tmp_path: Path) -> None:
    python = python_of_version("3.8")
    if python is None:
        pytest.skip("no Python 3.8 on this machine")
    training = tmp_path / "train"
    training.write_text(TRAINING)
    script = JobScript.make(tmp_path / WEIRD, ["bash", str(training)], python=python)
    whole = save(script.run_dir / "output", 4)
    status, _ = script.run("1", environment={"TRAINING": "exit 3"})

    assert (status, started(script)[0]) == (3, f"n1 resumes from [{whole}]")
    assert script.record("001-7", "exit.json")["nodes_reported"] == 2


def ready(script: JobScript, job: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 20
    while len(started(script)) < 2:
        assert time.monotonic() < deadline
        assert job.poll() is None
        time.sleep(0.05)


def test_term_is_recorded_at_once_and_the_end_after_the_training(script: JobScript) -> None:
    training = 'trap "sleep 1; exit 6" TERM; while :; do sleep 0.05; done'
    job = script.start("1", environment={"TRAINING": training})
    ready(script, job)
    for pid in [job.pid, *(process.pid for process in descendants(job.pid))]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 5
    while not (script.run_dir / "attempts/001-7/ending.json").exists():
        assert time.monotonic() < deadline
        assert job.poll() is None
        time.sleep(0.01)
    assert not (script.run_dir / "attempts/001-7/exit.json").exists()
    ending = Ending.parse(script.record("001-7", "ending.json"), "ending.json")
    job.communicate(timeout=20)

    assert ending.signal == "TERM"
    assert job.returncode == 6
    ended = script.record("001-7", "exit.json")
    assert (ended["status"], ended["nodes_reported"]) == (6, 2)


def test_the_warning_asks_for_a_save_and_ends_nothing(script: JobScript) -> None:
    training = "while [[ ! -e $ATTEMPT_DIR/save-request ]]; do sleep 0.05; done; exit 0"
    job = script.start("1", environment={"TRAINING": training})
    ready(script, job)
    job.send_signal(signal.SIGUSR2)
    job.communicate(timeout=20)

    assert job.returncode == 0
    assert script.record("001-7", "exit.json")["status"] == 0


class TestByHand:
    """Without an epoch: a person submitted it."""

    def by_hand(self, script: JobScript, job_id: int = 9) -> tuple[int, str]:
        return script.run(job_id=job_id, environment={"TRAINING": "exit 0"})

    def test_it_takes_the_next_epoch_and_the_grant(self, script: JobScript) -> None:
        for epoch in (1, 2):
            (script.run_dir / "claims" / f"EPOCH-{epoch:04d}").mkdir()
        status, _ = script.run(job_id=9, environment={"TRAINING": "exit 4"})
        text = (script.run_dir / "grant.json").read_text()
        grant = Grant.parse(json.loads(text), "grant.json")

        assert status == 4
        assert (grant.epoch, grant.job_id, grant.by) == (3, "9", "by hand")
        assert grant.last_attempt == 1
        assert (script.run_dir / "claims" / "EPOCH-0003").is_dir()
        assert script.record("001-9", "start.json")["epoch"] == 3
        assert "epoch 3 was granted" in run(script, "exit 0", "1", job_id=7)[1]

    def test_a_folder_that_was_only_rendered_can_be_submitted(self, script: JobScript) -> None:
        for name in ("grant.json", "run.json"):
            (script.run_dir / name).unlink()

        assert self.by_hand(script)[0] == 0
        assert script.record("001-9", "start.json")["epoch"] == 1

    def test_it_does_not_go_on_while_an_attempt_is_alive(self, script: JobScript) -> None:
        training = "while [[ ! -e $SLURMSWIFT_RUN_DIR/output/go ]]; do sleep 0.05; done"
        job = script.start("1", environment={"TRAINING": training})
        ready(script, job)
        attempt = script.run_dir / "attempts" / "001-7"
        age(attempt, 60)  # the agents alone are fresh
        before = (script.run_dir / "grant.json").read_text()
        status, said = self.by_hand(script)
        (script.run_dir / "output" / "go").touch()
        job.communicate(timeout=20)

        assert status == 1
        assert "an attempt is alive (attempts/001-7/nodes/n" in said
        assert (script.run_dir / "grant.json").read_text() == before
        assert job.returncode == 0
        assert script.attempts() == ["001-7"]
        # It is over now, with every record, and it finished: nothing is left to train.
        assert "the run is complete" in self.by_hand(script)[1]

    def test_a_restart_of_its_job_keeps_the_epoch_and_the_bound(self, script: JobScript) -> None:
        failing = {"TRAINING": "exit 3"}
        assert script.run(job_id=9, environment=failing)[0] == 3
        again = {**failing, "SLURM_RESTART_COUNT": "1"}
        status, said = script.run(job_id=9, environment=again)

        assert (status, script.attempts()) == (0, ["001-9"])
        assert "1 attempts may start under this grant" in said

    def test_a_stopped_run_stays_stopped(self, script: JobScript) -> None:
        (script.run_dir / "stop").touch()

        assert "the run was stopped" in self.by_hand(script)[1]


def test_outside_a_job_it_says_how_to_submit_it(script: JobScript) -> None:
    status, said = script.run("1", environment={"SLURM_JOB_ID": ""})

    assert status == 1
    assert "submit it: sbatch" in said


@pytest.mark.parametrize("template", ["torchrun", "plain"])
def test_bash_and_shellcheck_accept_it(template: str, tmp_path: Path) -> None:
    path = tmp_path / "job.sbatch"
    path.write_text(render(template, tmp_path / WEIRD, ["train.py"], arguments=("a b", "$x")))
    subprocess.run(["/bin/bash", "-n", str(path)], check=True)
    shellcheck = shutil.which("shellcheck")
    if shellcheck:
        subprocess.run([shellcheck, str(path)], check=True)
