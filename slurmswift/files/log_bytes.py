"""Reads logs that others wrote, at both ends where they are long: bounded in memory.

The first error stands near the last good step, the scheduler's own words at the very end.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from slurmswift.files.regular_file import NotRegularError

END_BYTES = 64 << 20
_PIECE = 1 << 20
_GZIP = b"\x1f\x8b"


def read_log(
    path: Path, *, offset: int = 0, follow: bool = False, end_bytes: int = END_BYTES
) -> bytes:
    """Return a log's bytes from ``offset`` on, gzip undone; if more than two ends, both of them.

    A regular file only, and through a link only where ``follow`` says so. OSError where it cannot
    be read; a gzip file that was cut gives what can be had of it.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NotRegularError(0, "is not a regular file")
        if not offset and file.peek(2)[:2] == _GZIP:
            return ends_of(_inflated(_pieces(file)), end_bytes)
        file.seek(min(offset, status.st_size))
        head = file.read(end_bytes)
        if status.st_size - file.tell() > end_bytes:
            file.seek(-end_bytes, os.SEEK_END)
            file.readline()  # the rest of a line that was cut
        return head + file.read(end_bytes)


def read_stream(stream: BinaryIO, *, end_bytes: int = END_BYTES) -> bytes:
    """Return what a stream gives until it ends, gzip undone; bounded as ``read_log``."""
    first = stream.read(2)
    pieces = _pieces(stream, first)
    if first == _GZIP:
        pieces = _inflated(pieces)
    return ends_of(pieces, end_bytes)


def ends_of(pieces: Iterator[bytes], end_bytes: int) -> bytes:
    """Keep the first and the last ``end_bytes``; the line cut by the gap is left out."""
    head, tail, skipped = bytearray(), bytearray(), False
    for piece in pieces:
        room = max(0, end_bytes - len(head))
        head += piece[:room]
        tail += piece[room:]
        if len(tail) > 2 * end_bytes:
            del tail[:-end_bytes]
            skipped = True
    if len(tail) > end_bytes:
        del tail[:-end_bytes]
        skipped = True
    if skipped:
        del tail[: tail.find(b"\n") + 1]
    return bytes(head + tail)


def _pieces(stream: BinaryIO, first: bytes = b"") -> Iterator[bytes]:
    piece = first or stream.read(_PIECE)
    while piece:
        yield piece
        piece = stream.read(_PIECE)


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Undo gzip, of joined files too. What is cut or damaged ends it: all before is still a log."""
    engine = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        for piece in pieces:
            data = piece
            while data:
                yield engine.decompress(data, _PIECE)
                data = engine.unconsumed_tail
                if engine.eof:
                    data = engine.unused_data
                    engine = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        yield engine.flush()
    except zlib.error:
        return
