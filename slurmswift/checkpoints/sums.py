"""The sum (CRC-32) of a part of a file, without reading what the file system keeps as a hole.

A hole reads as zeros, and what a run of zeros does to the sum can be computed in as many steps as
its length has bits: a sparse file of a petabyte is summed as quickly as its real blocks are read.
"""

from __future__ import annotations

import functools
import zlib
from typing import List, Tuple

from slurmswift.checkpoints.contents import Contents

_ONES = 0xFFFFFFFF
_PART = 1 << 20
_MOST_BITS = 64

Matrix = Tuple[int, ...]  # of bits: what each bit of the register becomes


def crc_of(file: Contents, offset: int, length: int) -> int:
    """Return the sum of these bytes, or raise DamagedError where they cannot be read."""
    crc = 0
    for start, size, is_hole in file.runs(offset, length):
        if is_hole and size > _PART:
            crc = crc_after_zeros(crc, size)
            continue
        for at in range(start, start + size, _PART):
            crc = zlib.crc32(file.read(at, min(_PART, start + size - at)), crc)
    return crc


def crc_after_zeros(crc: int, length: int) -> int:
    """Return the sum of what ``crc`` is the sum of, with so many bytes of zeros behind it."""
    register = crc ^ _ONES
    for bit, matrix in enumerate(_powers()):
        if length >> bit & 1:
            register = _times(matrix, register)
    return register ^ _ONES


@functools.lru_cache(maxsize=1)
def _powers() -> Tuple[Matrix, ...]:
    """What 1, 2, 4, 8... bytes of zeros do."""
    step: Matrix = tuple(zlib.crc32(b"\0", 1 << bit ^ _ONES) ^ _ONES for bit in range(32))
    powers: List[Matrix] = []
    for _ in range(_MOST_BITS):
        powers.append(step)
        step = tuple(_times(step, column) for column in step)
    return tuple(powers)


def _times(matrix: Matrix, vector: int) -> int:
    result = 0
    for column in matrix:
        if vector & 1:
            result ^= column
        vector >>= 1
    return result
