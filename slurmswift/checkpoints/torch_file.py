"""Judges a file of torch.save by its zip structure. Nothing is unpickled."""

from __future__ import annotations

import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from slurmswift.checkpoints.contents import Contents, DamagedError, opened

_LOCAL = b"PK\x03\x04"
_CENTRAL = b"PK\x01\x02"
_END = b"PK\x05\x06"
_END_64 = b"PK\x06\x06"
_LOCATOR_64 = b"PK\x06\x07"
_END_BYTES = 22
_END_64_BYTES = 56
_LOCATOR_64_BYTES = 20
_ENTRY_BYTES = 46
_MAX_COMMENT = 0xFFFF
# In place of a number too large for its field: the zip64 record has it.
_ELSEWHERE_16, _ELSEWHERE_32 = 0xFFFF, 0xFFFFFFFF
# About a hundred bytes a tensor: no real checkpoint comes near.
_MAX_DIRECTORY_BYTES = 256 << 20
_LEGACY_PICKLE = b"\x80"


@dataclass(frozen=True)
class _Directory:
    """Where a zip's central directory lies, and where it has to end."""

    offset: int
    size: int
    entries: int
    limit: int


def check_torch_file(path: Path, *, deep: bool = False) -> None:  # noqa: ARG001
    """Raise DamagedError unless the file is as torch.save leaves it.

    The format before torch 1.6 is one long pickle without a length: it can only be accepted.
    """
    with opened(path) as file:
        if file.size == 0:
            raise DamagedError("empty")
        if file.read(0, 1) == _LEGACY_PICKLE:
            return
        if file.read(0, min(4, file.size)) != _LOCAL:
            raise DamagedError("does not start as a file of torch.save")
        _check_entries(file, _find_directory(file))
        hole = file.first_hole()
    if hole is not None:
        _check_sums(path, hole)


def _find_directory(file: Contents) -> _Directory:
    end = _find_end(file)
    record = file.read(end, _END_BYTES)
    entries, size, offset = struct.unpack_from("<HII", record, 10)
    if entries == _ELSEWHERE_16 or _ELSEWHERE_32 in (size, offset):
        return _find_directory_64(file, end)
    return _Directory(offset, size, entries, end)


def _find_end(file: Contents) -> int:
    """The end record has to close exactly at the last byte: this sees a cut of one byte."""
    length = min(file.size, _END_BYTES + _MAX_COMMENT)
    start = file.size - length
    tail = file.read(start, length)
    position = tail.rfind(_END)
    while position >= 0:
        if position + _END_BYTES <= length:
            (comment,) = struct.unpack_from("<H", tail, position + 20)
            if position + _END_BYTES + comment == length:
                return start + position
        position = tail.rfind(_END, 0, position)
    raise DamagedError("cut: a zip archive without its end")


def _find_directory_64(file: Contents, end: int) -> _Directory:
    locator = file.read(end - _LOCATOR_64_BYTES, _LOCATOR_64_BYTES)
    if locator[:4] != _LOCATOR_64:
        raise DamagedError("the zip64 locator is damaged")
    (position,) = struct.unpack_from("<Q", locator, 8)
    record = file.read(position, _END_64_BYTES)
    if record[:4] != _END_64:
        raise DamagedError("the zip64 end record is damaged")
    entries, size, offset = struct.unpack_from("<QQQ", record, 32)
    return _Directory(offset, size, entries, position)


def _check_entries(file: Contents, directory: _Directory) -> None:
    if directory.offset + directory.size > directory.limit:
        raise DamagedError("the zip directory points past its end")
    if directory.size > _MAX_DIRECTORY_BYTES:
        raise DamagedError("the zip directory is larger than that of any checkpoint")
    data = file.read(directory.offset, directory.size)
    position = found = 0
    has_pickle = False
    while position < len(data):
        if data[position : position + 4] != _CENTRAL or position + _ENTRY_BYTES > len(data):
            raise DamagedError("the zip directory is damaged")
        name, extra, comment = struct.unpack_from("<HHH", data, position + 28)
        start = position + _ENTRY_BYTES
        has_pickle = has_pickle or data[start : start + name].endswith(b"/data.pkl")
        position = start + name + extra + comment
        found += 1
    if position != len(data) or found != directory.entries:
        raise DamagedError(f"the zip directory lists {found} of {directory.entries} entries")
    if not has_pickle:
        raise DamagedError("a zip archive, but not of torch.save: no data.pkl in it")


def _check_sums(path: Path, hole: int) -> None:
    """A hole is lost data, or zeros that the file system stores as none: the sums tell."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise DamagedError(f"blocks from byte {hole} on were never written: {error}") from error
    if damaged is not None:
        raise DamagedError(f"blocks from byte {hole} on were never written ({damaged})")
