"""Opens what people name: regular files alone. A pipe or a device could block or never end."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class NotRegularError(OSError):
    """A folder, a pipe, a device: nothing to read a text from."""


class TooLargeError(OSError):
    """More than anybody writes by hand."""


def read_regular(path: Path, most: int) -> bytes:
    """Return a regular file's bytes; OSError where there is none, or more than ``most``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularError(0, "is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            raw = file.read(most + 1)
    finally:
        os.close(descriptor)
    if len(raw) > most:
        raise TooLargeError(0, f"is larger than {most // 1024} KiB")
    return raw
