"""Nodes that are lost: by power, or to Slurm alone while their ranks live on."""

from __future__ import annotations

import pytest

from tests.cluster.slurmswift_cli import Cli, Run
from tests.support.devcluster import DevCluster

pytestmark = pytest.mark.cluster

LONG = ("launch.arguments.max_steps=60", "launch.arguments.step_seconds=0.5")


@pytest.mark.parametrize(("fault", "position"), [("kill", 1), ("kill", 0), ("cut", 1), ("cut", 0)])
def test_a_lost_node_costs_one_restart_elsewhere(
    watched: Cli, devcluster: DevCluster, fault: str, position: int
) -> None:
    run = watched.submit(*LONG)
    run.wait_until_training()
    victim = run.nodes()[position]

    if fault == "kill":
        devcluster.do("kill", victim)
    else:
        devcluster.do("cut", victim, "eth0")
    body = run.wait_until_over(seconds=600)

    assert body["status"] == "COMPLETED", run.story()
    assert body["restarts"] == 1, run.story()
    assert victim not in run.nodes(), run.story()
    first = run.why()[0]
    assert first["diagnosis"]["cause"] == "hw-node-failure", run.story()
    assert first["diagnosis"]["node"] == victim, run.story()
    assert run.resumed_step() == first["step"], run.story()
    run.assert_one_writer()
    if fault == "cut":
        assert_ended_itself(run, victim)


def assert_ended_itself(run: Run, node: str) -> None:
    """Slurm could not reach the node: its agent ended the ranks by itself, and said so."""
    record = run.record(f"attempts/{run.attempts()[0].name}/nodes/{node}.json")
    assert record["ended_at"] > record["started_at"]
