"""Real ms-swift on a real Slurm: cut off, damaged, out of time, and in the end the same model."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.slurmswift_cli import Cli, Run, slurm
from tests.support import damage
from tests.support.devcluster import DevCluster
from tests.support.tiny_swift import (
    extensions,
    final_state,
    make_example,
    swift_python,
    train_undisturbed,
)

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
    own = (
        f"launch.python={swift_python()}",
        f"environment.variables.TORCH_EXTENSIONS_DIR={extensions(example)}",
    )
    return cli.submit(*own, *sets, recipe=example / recipe)


RECIPES = {
    "full": "sft-full-cpu.yaml",
    "lora": "sft-lora-cpu.yaml",
    "zero2": "sft-zero2-cpu.yaml",
}


@dataclass(frozen=True)
class Whole:
    """An undisturbed training: its output, and how it ended."""

    output: Path
    state: dict[str, Any]


class Trainings:
    """Makes an undisturbed training of each kind at most once, with the words that are rendered."""

    def __init__(self, example: Path, folder: Path, cluster: DevCluster) -> None:
        self._example = example
        self._folder = folder
        profile = cluster.root / "etc" / "profile.yaml"
        self._cli = Cli(folder / "state", folder / "runs", profile)
        self._made: dict[str, Whole] = {}

    def of(self, kind: str, sets: tuple[str, ...] = ()) -> Whole:
        name = f"{kind}-{len(sets)}"
        if name not in self._made:
            self._made[name] = self._train(name, RECIPES[kind], sets)
        return self._made[name]

    def _train(self, name: str, recipe: str, sets: tuple[str, ...]) -> Whole:
        options = [word for text in sets for word in ("--set", text)]
        rendered = self._folder / name
        self._cli.ok("render", str(self._example / recipe), *options, "--output", str(rendered))
        plan = json.loads((rendered / "plan.json").read_text())
        output = self._example / f"whole-{name}"
        words = (*plan["command"], *plan["arguments"])
        return Whole(output, train_undisturbed(self._example, words, output))


@pytest.fixture(scope="module")
def whole(
    running_devcluster: DevCluster, example: Path, tmp_path_factory: pytest.TempPathFactory
) -> Trainings:
    return Trainings(example, tmp_path_factory.mktemp("whole"), running_devcluster)


@pytest.mark.parametrize("kind", RECIPES)
def test_a_cut_network_costs_time_and_nothing_else(
    watched: Cli, devcluster: DevCluster, example: Path, whole: Trainings, kind: str
) -> None:
    state = whole.of(kind).state
    run = submit(watched, example, RECIPES[kind])
    run.wait_until_training(5, 240)
    victim = run.nodes()[1]

    devcluster.do("cut", victim)
    body = run.wait_until_over(480)

    assert body["status"] == "COMPLETED", run.story()
    assert len(run.attempts()) == 2, run.story()
    decision = run.why()[0]
    assert decision["diagnosis"]["category"] == "communication", run.story()
    assert decision["diagnosis"]["node"] == victim
    step = run.resumed_step()
    assert step is not None
    assert step >= 10, run.story()
    assert final_state(run.path / "output") == state


# Twelve steps with three checkpoints, the weights in two shards.
SHORT = (
    "launch.arguments.max_steps=12",
    "launch.arguments.save_steps=4",
    "environment.variables.STEP_SECONDS=0",
)
SETS = {"full": (*SHORT, "launch.arguments.max_shard_size=100KB"), "lora": SHORT, "zero2": SHORT}
NEWEST, BEFORE = damage.STEP, 4
# Every way takes a minute: some of them with each test of the cluster, all with --sweep.
OFTEN = {
    ("full", "cut zip"),
    ("full", "rng of one rank"),
    ("full", "half written"),
    ("lora", "cut safetensors"),
    ("zero2", "missing shard"),
}
ALL = [
    pytest.param(
        kind,
        way,
        id=f"{kind}-{way.name}".replace(" ", "-"),
        marks=() if (kind, way.name) in OFTEN else pytest.mark.sweep,
    )
    for kind, ways in damage.KINDS.items()
    for way in ways
]


@pytest.mark.parametrize(("kind", "way"), ALL)
def test_a_damaged_newest_checkpoint_is_passed_over_and_named(
    watched: Cli, example: Path, whole: Trainings, kind: str, way: damage.Damage
) -> None:
    # The output of an earlier training of this very run, as its next attempt finds it.
    run = submit(watched, example, RECIPES[kind], *SETS[kind], "sbatch.begin=now+1hour")
    output = run.path / "output"
    for step in (BEFORE, NEWEST):
        shutil.copytree(
            whole.of(kind, SETS[kind]).output / f"checkpoint-{step}", output / f"checkpoint-{step}"
        )
    way.do(output / f"checkpoint-{NEWEST}")

    slurm("scontrol", "update", f"JobId={run.job_id}", "StartTime=now")
    body = run.wait_until_over(360)

    assert body["status"] == "COMPLETED", run.story()
    assert run.resumed_step() == BEFORE, run.story()
    assert final_state(output) == whole.of(kind, SETS[kind]).state
    told = watched.ok("why", run.run_id)
    assert f"passed over checkpoint-{NEWEST} (now .bad-checkpoint-{NEWEST}-001)" in told
    assert way.said in told, told
    # Nothing is removed; and what was saved in its place is whole.
    assert sorted(path.name for path in output.glob("checkpoint-[0-9]*")) == [
        "checkpoint-12",
        "checkpoint-4",
        "checkpoint-8",
    ]
    assert (output / f".bad-checkpoint-{NEWEST}-001").is_dir()


def test_ahead_of_the_time_limit_it_saves_and_goes_on_from_there(
    watched: Cli, example: Path
) -> None:
    run = submit(
        watched,
        example,
        "sft-full-cpu.yaml",
        "sbatch.time=2",
        "launch.arguments.max_steps=400",
        "launch.arguments.save_steps=1000",  # nothing is saved but on request
        "launch.arguments.dataloader_num_workers=2",
        "environment.variables.STEP_SECONDS=1",
    )

    run.wait("a second attempt trains", lambda: _second_resumes(run), 300)

    first = run.why()[0]
    assert first["diagnosis"]["cause"] == "sched-time-limit", run.story()
    step = run.resumed_step()
    assert step == first["step"]
    assert step is not None
    assert step > 0
    assert f"left when asked to, at step {step} of 400" in run.story()
    watched.ok("stop", run.run_id)


def _second_resumes(run: Run) -> bool:
    return len(run.attempts()) > 1 and "'global_step/max_steps'" in run.log(1)
