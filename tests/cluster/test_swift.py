"""Real ms-swift on a real Slurm: cut off, damaged, out of time, and in the end the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.slurmswift_cli import Cli, Run
from tests.support.devcluster import DevCluster
from tests.support.tiny_swift import final_state, make_example, swift_python, train_undisturbed

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(swift_python() is None, reason="needs ms-swift: see tests/support"),
]


@pytest.fixture(scope="module")
def example(running_devcluster: DevCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example in a folder that all nodes see, its tiny model made."""
    name = tmp_path_factory.mktemp("swift").name
    return make_example(running_devcluster.shared / name)


def submit(cli: Cli, example: Path, recipe: str, *sets: str) -> Run:
    python = f"launch.python={swift_python()}"
    return cli.submit(python, *sets, recipe=example / recipe)


def undisturbed(run: Run, example: Path) -> dict[str, Any]:
    """The end of the same training by hand, on one machine."""
    plan = run.record("plan.json")
    output = example / f"undisturbed-{run.run_id}"
    words = [*plan["command"], *plan["arguments"]]
    return train_undisturbed(example, tuple(words), output)


def test_a_cut_network_costs_time_and_nothing_else(
    watched: Cli, devcluster: DevCluster, example: Path
) -> None:
    run = submit(watched, example, "sft-full-cpu.yaml")
    run.wait_until_training(5)
    victim = run.nodes()[1]

    devcluster.do("cut", victim)
    body = run.wait_until_over(360)

    assert body["status"] == "COMPLETED", run.story()
    assert len(run.attempts()) == 2, run.story()
    decision = run.why()[0]
    assert decision["diagnosis"]["category"] == "communication", run.story()
    assert decision["diagnosis"]["node"] == victim
    step = run.resumed_step()
    assert step is not None
    assert step >= 10, run.story()
    assert final_state(run.path / "output") == undisturbed(run, example)
