"""What torch.save wrote, looked into: its pickle, and many of its archives in one file."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable

from slurmswift.checkpoints import stub_pickle
from slurmswift.checkpoints.contents import Contents, DamagedError, opened

_LOCAL = b"PK\x03\x04"
_END = b"PK\x05\x06"
_LOCAL_BYTES, _END_BYTES = 30, 22
_ELSEWHERE_16, _ELSEWHERE_32 = 0xFFFF, 0xFFFFFFFF
_FIRST_READ = 64 << 10
_MAX_PICKLE_BYTES = 64 << 20
_MAX_READ = 64 << 20  # an archive's directory is a few kilobytes
_PACKED = "a compressed archive, which torch.save does not write"
_BROKEN_ZIP = (OSError, ValueError, RuntimeError, struct.error, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Item:
    """One archive of torch.save inside a larger file."""

    offset: int
    length: int
    archive: bool = True  # False: compressed once more, and nothing is known of its bytes


def load_data_pickle(path: Path) -> object:
    """Return what the pickle of a file of torch.save holds, as Stubs; no tensor is read.

    It is the first entry, and says itself where it ends: the archive's directory is not needed.
    """
    with opened(path) as file:
        start = _start_of_pickle(file)
        length = _FIRST_READ
        while True:
            length = min(length, file.size - start, _MAX_PICKLE_BYTES)
            try:
                return stub_pickle.load(file.read(start, length))
            except stub_pickle.TooLongError:
                raise
            except DamagedError:
                if length in (file.size - start, _MAX_PICKLE_BYTES):
                    raise
            length *= 16


def _start_of_pickle(file: Contents) -> int:
    header = file.read(0, _LOCAL_BYTES)
    packing, name, extra = struct.unpack("<4x4xH16xHH", header)
    if header[:4] != _LOCAL or not file.read(_LOCAL_BYTES, name).endswith(b"/data.pkl"):
        raise DamagedError("does not start as a file of torch.save")
    if packing != zipfile.ZIP_STORED:
        raise DamagedError(_PACKED)
    return _LOCAL_BYTES + int(name) + int(extra)


def check_items(file: Contents, items: Iterable[Item], *, deep: bool) -> None:
    """Raise DamagedError unless an archive begins and ends where each item does.

    Items mostly lie one behind the other: one read sees an end and the next beginning.
    """
    hole = file.first_hole()
    last_end = 0
    tail = b""
    for item in sorted(items, key=lambda item: (item.offset, item.length)):
        end = item.offset + item.length
        if item.archive:
            _check_ends(file, item, tail if last_end == item.offset else b"")
            # Zeros may be stored as a hole, too: the sums tell.
            if deep or (hole is not None and end > hole):
                _check_sums(file, item)
        elif hole is not None and end > hole:
            raise DamagedError(f"blocks from byte {hole} on were never written")
        # The 4 bytes behind this item are the next one's first.
        tail = file.read(end, min(4, file.size - end))
        last_end = end


def check_outer_ends(file: Contents) -> None:
    """Raise DamagedError unless an archive begins the file, and one ends it."""
    _check_ends(file, Item(0, file.size), b"")


def _check_ends(file: Contents, item: Item, head: bytes) -> None:
    if item.length < _END_BYTES + len(_LOCAL):
        raise DamagedError(f"an item of {item.length} bytes at byte {item.offset}")
    if (head or file.read(item.offset, 4)) != _LOCAL:
        raise DamagedError(f"the item at byte {item.offset} does not start as one of torch.save")
    end = item.offset + item.length
    record = file.read(end - _END_BYTES, _END_BYTES)
    entries, size, offset = struct.unpack_from("<HII", record, 10)
    packed = entries == _ELSEWHERE_16 or _ELSEWHERE_32 in (size, offset)
    if record[:4] != _END or (not packed and offset + size > item.length - _END_BYTES):
        raise DamagedError(f"the item at byte {item.offset} is cut: an archive without its end")


def _check_sums(file: Contents, item: Item) -> None:
    try:
        with zipfile.ZipFile(_Region(file, item.offset, item.length)) as archive:
            # What is packed may unpack to any size.
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise DamagedError(_PACKED)
            damaged = archive.testzip()
    except _BROKEN_ZIP as error:
        raise DamagedError(f"the item at byte {item.offset} is damaged: {error}") from error
    if damaged is not None:
        raise DamagedError(f"the item at byte {item.offset} is damaged ({damaged[:80]})")


class _Region(io.RawIOBase):
    """A part of an open file as a file of its own."""

    def __init__(self, file: Contents, offset: int, length: int) -> None:
        super().__init__()
        self._file = file
        self._offset = offset
        self._length = length
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = (0, self._position, self._length)[whence]
        if start + offset < 0:
            raise ValueError("before the beginning")
        self._position = start + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._length - self._position)
        length = left if size < 0 else min(size, left)
        if length > _MAX_READ:
            raise ValueError(f"an archive with {length} bytes where a few would do")
        data = self._file.read(self._offset + self._position, length)
        self._position += length
        return data
