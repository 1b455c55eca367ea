"""The main faults with Slurm's own time-outs: what holds with short ones holds with these."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.slurmswift_cli import Cli, Run
from tests.support.devcluster import DevCluster, another

pytestmark = [pytest.mark.cluster, pytest.mark.sweep, pytest.mark.torch]

LONG = ("launch.arguments.max_steps=60", "launch.arguments.step_seconds=0.5")
# SlurmdTimeout is 300 s and looked at once in a third of it; then KillWait, and the training.
LOST_SECONDS = 1200.0
# Trains still when Slurm gives up a node that it cannot reach.
OUTLASTS_SLURM = (
    "launch.arguments.max_steps=1000",
    "launch.arguments.step_seconds=0.5",
    "sbatch.time=00:30:00",
)


@pytest.fixture(scope="module")
def production() -> Iterator[DevCluster]:
    """A cluster with Slurm's default time-outs, beside the one of all tests."""
    with another("4", "--like-production") as cluster:
        yield cluster


@pytest.fixture
def user(tmp_path: Path, running_devcluster: DevCluster, production: DevCluster) -> Iterator[Cli]:
    """A user of that cluster, with a watcher at work; every node is up again afterwards."""
    assert production.root != running_devcluster.root
    cli = Cli.on(production, tmp_path)
    watcher = cli.watcher()
    yield cli
    watcher.terminate()
    watcher.wait(60)
    # A cancelled job whose node was lost is over only when Slurm has given the node up.
    production.make_whole(within=400)


def assert_survived(run: Run, victim: str, cause: str) -> None:
    """One restart, without the node, at the step that was reached; the run completed."""
    body = run.wait_until_over(LOST_SECONDS)
    assert body["status"] == "COMPLETED", run.story()
    assert body["restarts"] == 1, run.story()
    first = run.why()[0]
    assert first["diagnosis"]["node"] == victim, run.story()
    assert cause in (first["diagnosis"]["cause"], first["diagnosis"]["category"]), run.story()
    assert victim not in run.nodes(), run.story()
    assert run.resumed_step() == first["step"], run.story()
    run.assert_one_writer()


@pytest.mark.parametrize("position", [0, 1])
def test_a_node_without_power(user: Cli, production: DevCluster, position: int) -> None:
    run = user.submit(*LONG)
    run.wait_until_training()
    victim = run.nodes()[position]

    production.do("kill", victim)

    assert_survived(run, victim, "hw-node-failure")


@pytest.mark.parametrize("position", [0, 1])
def test_a_node_that_slurm_alone_cannot_reach(
    user: Cli, production: DevCluster, position: int
) -> None:
    """The training goes on all the while, and ends when Slurm fails the job for that node."""
    run = user.submit(*OUTLASTS_SLURM)
    run.wait_until_training()
    victim, step = run.nodes()[position], run.newest_step()

    production.do("cut", victim, "eth0")

    assert_survived(run, victim, "hw-node-failure")
    assert (run.resumed_step() or 0) > step + 100, run.story()


def test_a_node_without_the_trainings_network(user: Cli, production: DevCluster) -> None:
    run = user.submit(*LONG)
    run.wait_until_training()
    victim = run.nodes()[1]

    production.do("cut", victim)

    assert_survived(run, victim, "communication")


def test_a_cancel_is_final(user: Cli, production: DevCluster) -> None:
    run = user.submit(*LONG)
    run.wait_until_training()

    production.ask("scancel", run.job_id)

    body = run.wait_until_over(300)
    assert body["status"] == "CANCELLED", run.story()
    for _ in range(3):
        user.run("watch", "--once")
    assert run.status()["status"] == "CANCELLED", run.story()
    assert len(run.attempts()) == 1


def test_ahead_of_its_time_limit_it_saves_and_goes_on_at_that_step(user: Cli) -> None:
    run = user.submit(
        "launch.arguments.save_steps=1000",
        "launch.arguments.step_seconds=1",
        "launch.arguments.max_steps=90",
        "sbatch.time=00:02:00",
    )

    body = run.wait_until_over(500)

    assert body["status"] == "COMPLETED", run.story()
    assert run.why()[0]["diagnosis"]["cause"] == "sched-time-limit", run.story()
    step = run.resumed_step()
    assert f"step {step} loss" in run.log(0), run.story()
    assert f"step {step}" in json.dumps(run.record(f"attempts/{run.attempts()[0].name}/exit.json"))
    run.assert_one_writer()
