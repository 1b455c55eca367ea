"""Files that are old or new, never mixed: the one home of writing and of guarded reading.

Used on the login node and inside the job, so it runs on Python 3.8 with the standard library.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from pathlib import Path
from typing import Mapping, Union

from slurmswift.errors import StateError

AnyPath = Union[str, "os.PathLike[str]"]

# Records are small; a file of this size under one of their names was not written by us.
MAX_JSON_BYTES = 16 * 1024 * 1024


def write_atomically(path: AnyPath, data: bytes, mode: int = 0o600) -> None:
    """Replace ``path`` as a whole: a reader, or a crash, sees the old content or the new."""
    target = Path(path)
    _replace(target, data, mode)
    _sync_directory(target.parent)


def fill_directory(folder: AnyPath, files: Mapping[str, bytes], mode: int = 0o600) -> None:
    """Write files into a directory that nobody looks for yet: one sync for all their names."""
    for name, data in files.items():
        _replace(Path(folder) / name, data, mode)
    _sync_directory(Path(folder))


def write_json(path: AnyPath, body: Mapping[str, object], mode: int = 0o600) -> None:
    """Write one JSON object in one line: the gate reads some of these files in plain bash."""
    text = json.dumps(body, separators=(", ", ": "), allow_nan=False)
    write_atomically(path, text.encode("ascii") + b"\n", mode)


def create_once(path: AnyPath, data: bytes, mode: int = 0o600) -> bool:
    """Create ``path`` with its whole content; False, and nothing changed, where it exists."""
    target = Path(path)
    beside = target.with_name(f"{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        _write_new(beside, data, mode)
        # link refuses an existing name, also across NFS clients; rename would replace it.
        os.link(beside, target)
    except FileExistsError:
        return False
    finally:
        _remove(beside)
    _sync_directory(target.parent)
    return True


def append_line(path: AnyPath, text: str, mode: int = 0o600) -> None:
    """Add one line and see it on disk. A torn last line of a crashed writer stays by itself."""
    if "\n" in text:
        msg = "one line at a time"
        raise ValueError(msg)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, mode)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        _write_all(descriptor, (b"\n" if torn else b"") + text.encode("utf-8") + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_regular(path: AnyPath, limit: int = MAX_JSON_BYTES) -> bytes:
    """Read a regular file, no link followed. FileNotFoundError where there is none."""
    try:
        # O_NONBLOCK: a FIFO planted under the name must not stop us.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise StateError(f"{path}: not a regular file; it was not opened") from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StateError(f"{path}: not a regular file; it was not opened")
        data = _read_up_to(descriptor, limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise StateError(f"{path}: larger than {limit} bytes; it was not read")
    return data


def read_json(path: AnyPath, limit: int = MAX_JSON_BYTES) -> object:
    """Decode a record. FileNotFoundError where there is none, StateError where it is damaged."""
    data = read_regular(path, limit)
    try:
        decoded: object = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise StateError(f"{path}: damaged: not JSON ({error})") from error
    return decoded


def _read_up_to(descriptor: int, limit: int) -> bytes:
    parts = []
    while limit > 0:
        part = os.read(descriptor, min(limit, 1 << 20))
        if not part:
            break
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def _replace(target: Path, data: bytes, mode: int) -> None:
    # A name of its own in the same folder: rename is atomic only within one file system, and a
    # left-over of a crashed writer must not be in the way of the next one.
    beside = target.with_name(f"{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        _write_new(beside, data, mode)
        beside.replace(target)
    except BaseException:
        _remove(beside)
        raise


def _write_new(path: Path, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, mode)
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _sync_directory(path: Path) -> None:
    """Make the new name last through a power loss, where the file system can do that."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems refuse it on folders; the file itself is safe
        pass
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
