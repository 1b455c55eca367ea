"""Reads pieces of files that others wrote, within limits, and finds blocks never written."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Optional, Tuple

_PART_BYTES = 1 << 20


class DamagedError(Exception):
    """What was read is not what a whole file of this kind holds; the text says why."""


@contextmanager
def opened(path: Path) -> Iterator[Contents]:
    """Open a regular file; anything else under the name is damage, not an error of ours."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise DamagedError(f"cannot be read: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError("not a regular file")
        yield Contents(descriptor, status.st_size)
    finally:
        os.close(descriptor)


class Contents:
    """An open file and its size."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self.size = size

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly these bytes, or raise: a short answer is a cut file."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise DamagedError(f"cut: {self.size} bytes, needs {offset + length}")
        parts = []
        while length > 0:
            try:
                part = os.pread(self._descriptor, min(length, _PART_BYTES), offset)
            except OSError as error:
                raise DamagedError(f"cannot be read: {error.strerror}") from error
            if not part:
                raise DamagedError("cut while it was read")
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return b"".join(parts)

    def parts(self) -> Iterator[bytes]:
        """Return every byte, a part at a time."""
        for offset in range(0, self.size, _PART_BYTES):
            yield self.read(offset, min(_PART_BYTES, self.size - offset))

    def read_through(self) -> None:
        """Read all that was written: what the disk cannot give back is damage, whatever it was."""
        for start, length, is_hole in self.runs(0, self.size):
            for offset in () if is_hole else range(start, start + length, _PART_BYTES):
                self.read(offset, min(_PART_BYTES, start + length - offset))

    def first_hole(self) -> Optional[int]:
        """Where the first never-written block is: data lost in a crash leaves the size right."""
        try:
            hole = os.lseek(self._descriptor, 0, os.SEEK_HOLE)
        except OSError:  # an empty file, or a file system that cannot tell
            return None
        return hole if hole < self.size else None

    def has_hole(self, offset: int, length: int) -> bool:
        """Whether one of these bytes was never written."""
        return any(is_hole for _, _, is_hole in self.runs(offset, length))

    def runs(self, offset: int, length: int) -> Iterator[Tuple[int, int, bool]]:
        """Return these bytes as runs, each written or never written: (offset, length, is hole)."""
        end = min(offset + length, self.size)
        while offset < end:
            data = self._seek(offset, os.SEEK_DATA, end)
            if data > offset:
                yield offset, data - offset, True
            hole = self._seek(data, os.SEEK_HOLE, end) if data < end else end
            if hole > data:
                yield data, hole - data, False
            offset = hole

    def _seek(self, offset: int, what: int, end: int) -> int:
        try:
            return min(os.lseek(self._descriptor, offset, what), end)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                return end
            # A file system that cannot tell has no holes.
            return offset if what == os.SEEK_DATA else end
