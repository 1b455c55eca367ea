"""Ages by the file server's clock alone: clocks of hosts differ, and are never compared."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Optional


def touch(path: Path, text: bytes = b".\n") -> None:
    """Write for real: only then is the modification time the file server's own."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, text, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_server_now(folder: Path) -> float:
    """Return the file server's time, by a probe file made now in ``folder``.

    Making it also has an NFS client drop what it remembers of the folder: list it afterwards.
    """
    probe = folder / f".probe-{secrets.token_hex(4)}"
    touch(probe)
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink()


def modified(path: Path) -> Optional[float]:
    """Return the modification time, None where there is no such file.

    Opened first: NFS promises the server's present values on open, not on stat, and an old value
    would make a living agent look silent.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
