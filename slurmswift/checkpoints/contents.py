"""Reads pieces of files that others wrote, within limits, and finds blocks never written."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Optional


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
                part = os.pread(self._descriptor, min(length, 1 << 20), offset)
            except OSError as error:
                raise DamagedError(f"cannot be read: {error.strerror}") from error
            if not part:
                raise DamagedError("cut while it was read")
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return b"".join(parts)

    def first_hole(self) -> Optional[int]:
        """Where the first never-written block is: data lost in a crash leaves the size right."""
        try:
            hole = os.lseek(self._descriptor, 0, os.SEEK_HOLE)
        except OSError:  # an empty file, or a file system that cannot tell
            return None
        return hole if hole < self.size else None
