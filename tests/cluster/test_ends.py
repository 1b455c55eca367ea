"""Ends that are nobody's fault or the training's own: limits, preemption, memory, an exception."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.slurmswift_cli import EXAMPLE, Cli, Run, slurm
from tests.support.devcluster import DevCluster

pytestmark = pytest.mark.cluster

# No checkpoint but those that it is asked for: where a resume starts tells who asked.
UNSAVED = ("launch.arguments.save_steps=1000", "launch.arguments.step_seconds=0.5")


def record(run: Run, attempt: int, name: str) -> Any:
    return json.loads((run.attempts()[attempt] / name).read_text())


def until_step(run: Run, step: int) -> None:
    run.wait(f"step {step}", lambda: run.attempts() and f" step {step} loss" in run.log(), 120)


def assert_resumed_where_it_left(run: Run) -> None:
    step = record(run, 1, "start.json")["resume_step"]
    assert f"step {step} loss" in run.log(0), run.story()
    assert f"step {step + 1} loss" not in run.log(0), run.story()
    # KillWait is 5 s here: on a machine that is busy, Slurm may kill the script before its record.
    if (run.attempts()[0] / "exit.json").exists():
        left = record(run, 0, "exit.json")
        assert left["status"] == 1
        assert left["message"].startswith(f"left when asked to, at step {step} of")


def test_ahead_of_its_time_limit_it_saves_and_goes_on_at_that_step(watched: Cli) -> None:
    # Slurm's warning may come up to 60 s early: one minute would leave no time to train.
    long = ("launch.arguments.max_steps=90", "launch.arguments.step_seconds=1")
    run = watched.submit(*UNSAVED, *long, "sbatch.time=00:02:00")

    body = run.wait_until_over(400)

    assert body["status"] == "COMPLETED", run.story()
    assert_resumed_where_it_left(run)
    assert record(run, 0, "exit.json")["cause_hint"] == "time-limit"
    assert run.why()[0]["diagnosis"]["cause"] == "sched-time-limit"
    assert [end["status"] for node in nodes(run) for end in node["ranks"]] == [0, 0, 0, 0]


def nodes(run: Run) -> list[Any]:
    paths = (run.attempts()[0] / "nodes").glob("*.json")
    return [json.loads(path.read_text()) for path in paths]


@pytest.fixture
def preempted_by(devcluster: DevCluster) -> Iterator[Any]:
    """Sets what becomes of QOS low when QOS high wants its nodes; requeue again afterwards."""

    def mode(name: str) -> None:
        devcluster.ask("sacctmgr", "-i", "modify", "qos", "low", "set", f"preemptmode={name}")

    yield mode
    mode("requeue")


@pytest.mark.parametrize("mode", ["requeue", "cancel"])
def test_preempted_it_saves_and_goes_on_at_that_step(
    watched: Cli, devcluster: DevCluster, preempted_by: Any, mode: str
) -> None:
    preempted_by(mode)
    run = watched.submit(*UNSAVED, "launch.arguments.max_steps=60", "sbatch.qos=low")
    until_step(run, 3)

    devcluster.sbatch("sleep 5", "--qos=high", "--nodes=4", "--exclusive")
    body = run.wait_until_over(300)

    assert body["status"] == "COMPLETED", run.story()
    assert run.why()[0]["diagnosis"]["cause"] == "sched-preempted", run.story()
    assert record(run, 0, "ending.json")["signal"] == "TERM"
    assert_resumed_where_it_left(run)


def submit_training(cli: Cli, program: str, *sets: str) -> Run:
    """The example with another training in it, in a folder that all hosts see."""
    folder = cli.runs.parent
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(textwrap.dedent(program))
    recipe = folder / "recipe.yaml"
    recipe.write_text(EXAMPLE.read_text())
    return cli.submit(*sets, recipe=recipe)


GREEDY = """
    import os, sys, time
    if os.environ["RANK"] == "3":
        time.sleep(3)
        held = [bytearray(64 << 20) for _ in range(100)]
    time.sleep(60)
"""


def test_memory_over_the_limit_is_named(watched: Cli, devcluster: DevCluster) -> None:
    if "tracking    cgroup" not in devcluster.do("status"):
        pytest.skip("cgroups cannot be written here, so Slurm limits no memory")
    run = submit_training(watched, GREEDY, "sbatch.mem=1500M")

    body = run.wait_until_over(300)

    assert body["status"] == "FAILED", run.story()
    assert body["diagnosis"]["cause"] == "mem-host-oom", run.story()
    assert body["diagnosis"]["rank"] == 3, run.story()
    assert len(run.attempts()) == 2  # once more, for a neighbour may have been the reason


FAULTY = """
    import os, time
    rows = {"a": 1}
    time.sleep(1 if os.environ["RANK"] == "2" else 60)
    print(rows["no such column"])
"""


@pytest.mark.ci
def test_an_exception_is_shown_by_its_own_line_and_not_tried_again(watched: Cli) -> None:
    run = submit_training(watched, FAULTY)

    body = run.wait_until_over()

    assert body["status"] == "FAILED", run.story()
    assert body["diagnosis"]["cause"] == "code-python-exception", run.story()
    assert "KeyError: 'no such column'" in body["diagnosis"]["evidence"]
    assert body["diagnosis"]["rank"] == 2
    assert len(run.attempts()) == 1
    assert slurm("squeue", "-h", "-n", run.run_id) == ""
