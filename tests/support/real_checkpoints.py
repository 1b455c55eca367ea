"""Checkpoints that the real libraries wrote: each kind once a session, by processes over gloo."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_MAKERS = Path(__file__).parent / "real_checkpoint_makers"
_SECONDS = 300  # a busy machine; DeepSpeed compiles its first time


@dataclass(frozen=True)
class Maker:
    """One start of a script, which makes several kinds at once: its imports take the time."""

    script: str
    ranks: int
    needs: tuple[str, ...]  # modules that must be installed


@dataclass(frozen=True)
class Kind:
    """One kind of checkpoint, and what slurmswift has to say of it."""

    name: str
    maker: Maker
    path: str  # of the checkpoint that is looked at, below the folder of its kind
    format: str
    step: int
    max_steps: int = 0
    weights_only: bool = False
    folder: str = ""  # where a run would look for it, below the folder of its kind


_HF = Maker("hf.py", 1, ("torch", "transformers", "accelerate"))
_HF_LORA = Maker("hf.py", 1, (*_HF.needs, "peft"))
_HF_DDP = Maker("hf.py", 2, _HF.needs)
_HF_ZERO = Maker("hf.py", 2, (*_HF.needs, "deepspeed"))
_DCP = Maker("dcp.py", 2, ("torch", "numpy"))
_FSDP = Maker("fsdp.py", 2, _HF.needs)
_ACCELERATE = Maker("accelerate_state.py", 1, ("torch", "accelerate"))
_ACCELERATE_DDP = Maker("accelerate_state.py", 2, ("torch", "accelerate"))
_DEEPSPEED = Maker("deepspeed_alone.py", 2, ("torch", "deepspeed"))
_LIGHTNING = Maker("lightning_fit.py", 1, ("torch", "lightning"))
_LIGHTNING_SHARDED = Maker("lightning_fit.py", 2, ("torch", "lightning"))
_MEGATRON = Maker("megatron_core.py", 2, ("torch", "megatron.core"))


def _trainer(name: str, maker: Maker, form: str, *, weights_only: bool = False) -> Kind:
    return Kind(name, maker, "checkpoint-2", form, 2, 3, weights_only=weights_only)


KINDS = {
    kind.name: kind
    for kind in (
        _trainer("hf", _HF, "hf-trainer"),
        _trainer("hf-sharded", _HF, "hf-trainer"),
        _trainer("hf-only-model", _HF, "hf-trainer", weights_only=True),
        _trainer("hf-lora", _HF_LORA, "hf-trainer"),
        _trainer("hf-ddp", _HF_DDP, "hf-trainer"),
        _trainer("hf-zero1", _HF_ZERO, "hf-deepspeed"),
        _trainer("hf-zero2", _HF_ZERO, "hf-deepspeed"),
        _trainer("hf-zero2-bf16", _HF_ZERO, "hf-deepspeed"),
        _trainer("hf-zero3", _HF_ZERO, "hf-deepspeed"),
        _trainer("hf-fsdp", _FSDP, "hf-fsdp"),
        _trainer("hf-fsdp-full", _FSDP, "hf-fsdp"),
        Kind("accelerate", _ACCELERATE, "checkpoints/checkpoint_1", "accelerate", 1),
        Kind("accelerate-ddp", _ACCELERATE_DDP, "checkpoints/checkpoint_1", "accelerate", 1),
        *(
            Kind(f"deepspeed-{stage}", _DEEPSPEED, "global_step2", "deepspeed", 2)
            for stage in ("zero0", "zero1", "zero2", "zero2-bf16", "zero3")
        ),
        Kind("dcp", _DCP, "step-20", "dcp", 20),
        Kind("lightning", _LIGHTNING, "epoch=0-step=2.ckpt", "lightning", 2),
        Kind("lightning-sharded", _LIGHTNING_SHARDED, "epoch=0-step=2.ckpt", "lightning", 2),
        Kind("megatron", _MEGATRON, "iter_0000010", "megatron", 10, 40),
        Kind("megatron-legacy", _MEGATRON, "iter_0000010", "megatron-legacy", 10, 40),
        Kind("megatron-swift", _MEGATRON, "checkpoint-10", "megatron-swift", 10, 40),
    )
}


class RealCheckpoints:
    """Makes each kind at most once, all kinds of one maker together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: set[Maker] = set()

    def folder(self, name: str) -> Path:
        """Return where a kind was written. Skips the test where its library is not installed."""
        kind = KINDS[name]
        python = python_with(kind.maker.needs)
        if python is None:
            pytest.skip(f"no Python here has all of {', '.join(kind.maker.needs)}")
        if kind.maker not in self._made:
            self._made.add(kind.maker)
            kinds = [other.name for other in KINDS.values() if other.maker == kind.maker]
            _run(python, kind.maker, self._folder, kinds)
        return self._folder / name / kind.folder

    def path(self, name: str) -> Path:
        """Return a checkpoint of a kind. Whoever changes it works on a copy."""
        kind = KINDS[name]
        path = self.folder(name) / kind.path
        assert path.exists(), f"{kind.maker.script} wrote no {kind.path}"
        return path


@functools.cache
def python_with(modules: tuple[str, ...]) -> str | None:
    """The Python that has them all: $SLURMSWIFT_FORMATS_PYTHON, this one, or .venv-formats."""
    named = os.environ.get("SLURMSWIFT_FORMATS_PYTHON")
    for candidate in (named, sys.executable, str(ROOT / ".venv-formats/bin/python")):
        if candidate and Path(candidate).exists():
            look = f"import importlib.util as u; [u.find_spec(name).name for name in {modules!r}]"
            done = subprocess.run([candidate, "-c", look], capture_output=True, check=False)
            if done.returncode == 0:
                return candidate
    return None


def _run(python: str, maker: Maker, folder: Path, kinds: list[str]) -> None:
    meeting = folder / f"{maker.script}-{maker.ranks}-{'-'.join(maker.needs)}.meeting"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    logs = []
    for rank in range(maker.ranks):
        logs.append(meeting.with_suffix(f".{rank}.log"))
        environment = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(maker.ranks),
            "MEETING_FILE": str(meeting),
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        if maker.ranks > 1:
            environment |= {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(maker.ranks)}
            # The meeting is at the file; some libraries ask for an address all the same.
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        with logs[-1].open("w") as log:
            processes.append(
                subprocess.Popen(
                    [python, "-W", "ignore", _MAKERS / maker.script, folder, *kinds],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )
    try:
        statuses = [process.wait(_SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    words = "\n".join(log.read_text(errors="replace")[-2000:] for log in logs)
    assert not any(statuses), f"{maker.script} ended with {statuses}:\n{words}"
