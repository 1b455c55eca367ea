"""Each framework on a real Slurm: to the end undisturbed, and again after a rank was killed."""

from __future__ import annotations

from typing import Any

import pytest

from slurmswift.domain.causes import CAUSES
from tests.cluster.slurmswift_cli import ROOT, Cli, Run
from tests.support.devcluster import DevCluster

pytestmark = pytest.mark.cluster

FRAMEWORKS = {
    name: ROOT / "examples" / folder / "recipe.yaml"
    for name, folder in (("srun", "srun-cpu"), ("command", "command"))
}
LONG = ("launch.arguments.max_steps=40", "launch.arguments.step_seconds=0.4")
SHORT = ("launch.arguments.max_steps=8", "launch.arguments.step_seconds=0")


def nodes_of(run: Run, attempt: int) -> list[str]:
    nodes: list[str] = run.record(f"attempts/{run.attempts()[attempt].name}/start.json")["nodes"]
    return nodes


def ranks_of(run: Run, attempt: int) -> list[Any]:
    folder = f"attempts/{run.attempts()[attempt].name}/nodes"
    return [
        rank
        for node in nodes_of(run, attempt)
        for rank in run.record(f"{folder}/{node}.json")["ranks"]
    ]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_undisturbed_it_completes(watched: Cli, framework: str) -> None:
    run = watched.submit(*SHORT, recipe=FRAMEWORKS[framework])

    body = run.wait_until_over()

    assert body["status"] == "COMPLETED", run.story()
    assert body["restarts"] == 0
    assert run.final_loss()["steps"] == 8
    ends = [(rank["rank"], rank["status"]) for rank in ranks_of(run, 0)]
    assert ends == [(0, 0), (1, 0), (2, 0), (3, 0)], run.story()


def test_each_rank_of_srun_has_a_log_of_its_own(watched: Cli) -> None:
    run = watched.submit(*SHORT, recipe=FRAMEWORKS["srun"])
    run.wait_until_over()

    said = watched.ok("logs", "--rank", "3", run.run_id)

    assert "[rank 3] step 8 loss" in said
    assert "[rank 2]" not in said
    assert "1: [rank3]: [rank 3] step 8 loss" in run.log(), run.story()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_killed_rank_is_named_and_the_run_goes_on(
    watched: Cli, devcluster: DevCluster, framework: str
) -> None:
    run = watched.submit(*LONG, recipe=FRAMEWORKS[framework])
    run.wait_until_training()
    victim = nodes_of(run, 0)[1]

    # The youngest whose command line is a rank's own, not its launcher's.
    devcluster.on(victim, "pkill", "-9", "-n", "-f", "^[^ ]*python[^ ]* (-u )?[^ ]*/train.py ")
    body = run.wait_until_over()

    assert body["status"] == "COMPLETED", run.story()
    assert run.final_loss()["steps"] == 40
    diagnosis = run.why()[0]["diagnosis"]
    killed = [rank["rank"] for rank in ranks_of(run, 0) if rank["signal"] == 9]
    assert killed[:1] in ([2], [3]), run.story()
    assert (diagnosis["node"], diagnosis["rank"]) == (victim, killed[0]), run.story()
    assert CAUSES[diagnosis["cause"]].category == "communication"
    start = run.record(f"attempts/{run.attempts()[1].name}/start.json")
    assert start["resume_step"] == run.why()[0]["step"] > 0
    assert f"resumed from {start['resume_from']}" in run.log(1)
