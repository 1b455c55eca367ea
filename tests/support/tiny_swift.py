"""A real ms-swift for tests: its Python, a tiny model, and an undisturbed training of it."""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "ms-swift"
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
}
# What of a log line says how long something took, and not what was learnt.
_TIMES = ("_time", "runtime", "_per_second", "train_speed", "total_flos", "memory")


def extensions(example: Path) -> str:
    """Where DeepSpeed finds what it has compiled: the first training of an example takes long."""
    return os.environ.get("TORCH_EXTENSIONS_DIR", str(example / "extensions"))


@functools.cache
def swift_python() -> str | None:
    """The Python that has ms-swift: $SLURMSWIFT_SWIFT_PYTHON, .venv-swift, or this one."""
    named = os.environ.get("SLURMSWIFT_SWIFT_PYTHON")
    for candidate in (named, str(ROOT / ".venv-swift/bin/python"), sys.executable):
        if candidate and Path(candidate).exists():
            look = "import importlib.util as u, sys; sys.exit(u.find_spec('swift.cli.sft') is None)"
            done = subprocess.run([candidate, "-c", look], capture_output=True, check=False)
            if done.returncode == 0:
                return candidate
    return None


def make_example(folder: Path) -> Path:
    """The example's folder, copied, with its tiny model made."""
    shutil.copytree(EXAMPLE, folder)
    python = swift_python()
    assert python is not None
    subprocess.run(
        [python, "make_tiny_model.py", "tiny"],
        cwd=folder,
        env={**os.environ, **OFFLINE},
        check=True,
        capture_output=True,
        timeout=300,
    )
    return folder


def train_undisturbed(folder: Path, words: tuple[str, ...], output: Path) -> dict[str, Any]:
    """The end of a training of two ranks on this machine, without slurmswift."""
    python = swift_python()
    assert python is not None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={port}"]
    done = subprocess.run(
        [python, *launcher, *words, "--output_dir", str(output)],
        cwd=folder,
        env={
            **os.environ,
            **OFFLINE,
            "STEP_SECONDS": "0",
            "TORCH_EXTENSIONS_DIR": extensions(folder),
        },
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return final_state(output)


def final_state(output: Path) -> dict[str, Any]:
    """trainer_state.json of the last checkpoint, less what differs between equal trainings."""
    steps = sorted(int(path.name.rpartition("-")[2]) for path in output.glob("checkpoint-*"))
    state: dict[str, Any] = json.loads(
        (output / f"checkpoint-{steps[-1]}" / "trainer_state.json").read_text()
    )
    return {
        "global_step": state["global_step"],
        "max_steps": state["max_steps"],
        "epoch": state["epoch"],
        "log_history": [
            {key: value for key, value in line.items() if not any(t in key for t in _TIMES)}
            for line in state["log_history"]
        ],
    }
