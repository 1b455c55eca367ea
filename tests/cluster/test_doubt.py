"""sbatch fails and yet the job is in: it is found again, and no second one is submitted."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.slurmswift_cli import Cli, Run
from tests.support.devcluster import BIN, DevCluster

pytestmark = pytest.mark.cluster

RECIPE = """\
schema: 1
name: doubt
sbatch: {nodes: 1, time: "00:10:00"}
launch: {framework: command, command: train.sh, processes_per_node: 1}
"""
# Fails as long as there is something to fail with; else keeps a log of who trained.
TRAIN = """\
#!/bin/bash
here=${0%/*}
mv "$here/fails" "$here/failed" 2>/dev/null && cat "$here/failed" && exit 1
echo "$ATTEMPT_DIR" >>"$here/trained"
sleep "$(cat "$here/seconds")"
"""
PEER_LOST = "RuntimeError: NCCL error: remote process exited or there was a network error\n"

# Each stands for sbatch once, and gives the job to Slurm.
TIMES_OUT = """\
REAL "$@" >"HERE/answer" || exit
echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
exit 1
"""
HANGS = """\
REAL "$@" >"HERE/answer"
exec sleep 300
"""
# What makes a real sbatch say so: a controller that takes the request, and stands still.
STANDS_STILL = """\
pid=$(DEVCLUSTER exec head cat /run/slurmctld.pid)
DEVCLUSTER exec head kill -STOP "$pid"
REAL "$@" >"HERE/answer" 2>"HERE/words"
status=$?
DEVCLUSTER exec head kill -CONT "$pid"
cat "HERE/words" >&2
exit $status
"""
SHIM = """\
#!/bin/bash
if mv "HERE/once" "HERE/now" 2>/dev/null; then source "HERE/now"; fi
exec REAL "$@"
"""


@dataclass
class Home:
    """A user whose sbatch can give a wrong answer."""

    cluster: DevCluster
    cli: Cli
    folder: Path

    def next_sbatch(self, script: str) -> None:
        (self.folder / "once").write_text(self._filled(script))

    def _filled(self, script: str) -> str:
        real = shutil.which("sbatch")
        assert real
        words = {"REAL": real, "HERE": str(self.folder), "DEVCLUSTER": str(BIN / "devcluster")}
        for word, value in words.items():
            script = script.replace(word, value)
        return script

    def prepare(self) -> None:
        self.folder.mkdir()
        (self.folder / "shims").mkdir()
        (self.folder / "shims/sbatch").write_text(self._filled(SHIM))
        (self.folder / "recipe.yaml").write_text(RECIPE)
        (self.folder / "train.sh").write_text(TRAIN)
        self.training_lasts(1)
        for name in ("shims/sbatch", "train.sh"):
            (self.folder / name).chmod(0o755)
        self.cli.extra["PATH"] = f"{self.folder / 'shims'}{os.pathsep}{os.environ['PATH']}"

    def training_lasts(self, seconds: int) -> None:
        (self.folder / "seconds").write_text(f"{seconds}\n")

    def submit_in_doubt(self, script: str) -> Run:
        self.next_sbatch(script)
        done = self.cli.run("submit", str(self.folder / "recipe.yaml"))
        assert done.returncode == 5, done
        assert "in doubt" in done.stderr
        assert "timed out on send/recv operation" in done.stderr.lower()
        return self.only_run()

    def only_run(self) -> Run:
        (run,) = self.cli.runs.iterdir()
        return Run(self.cli, run.name, run, "")

    def restart_in_doubt(self, script: str) -> Run:
        run = self.failed()
        self.next_sbatch(script)
        self.cli.watch_once()
        assert (self.folder / "answer").exists(), run.story()
        assert "in doubt" in run.status()["reason"], run.story()
        return run

    def failed(self) -> Run:
        """A run whose job has failed, and that Slurm will not requeue."""
        (self.folder / "fails").write_text(PEER_LOST)
        run = self.cli.submit(recipe=self.folder / "recipe.yaml")
        self.cluster.ask("scontrol", "update", f"JobId={run.job_id}", "Requeue=0")
        run.wait("the job failed", lambda: self.cluster.job_state(run.job_id) == "FAILED")
        return run

    def queued(self, run: Run) -> list[str]:
        """What slurmctld says of every job by the run's name that it has not forgotten."""
        options = ("--noheader", "--states=all", "--sort=i", "--format=%T")
        return self.cluster.ask("squeue", *options, f"--name={run.run_id}").split()

    def states(self, run: Run) -> list[str]:
        """Slurm's word on every job by the run's name that accounting knows."""
        options = ("--duplicates", "-X", "-n", "-P", "--starttime=now-2days", "--format=State")
        return self.cluster.ask("sacct", *options, f"--name={run.run_id}").split()

    def wait_until_forgotten(self, run: Run) -> None:
        run.wait("slurmctld has forgotten its jobs", lambda: not self.queued(run), 180)

    def wait_for_jobs(self, run: Run, states: list[str]) -> None:
        run.wait("the jobs are over", lambda: self.states(run) == states, 60)

    def assert_resolved(self, run: Run, jobs: list[str]) -> None:
        """The watcher finds the job once whoever submitted cannot be at it any more."""
        self.wait_for_jobs(run, jobs)
        self.cli.watch_once()
        assert run.status()["job_id"] is None, run.story()
        run.make_older()
        self.assert_completes(run, jobs=len(jobs))
        assert self.states(run) == jobs, run.story()
        ends = [end["slurm_state"] for end in run.record("run.json")["ends"]]
        assert ends == jobs, run.story()

    def assert_completes(self, run: Run, *, jobs: int) -> None:
        """With so many jobs, the last of which alone trained."""
        at_rest = ("COMPLETED", "FAILED", "CANCELLED", "HELD")
        run.wait("it is over", lambda: passed(run) in at_rest)
        assert run.status()["status"] == "COMPLETED", run.story()
        trained = (self.folder / "trained").read_text().splitlines()
        assert [Path(line) for line in trained] == run.attempts()[-1:], run.story()
        assert len(run.attempts()) == jobs, run.story()


def passed(run: Run) -> str:
    run.cli.watch_once()
    status: str = run.status()["status"]
    return status


def home_on(cluster: DevCluster, folder: Path) -> Home:
    made = Home(cluster, Cli.on(cluster, folder), cluster.shared / folder.name)
    made.prepare()
    return made


@pytest.fixture
def home(tmp_path: Path, devcluster: DevCluster) -> Home:
    return home_on(devcluster, tmp_path)


@pytest.mark.parametrize("script", [TIMES_OUT, STANDS_STILL], ids=["says so", "stands still"])
def test_a_submission_that_timed_out_although_the_job_is_in(home: Home, script: str) -> None:
    run = home.submit_in_doubt(script)

    assert (home.folder / "answer").exists()
    home.assert_resolved(run, ["COMPLETED"])


@pytest.mark.parametrize("script", [TIMES_OUT, STANDS_STILL], ids=["says so", "stands still"])
def test_a_restart_that_timed_out_although_the_job_is_in(home: Home, script: str) -> None:
    run = home.restart_in_doubt(script)

    home.assert_resolved(run, ["FAILED", "COMPLETED"])


# Our own patience with sbatch is longer than a test should take.
IMPATIENT = (
    "import sys; from slurmswift.slurm import client; client.SUBMIT_SECONDS = 6.0;"
    " from slurmswift.__main__ import main; sys.exit(main())"
)


def test_an_sbatch_that_never_ends_although_the_job_is_in(home: Home) -> None:
    home.next_sbatch(HANGS)
    words = ("-c", IMPATIENT, "submit", home.folder / "recipe.yaml")

    done = home.cluster.command("env", *environment(home.cli), sys.executable, *words)

    assert done.returncode == 5, done
    assert "sbatch gave no answer within 6 s" in done.stderr
    home.assert_resolved(home.only_run(), ["COMPLETED"])


def environment(cli: Cli) -> list[str]:
    return [f"{name}={value}" for name, value in cli.environment.items()]
