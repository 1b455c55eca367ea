"""Writes checkpoints of a few bytes that are whole by every rule."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path


def torch_like() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model/data.pkl", b"\x80\x02.")
    return buffer.getvalue()


def safetensors(size: int = 8) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}})
    return struct.pack("<Q", len(header)) + header.encode() + bytes(range(size))


def save(folder: Path, step: int, *, max_steps: int = 100) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(safetensors())
    (path / "optimizer.pt").write_bytes(torch_like())
    state = {"global_step": step, "max_steps": max_steps}
    (path / "trainer_state.json").write_text(json.dumps(state))
    return path
