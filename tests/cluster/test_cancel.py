"""What its owner cancelled stays cancelled, in every window that a watcher could overlook."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cluster.slurmswift_cli import Cli, Run, slurm, wait_for
from tests.support.devcluster import DevCluster

pytestmark = pytest.mark.cluster

RECIPE = """\
schema: 1
name: cancel
sbatch: {nodes: 2, time: "00:10:00"}
launch: {framework: command, command: train.sh, processes_per_node: 1}
"""
FAILS = """\
#!/bin/bash
sleep "${SECONDS_TO_FAIL:-1}"
echo 'RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.1]:5'
exit 1
"""
RUNS = "#!/bin/bash\nsleep 300\n"
STUBBORN = "#!/bin/bash\ntrap '' TERM\nfor i in {1..300}; do sleep 1; done\n"


@pytest.fixture
def watched(cli: Cli) -> Iterator[Cli]:
    """A watcher that looks again and again, as fast as it can."""
    loop = "while :; do " + f'"{sys.executable}" -m slurmswift watch --once; done'
    log = cli.state.parent / "watch.log"
    with log.open("w") as out:
        watcher = subprocess.Popen(
            ["/bin/bash", "-c", loop],
            env=cli.environment,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    yield cli
    os.killpg(watcher.pid, 9)
    watcher.wait()


def submit(cli: Cli, script: str) -> Run:
    folder = cli.runs.parent / "recipe"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "train.sh").write_text(script)
    (folder / "train.sh").chmod(0o755)
    return cli.submit(recipe=folder / "recipe.yaml")


def assert_stays_cancelled(run: Run, attempts: int) -> None:
    run.wait("CANCELLED", lambda: cancelled_by_passes(run.cli, run), 120)
    for _ in range(10):
        run.cli.run("watch", "--once")
    assert run.status()["status"] == "CANCELLED", run.story()
    assert len(run.attempts()) == attempts, run.story()
    queued = slurm("squeue", "--noheader", f"--name={run.run_id}", "--format=%T")
    assert queued.split() == [], run.story()


def test_while_it_runs(watched: Cli) -> None:
    run = submit(watched, RUNS)
    run.wait("it runs", lambda: run.status()["status"] == "RUNNING" and run.attempts())

    slurm("scancel", run.job_id)

    assert_stays_cancelled(run, attempts=1)


def test_while_a_rank_ignores_term(watched: Cli) -> None:
    run = submit(watched, STUBBORN)
    run.wait("it runs", lambda: run.status()["status"] == "RUNNING" and run.attempts())

    slurm("scancel", run.job_id)

    assert_stays_cancelled(run, attempts=1)


def test_in_the_second_after_the_training_failed(watched: Cli) -> None:
    run = submit(watched, FAILS)
    run.wait("it failed", lambda: any(run.path.glob("attempts/*/nodes/*.json")))

    slurm("scancel", run.job_id)

    # Whether the cancel or the end came first, Slurm decides; a cancel that counts is final.
    run.wait("it settled", lambda: run.status()["status"] in ("CANCELLED", "PENDING", "RUNNING"))
    slurm("scancel", run.job_id)
    assert_stays_cancelled(run, attempts=len(run.attempts()))


def test_while_it_is_pending_after_a_requeue(cli: Cli) -> None:
    run = submit(cli, FAILS)
    run.wait(
        "it failed", lambda: (run.attempts()[0] / "exit.json").exists() if run.attempts() else 0
    )
    slurm("scontrol", "update", "NodeName=node[01-04]", "State=drain", "Reason=test")
    try:
        run.wait("it is back in the queue", lambda: requeued_by(cli, run), 120)
        slurm("scancel", run.job_id)
        assert_stays_cancelled(run, attempts=1)
    finally:
        slurm("scontrol", "update", "NodeName=node[01-04]", "State=resume")


def requeued_by(cli: Cli, run: Run) -> bool:
    cli.watch_once()
    return bool(run.status()["status"] == "PENDING")


HOLD_AND_DIE = """
import os, sys
from pathlib import Path
from slurmswift.cli.tools import make_tools
from slurmswift.app import restart
from slurmswift.app.chronicle import Chronicle
from slurmswift.files.run_directory import RunDirectory
from dataclasses import replace
from slurmswift.domain.run import Intent
run = RunDirectory(Path(sys.argv[1]))
tools = make_tools()
state = run.read_state()
intent = Intent("requeue", state.epoch, state.job_id, ("node04",), hold=True, at=tools.now())
Chronicle(run, state, "test").save(replace(state, intent=intent))
print(tools.slurm.requeue(state.job_id, hold=True))
"""


def test_while_it_is_held_by_our_own_requeuehold(cli: Cli) -> None:
    run = submit(cli, FAILS)
    state = wait_for("the job ended", lambda: job_state(run) == "FAILED", 90)
    assert state
    # A watcher that dies between its requeuehold and the release.
    subprocess.run(
        [sys.executable, "-c", HOLD_AND_DIE, str(run.path)],
        check=True,
        env=cli.environment,
        capture_output=True,
    )
    wait_for("it is held", lambda: job_state(run) == "PENDING", 60)

    slurm("scancel", run.job_id)

    for _ in range(3):
        cli.watch_once()
    assert_stays_cancelled(run, attempts=1)


def job_state(run: Run) -> str:
    return slurm("squeue", "-h", "--states=all", "-j", run.job_id, "-o", "%T").strip()


def test_stop_while_slurmctld_is_down(cli: Cli, devcluster: DevCluster) -> None:
    run = submit(cli, RUNS)
    run.wait("it runs", run.attempts)
    devcluster.do("ctld", "stop")

    done = cli.run("stop", run.run_id)

    assert done.returncode == 5, done.stderr
    assert "recorded" in done.stderr
    devcluster.do("ctld", "start")
    run.wait("CANCELLED", lambda: cancelled_by_passes(cli, run), 120)
    assert_stays_cancelled(run, attempts=1)


def cancelled_by_passes(cli: Cli, run: Run) -> bool:
    cli.run("watch", "--once")
    return bool(run.status()["status"] == "CANCELLED")
