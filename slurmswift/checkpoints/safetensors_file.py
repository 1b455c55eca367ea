"""Judges a safetensors file by its header against its size."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, FrozenSet, Optional, Tuple

from slurmswift.checkpoints.contents import Contents, DamagedError, opened

# The library's own limit.
_MAX_HEADER_BYTES = 100_000_000
_MAX_DIMENSIONS = 64
_NOTES = "__metadata__"
# Bits an element: the types of safetensors 0.8, of which some are packed.
_BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}


def check_safetensors_file(path: Path, *, deep: bool = False) -> None:
    """Raise DamagedError unless the file is exactly as long as its header says.

    The format has no checksum: a change in the middle cannot be seen. ``deep`` adds what the
    library asks of a header when it loads: each tensor as long as its shape, none overlapping.
    """
    with opened(path) as file:
        tensors, start = _header(file)
        end = max((each.end for each in tensors.values()), default=0)
        if file.size != start + end:
            raise DamagedError(f"{file.size} bytes; its header says {start + end}")
        if deep:
            _check_places(tensors)
        hole = file.first_hole()
        if hole is not None:
            raise DamagedError(f"blocks from byte {hole} on were never written")
        if deep:
            file.read_through()


def tensor_names(path: Path) -> FrozenSet[str]:
    """Return the names of the tensors in a file, or raise DamagedError."""
    with opened(path) as file:
        return frozenset(_header(file)[0])


@dataclass(frozen=True)
class _Tensor:
    start: int
    end: int
    dtype: object
    shape: object

    @property
    def length(self) -> Optional[int]:
        """How long it has to be; None where its type is newer than this table."""
        bits = _BITS.get(self.dtype) if isinstance(self.dtype, str) else None
        if bits is None:
            return None
        if not isinstance(self.shape, list) or len(self.shape) > _MAX_DIMENSIONS:
            return -1
        for size in self.shape:
            if type(size) is not int or not 0 <= size < 1 << 63:
                return -1
            bits *= size
        return -(-bits // 8)


def _header(file: Contents) -> Tuple[Dict[str, _Tensor], int]:
    """Return the tensors, and the byte that their offsets count from."""
    if file.size == 0:
        raise DamagedError("empty")
    (length,) = struct.unpack("<Q", file.read(0, 8))
    if length > _MAX_HEADER_BYTES:
        raise DamagedError("the header's length is damaged")
    hole = file.first_hole()
    if hole is not None and hole < 8 + length:
        raise DamagedError(f"blocks from byte {hole} on were never written")
    try:
        header = json.loads(file.read(8, length).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedError("the header is damaged: not JSON") from error
    if not isinstance(header, dict):
        raise DamagedError("the header is damaged: not an object")
    tensors = {name: _tensor(name, body) for name, body in header.items() if name != _NOTES}
    return tensors, 8 + int(length)


def _tensor(name: str, body: object) -> _Tensor:
    if isinstance(body, dict):
        offsets = body.get("data_offsets")
        if isinstance(offsets, list) and [type(each) for each in offsets] == [int, int]:
            start, end = offsets
            if 0 <= start <= end:
                return _Tensor(start, end, body.get("dtype"), body.get("shape"))
    raise DamagedError(f"the header is damaged at {name[:80]!r}")


def _check_places(tensors: Dict[str, _Tensor]) -> None:
    last_end = 0
    for name, each in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end)):
        if each.start != last_end:
            raise DamagedError(f"{name[:80]!r} begins at {each.start}, not at {last_end}")
        if each.length is not None and each.end - each.start != each.length:
            raise DamagedError(f"{name[:80]!r} is not as long as its type and shape say")
        last_end = each.end
