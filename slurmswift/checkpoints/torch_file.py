"""Judges a file of torch.save by its zip structure. Nothing is unpickled."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, List, NamedTuple

from slurmswift.checkpoints.contents import Contents, DamagedError, opened
from slurmswift.checkpoints.sums import crc_of

_LOCAL = b"PK\x03\x04"
_CENTRAL = b"PK\x01\x02"
_END = b"PK\x05\x06"
_END_64 = b"PK\x06\x06"
_LOCATOR_64 = b"PK\x06\x07"
_END_BYTES = 22
_END_64_BYTES = 56
_LOCATOR_64_BYTES = 20
_ENTRY_BYTES = 46
_LOCAL_BYTES = 30
_EXTRA_64 = 1
_STORED = 0
_MAX_COMMENT = 0xFFFF
# In place of a number too large for its field: the zip64 record has it.
_ELSEWHERE_16, _ELSEWHERE_32 = 0xFFFF, 0xFFFFFFFF
# About a hundred bytes a tensor: no real checkpoint comes near.
_MAX_DIRECTORY_BYTES = 64 << 20
_LEGACY_PICKLE = b"\x80"


@dataclass(frozen=True)
class _Directory:
    """Where a zip's central directory lies, and where it has to end."""

    offset: int
    size: int
    entries: int
    limit: int


class _Entry(NamedTuple):
    """One record of the archive, as the directory has it."""

    name: bytes
    packing: int
    crc: int
    size: int  # as it lies there
    offset: int  # of its local header

    @property
    def shown(self) -> str:
        return self.name[-80:].decode("utf-8", "replace")


def check_torch_file(path: Path, *, deep: bool = False) -> None:
    """Raise DamagedError unless the file is as torch.save leaves it.

    Only the directory at the end is read; ``deep`` sums every byte. The format before torch 1.6
    is one long pickle without a length: it can only be accepted.
    """
    with opened(path) as file:
        if file.size == 0:
            raise DamagedError("empty")
        if file.read(0, 1) == _LEGACY_PICKLE:
            if deep:
                file.read_through()
            return
        if file.read(0, min(4, file.size)) != _LOCAL:
            raise DamagedError("does not start as a file of torch.save")
        entries = _read_entries(file, _find_directory(file))
        if not any(entry.name.endswith(b"/data.pkl") for entry in entries):
            raise DamagedError("a zip archive, but not of torch.save: no data.pkl in it")
        packed = next((entry for entry in entries if entry.packing != _STORED), None)
        if packed is not None:
            # Packed data may unpack to any size.
            raise DamagedError(f"{packed.shown} is compressed, which torch.save does not do")
        if deep or file.first_hole() is not None:
            _check_sums(file, entries, deep=deep)


def _find_directory(file: Contents) -> _Directory:
    end = _find_end(file)
    record = file.read(end, _END_BYTES)
    entries, size, offset = struct.unpack_from("<HII", record, 10)
    if entries == _ELSEWHERE_16 or _ELSEWHERE_32 in (size, offset):
        return _find_directory_64(file, end)
    return _Directory(offset, size, entries, end)


def _find_end(file: Contents) -> int:
    """The end record has to close exactly at the last byte: this sees a cut of one byte."""
    # torch.save leaves no comment: 22 bytes will mostly do.
    if file.size >= _END_BYTES:
        last = file.read(file.size - _END_BYTES, _END_BYTES)
        if last[:4] == _END and last[-2:] == b"\0\0":
            return file.size - _END_BYTES
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


def _read_entries(file: Contents, directory: _Directory) -> List[_Entry]:
    if directory.offset + directory.size > directory.limit:
        raise DamagedError("the zip directory points past its end")
    if directory.size > _MAX_DIRECTORY_BYTES:
        raise DamagedError("the zip directory is larger than that of any checkpoint")
    data = file.read(directory.offset, directory.size)
    entries: List[_Entry] = []
    position = 0
    while position < len(data):
        if data[position : position + 4] != _CENTRAL or position + _ENTRY_BYTES > len(data):
            raise DamagedError("the zip directory is damaged")
        name, extra, comment = struct.unpack_from("<HHH", data, position + 28)
        start = position + _ENTRY_BYTES
        end = start + name + extra
        entries.append(_entry(data, position, data[start : start + name], data[end - extra : end]))
        position = end + comment
    if position != len(data) or len(entries) != directory.entries:
        raise DamagedError(f"the zip directory lists {len(entries)} of {directory.entries} entries")
    return entries


def _entry(data: bytes, position: int, name: bytes, extra: bytes) -> _Entry:
    packing, crc, packed, unpacked = struct.unpack_from("<H4xIII", data, position + 10)
    (offset,) = struct.unpack_from("<I", data, position + 42)
    if _ELSEWHERE_32 in (packed, unpacked, offset):
        numbers = _numbers_64(extra)
        # In this order, and only those that are too large for their field.
        _, packed, offset = (
            next(numbers, 1 << 63) if value == _ELSEWHERE_32 else value
            for value in (unpacked, packed, offset)
        )
    return _Entry(name, packing, crc, packed, offset)


def _numbers_64(extra: bytes) -> Iterator[int]:
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, position)
        if kind == _EXTRA_64:
            for at in range(position + 4, min(position + 4 + length, len(extra)) - 7, 8):
                yield struct.unpack_from("<Q", extra, at)[0]
        position += 4 + length


def _check_sums(file: Contents, entries: List[_Entry], *, deep: bool) -> None:
    """A hole is lost data, or zeros that the file system stores as none: the sums tell."""
    if sum(entry.size for entry in entries) > file.size:
        raise DamagedError("the zip directory lists more bytes than the file has")
    for entry in entries:
        start = _start_of(file, entry)
        hole = file.has_hole(start, entry.size)
        if (deep or hole) and crc_of(file, start, entry.size) != entry.crc:
            what = "blocks were never written" if hole else "damaged: its sum is wrong"
            raise DamagedError(f"{what} ({entry.shown})")


def _start_of(file: Contents, entry: _Entry) -> int:
    header = file.read(entry.offset, _LOCAL_BYTES)
    if header[:4] != _LOCAL:
        raise DamagedError("an entry is not where the zip directory says")
    name, extra = struct.unpack_from("<HH", header, 26)
    start = entry.offset + _LOCAL_BYTES + int(name) + int(extra)
    if start + entry.size > file.size:
        raise DamagedError("an entry ends past the file's end")
    return start
