"""The fake prints what a real Slurm 22.05 printed: the same shapes to the same calls."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from slurmswift.slurm import answers, commands
from tests.support.fake_slurm.programs import respond
from tests.support.fake_slurm.world import World

RECORDED = Path(__file__).parents[1] / "recorded" / "slurm-22.05" / "answers.json"
SCRIPT = "#!/bin/bash\n#SBATCH --job-name=tiny-260101-abcde\n"


@pytest.fixture
def recorded() -> Any:
    return json.loads(RECORDED.read_text())


@pytest.fixture
def world(tmp_path: Path) -> World:
    """As recorded: job 1 was requeued and runs again, job 2 cancelled while held, job 3 failed."""
    script = tmp_path / "job.sbatch"
    script.write_text(SCRIPT)
    world = World()
    for epoch in ("1", "2", "3"):
        assert respond(world, commands.submit(str(script), int(epoch)))[0] == 0
    first, second, third = world.jobs
    second.held = True
    first.row.state, first.row.start, first.row.nodes = "RUNNING", world.now, "node[01-02]"
    world.now += 1
    respond(world, commands.requeue("1", hold=False))
    first.row.state, first.row.start, first.row.nodes = "RUNNING", world.now, "node[03-04]"
    respond(world, commands.cancel(("2",), "tiny-260101-abcde"))
    third.row.start, third.row.nodes = world.now, "node[01-02]"
    world.end(third, "FAILED", "3:0")
    return world


def test_squeue(world: World, recorded: Any) -> None:
    status, stdout, _ = respond(world, commands.queue_of_user())
    real = answers.parse_queue(_with_commands(recorded))
    fake = answers.parse_queue(stdout)
    assert status == recorded["squeue-over"]["status"]
    assert [(row.job_id, row.state, row.restart_count, row.nodes) for row in fake] == [
        (row.job_id, row.state, row.restart_count, row.nodes)
        for row in sorted(real, key=lambda row: row.job_id)
    ]
    assert {_shape(line) for line in stdout.splitlines()} <= {
        _shape(line) for line in _with_commands(recorded).splitlines()
    }


def test_sacct(world: World, recorded: Any) -> None:
    _, stdout, _ = respond(world, commands.accounts_of_user("root", since=0))
    real = answers.parse_accounts(recorded["sacct-over"]["stdout"])
    fake = answers.parse_accounts(stdout)
    assert [(row.job_id, row.step, row.exit_code) for row in fake if not row.step] == [
        (row.job_id, row.step, row.exit_code) for row in real if not row.step
    ]
    assert [row.state for row in fake if not row.step] == [
        row.state for row in real if not row.step
    ]
    jobs = {_shape(line) for line in stdout.splitlines()}
    # What ended by a requeue: its batch step reads CANCELLED, and nothing of ours looks at that.
    known = [line for line in recorded["sacct-over"]["stdout"].splitlines() if "0:15" not in line]
    assert {_shape(line) for line in known} <= jobs


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        ("sbatch", commands.submit("SCRIPT", 1)),
        ("squeue-one-unknown", commands.state_of_job("99999")),
        ("requeue", commands.requeue("1", hold=True)),
        ("requeue-unknown", commands.requeue("99999", hold=False)),
        ("cancel-unknown", commands.cancel(("99999",), "tiny")),
        ("release", commands.release("1")),
    ],
)
def test_one_answer(
    name: str, argv: tuple[str, ...], world: World, recorded: Any, tmp_path: Path
) -> None:
    argv = tuple(str(tmp_path / "job.sbatch") if word == "SCRIPT" else word for word in argv)
    status, stdout, stderr = respond(world, argv)
    real = recorded[name]
    assert (status, stderr) == (real["status"], real["stderr"])
    assert _shape(stdout) == _shape(real["stdout"])


def test_cluster_name(world: World, recorded: Any) -> None:
    _, stdout, _ = respond(world, commands.configuration())
    assert answers.parse_cluster_name(recorded["config"]["stdout"]) == "devcluster"
    assert answers.parse_cluster_name(stdout)


def _with_commands(recorded: Any) -> str:
    """What squeue printed of the jobs, with the commands that it printed of the same jobs."""
    printed = recorded["squeue-command"]["stdout"].splitlines()
    commands_of = {line.partition("\x1f")[0]: line.partition("\x1f")[2] for line in printed}
    lines = recorded["squeue-over"]["stdout"].splitlines()
    # Job 3 came after that call.
    commands_of["3"] = commands_of["2"]
    return "".join(f"{line}{commands_of[line.partition(chr(31))[0]]}\n" for line in lines)


def _shape(line: str) -> str:
    """A line with its numbers, names of nodes, and the script's place left out."""
    return re.sub(r"\d+", "9", re.sub(r"/\S*/job.sbatch( \d+)+", "SCRIPT", line))
