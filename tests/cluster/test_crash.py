"""slurmswift is killed right before and right after what it asks of Slurm; one attempt trains."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.slurmswift_cli import Cli, Run, slurm, wait_for
from tests.support.devcluster import DevCluster

pytestmark = pytest.mark.cluster

RECIPE = """\
schema: 1
name: crash
sbatch: {nodes: 2, time: "00:10:00"}
launch: {framework: command, command: train.sh, processes_per_node: 1}
"""
# The second node's program fails at first; rank 0 keeps a log of who trained and when.
TRAIN = """\
#!/bin/bash
here=${0%/*}
if [[ $NODE_RANK == 1 && -s $here/fails ]]; then
  cat "$here/fails" && rm "$here/fails"
  exit 1
fi
[[ $NODE_RANK != 0 ]] || echo "begin $ATTEMPT_DIR" >>"$here/trained"
sleep "$(cat "$here/seconds")"
[[ $NODE_RANK != 0 ]] || echo "end $ATTEMPT_DIR" >>"$here/trained"
"""
PEER_LOST = "RuntimeError: NCCL error: remote process exited or there was a network error\n"
NODE_FAULT = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"

# Stands for a command of Slurm's: kills who called it, before the real one ran or after.
SHIM = """\
#!/bin/bash
call="${0##*/} $*"
at=$(cat "${0%/*}/kill-at" 2>/dev/null)
if [[ -n $at && $call == ${at#* }* ]]; then
  rm "${0%/*}/kill-at"
  [[ $at == before* ]] || REAL "$@" >/dev/null 2>&1
  kill -KILL "$PPID"
  exit 1
fi
exec REAL "$@"
"""


@dataclass
class Home:
    """A user whose slurmswift can be killed from within Slurm's commands."""

    cli: Cli
    shims: Path
    recipe: Path

    def kill_at(self, moment: str, call: str) -> None:
        (self.shims / "kill-at").write_text(f"{moment} {call}")

    def killed(self, *arguments: str) -> None:
        """Run a command line that does not survive."""
        done = self.cli.run(*arguments)
        assert done.returncode == -signal.SIGKILL, (arguments, done.returncode, done.stderr)

    def fails_with(self, text: str) -> None:
        (self.recipe.parent / "fails").write_text(text)

    def trained(self) -> list[str]:
        return (self.recipe.parent / "trained").read_text().splitlines()

    def run(self) -> Run:
        (index,) = (self.cli.state / "runs").iterdir()
        path = Path(json.loads(index.read_text())["run_dir"])
        return Run(self.cli, index.name, path, "")

    def submit(self, seconds: float) -> Run:
        (self.recipe.parent / "seconds").write_text(f"{seconds:g}\n")
        return self.cli.submit(recipe=self.recipe)


@pytest.fixture
def home(tmp_path: Path, devcluster: DevCluster) -> Home:
    shims = tmp_path / "shims"
    shims.mkdir()
    for name in ("sbatch", "scontrol", "scancel"):
        real = shutil.which(name)
        assert real
        (shims / name).write_text(SHIM.replace("REAL", real))
        (shims / name).chmod(0o755)
    folder = devcluster.shared / tmp_path.name
    folder.mkdir()
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "train.sh").write_text(TRAIN)
    (folder / "train.sh").chmod(0o755)
    path = f"{shims}{os.pathsep}{os.environ['PATH']}"
    cli = Cli(
        tmp_path / "state",
        folder / "runs",
        devcluster.root / "etc" / "profile.yaml",
        {"PATH": path},
    )
    return Home(cli, shims, folder / "recipe.yaml")


def assert_trained_once_at_a_time(home: Home, run: Run, attempts: int) -> None:
    """One after the other, the last to its end, and Slurm has nothing left of it."""
    lines = home.trained()
    names = [path.name for path in run.attempts()]
    assert len(names) == attempts, run.story()
    said = [(line.split()[0], line.rpartition("/")[2]) for line in lines]
    # The first of an attempt that fails may come to its end before it is told to.
    expected = [("begin", name) for name in names] + [("end", name) for name in names]
    expected.sort(key=lambda each: (each[1], each[0]))
    assert said == [each for each in expected if each in said], (lines, run.story())
    assert {("begin", name) for name in names} <= set(said), (lines, run.story())
    assert said[-1] == ("end", names[-1]), (lines, run.story())
    queued = slurm("squeue", "--noheader", f"--name={run.run_id}", "--format=%T")
    assert queued.split() == [], run.story()
    claims = [path.name for path in (run.path / "claims").iterdir()]
    assert len(set(claims)) == len(claims)


def pass_until_over(run: Run, status: str) -> None:
    def over() -> bool:
        run.cli.run("watch", "--once")
        return bool(run.status()["status"] in ("COMPLETED", "FAILED", "CANCELLED", "HELD"))

    run.wait("it is over", over, 120)
    assert run.status()["status"] == status, run.story()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_submit(home: Home, moment: str) -> None:
    (home.recipe.parent / "seconds").write_text("3\n")
    home.kill_at(moment, "sbatch ")
    home.killed("submit", str(home.recipe))
    run = home.run()
    home.cli.watch_once()
    assert run.status()["status"] == "PLANNED"

    run.make_older()
    pass_until_over(run, "COMPLETED")

    assert_trained_once_at_a_time(home, run, attempts=1)


AFTER_A_FAILURE = {
    "requeue": (PEER_LOST, "scontrol requeue "),
    "start now": (PEER_LOST, "scontrol update JobId=*StartTime=now"),
    "requeuehold": (NODE_FAULT, "scontrol requeuehold "),
    "exclude": (NODE_FAULT, "scontrol update JobId=*ExcNodeList="),
    "release": (NODE_FAULT, "scontrol release "),
}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("act", AFTER_A_FAILURE)
def test_watch(home: Home, act: str, moment: str) -> None:
    failure, call = AFTER_A_FAILURE[act]
    home.fails_with(failure)
    run = home.submit(seconds=3)
    home.kill_at(moment, call)
    died = False

    def passed() -> bool:
        nonlocal died
        died = home.cli.run("watch", "--once").returncode == -signal.SIGKILL
        return died

    run.wait("a pass was killed", passed, 90)
    pass_until_over(run, "COMPLETED")

    assert_trained_once_at_a_time(home, run, attempts=2)
    if failure == NODE_FAULT:
        assert run.nodes(0)[1] not in run.nodes(1), run.story()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_resume(home: Home, moment: str) -> None:
    run = home.submit(seconds=600)
    run.wait("it trains", (home.recipe.parent / "trained").exists, 60)
    home.cli.ok("stop", run.run_id)
    pass_until_over(run, "CANCELLED")
    (home.recipe.parent / "seconds").write_text("3\n")
    home.kill_at(moment, "sbatch ")

    home.killed("resume", run.run_id)
    run.make_older()
    pass_until_over(run, "COMPLETED")

    assert_trained_once_at_a_time(home, run, attempts=2)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_stop(home: Home, moment: str) -> None:
    run = home.submit(seconds=600)
    run.wait("it trains", (home.recipe.parent / "trained").exists, 60)
    home.kill_at(moment, "scancel ")

    home.killed("stop", run.run_id)
    pass_until_over(run, "CANCELLED")

    wait_for(
        "nothing is left",
        lambda: not slurm("squeue", "--noheader", f"--name={run.run_id}", "--format=%T").split(),
        60,
    )
    assert len(run.attempts()) == 1
