"""Judges a safetensors file by its header against its size."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Iterator

from slurmswift.checkpoints.contents import DamagedError, opened

# The library's own limit.
_MAX_HEADER_BYTES = 100_000_000


def check_safetensors_file(path: Path, *, deep: bool = False) -> None:  # noqa: ARG001
    """Raise DamagedError unless the file is exactly as long as its header says.

    The format has no checksum: a change in the middle cannot be seen.
    """
    with opened(path) as file:
        if file.size == 0:
            raise DamagedError("empty")
        (length,) = struct.unpack("<Q", file.read(0, 8))
        if length > _MAX_HEADER_BYTES:
            raise DamagedError("the header's length is damaged")
        expected = 8 + length + max(_ends(file.read(8, length)), default=0)
        if file.size != expected:
            raise DamagedError(f"{file.size} bytes; its header says {expected}")
        hole = file.first_hole()
        if hole is not None:
            raise DamagedError(f"blocks from byte {hole} on were never written")


def _ends(header: bytes) -> Iterator[int]:
    try:
        tensors = json.loads(header.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedError("the header is damaged: not JSON") from error
    if not isinstance(tensors, dict):
        raise DamagedError("the header is damaged: not an object")
    for name, tensor in tensors.items():
        if name == "__metadata__":
            continue
        try:
            start, end = tensor["data_offsets"]
            in_order = 0 <= start <= end and type(end) is int
        except (TypeError, KeyError, ValueError):
            in_order, end = False, 0
        if not in_order:
            raise DamagedError(f"the header is damaged at {str(name)[:80]!r}")
        yield end
