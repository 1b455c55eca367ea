"""Writes checkpoints of a few bytes that are whole by every rule."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from pathlib import Path


def torch_like(value: object = None) -> bytes:
    """What torch.save leaves of a value without tensors; the same bytes for the same value."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("model/data.pkl"), pickle.dumps(value, 2))
    return buffer.getvalue()


def safetensors(size: int = 8, *, name: str = "w") -> bytes:
    header = json.dumps({name: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}})
    return (
        struct.pack("<Q", len(header))
        + header.encode()
        + (bytes(range(256)) * (size // 256 + 1))[:size]
    )


def save(folder: Path, step: int, *, max_steps: int = 100) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(safetensors())
    (path / "optimizer.pt").write_bytes(torch_like())
    state = {"global_step": step, "max_steps": max_steps}
    (path / "trainer_state.json").write_text(json.dumps(state))
    return path


def save_deepspeed(
    folder: Path, *, dp: int = 2, mp: int = 1, stage: int = 2, bf16: bool = False
) -> Path:
    """One tag's folder as DeepSpeed leaves it."""
    folder.mkdir(parents=True)
    state: dict[str, object] = {
        "dp_world_size": dp,
        "mp_world_size": mp,
        "optimizer": None if stage else {"state": {}},
        "param_shapes": [{}] if stage else None,
        "lr_scheduler": None,
    }
    start = "bf16_" if bf16 else ""
    for m in range(mp):
        if stage < 3:
            (folder / f"mp_rank_{m:02d}_model_states.pt").write_bytes(torch_like(state))
        for d in range(dp if stage else 0):
            rank = f"zero_pp_rank_{d}_mp_rank_{m:02d}"
            (folder / f"{start}{rank}_optim_states.pt").write_bytes(torch_like({}))
            if stage == 3:
                (folder / f"{rank}_model_states.pt").write_bytes(torch_like(state))
    return folder


def save_with_deepspeed(folder: Path, step: int, *, ranks: int = 2, stage: int = 2) -> Path:
    """A checkpoint of Trainer with DeepSpeed."""
    path = save(folder, step)
    (path / "optimizer.pt").unlink()
    save_deepspeed(path / f"global_step{step}", dp=ranks, stage=stage)
    (path / "latest").write_text(f"global_step{step}")
    (path / "scheduler.pt").write_bytes(torch_like())
    for rank in range(ranks):
        (path / f"rng_state_{rank}.pth").write_bytes(torch_like())
    return path
