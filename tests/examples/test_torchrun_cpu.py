"""The example's own promises: whole checkpoints, and resumes to the last digit."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurmswift.checkpoints import list_checkpoints

TRAIN = Path(__file__).parent.parent.parent / "examples" / "torchrun-cpu" / "train.py"
DEADLINE = 120.0
MAX_STEPS = 12

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not here"),
]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def agent_command(node: int, port: int, output: Path) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--monitor_interval=0.2"]
    place = ["--nnodes=2", f"--node_rank={node}", "--nproc_per_node=1"]
    meeting = ["--master_addr=127.0.0.1", f"--master_port={port}"]
    training = [str(TRAIN), f"--output_dir={output}", f"--max_steps={MAX_STEPS}", "--save_steps=2"]
    return [*launcher, *place, *meeting, *training]


@contextmanager
def two_agents(output: Path, *arguments: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two nodes' launchers with one rank each, as a job starts them; none outlives the block."""
    port = free_port()
    agents = []
    try:
        for node in range(2):
            with output.with_name(f"{output.name}.{node}.log").open("ab") as log:
                command = agent_command(node, port, output)
                agents.append(
                    subprocess.Popen(
                        [*command, *arguments],
                        stdout=log,
                        stderr=log,
                        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
                    )
                )
        yield agents
    finally:
        # A launcher that is killed alone leaves its ranks training.
        for pid in [
            rank for agent in agents if agent.poll() is None for rank in children(agent.pid)
        ]:
            os.kill(pid, signal.SIGKILL)
        for agent in agents:
            agent.kill()
            agent.wait()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + DEADLINE
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)


def train_to_the_end(output: Path, *arguments: str) -> None:
    with two_agents(output, *arguments) as agents:
        statuses = [agent.wait(timeout=DEADLINE) for agent in agents]

        assert statuses == [0, 0]


def final_loss(output: Path) -> object:
    return json.loads((output / "final_loss.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("example") / "undisturbed"
    train_to_the_end(output)
    return output


def test_a_killed_run_resumes_to_the_loss_of_an_undisturbed_one(
    tmp_path: Path, undisturbed: Path
) -> None:
    killed = tmp_path / "killed"
    with two_agents(killed, "--step_seconds=0.2"):
        wait_for(killed / "checkpoint-4")
    newest = list_checkpoints(killed)[0]
    train_to_the_end(killed, f"--resume_from_checkpoint={newest.path}")

    assert newest.step < MAX_STEPS
    assert f"resumed from {newest.path}" in killed.with_name("killed.0.log").read_text("utf-8")
    assert final_loss(killed) == final_loss(undisturbed)


def test_the_last_three_checkpoints_are_kept_and_nothing_half_made(undisturbed: Path) -> None:
    checkpoints = list_checkpoints(undisturbed)
    names = {path.name for path in undisturbed.iterdir()}

    assert [(c.step, c.problems) for c in checkpoints] == [(12, ()), (10, ()), (8, ())]
    assert names == {"checkpoint-8", "checkpoint-10", "checkpoint-12", "final_loss.json"}
