"""Reads logs that others wrote, of any length: bounded in memory, each byte once.

A log may still grow: a reader remembers its place, and the next look costs what is new.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from slurmswift.domain.literals import Finder
from slurmswift.domain.long_log import Kept, LongLog, Share
from slurmswift.domain.rules import GATES
from slurmswift.files.fast_literals import IS_FAST, fast_finder
from slurmswift.files.regular_file import NotRegularError

# More of one file than this is searched at both ends only, its middle's lines are counted.
MOST_BYTES = (32 << 30) if IS_FAST else (1 << 30)
_PIECE = Share().block
_GZIP = b"\x1f\x8b"

GATE_FINDER: Finder = fast_finder(GATES)


class LogReader:
    """One log file, looked at again and again while it grows."""

    def __init__(
        self,
        path: Path,
        *,
        offset: int = 0,
        follow: bool = False,
        share: Share = Share(),  # noqa: B008 - frozen
        most: int = MOST_BYTES,
    ) -> None:
        """Begin at ``offset``; through a link only where ``follow`` says so."""
        self._path = path
        self._from = offset
        self._flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        self._flags |= 0 if follow else os.O_NOFOLLOW
        self._share = share
        self._most = most
        self._file: tuple[int, int] | None = None
        self._start_anew()

    def _start_anew(self) -> None:
        self.offset = self._from
        self._log = LongLog(GATE_FINDER, self._share, counts=False)

    def read(self) -> Kept:
        """Read what is new, and return what is kept of all so far.

        A regular file only; OSError where it cannot be read. A file that was replaced or cut is
        read from its start. A gzip file is read whole each time, and if it was cut gives what can
        be had of it.
        """
        with os.fdopen(os.open(self._path, self._flags), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise NotRegularError(0, "is not a regular file")
            same = self._file in (None, (status.st_dev, status.st_ino))
            if not same or status.st_size < self.offset:
                self._start_anew()
            self._file = (status.st_dev, status.st_ino)
            if not self._from and os.pread(file.fileno(), 2, 0) == _GZIP:
                return kept_of(_inflated(_pieces(file)), self._share)
            self._read_on(file, status.st_size)
        return replace(self._log.kept(), count=self._count)

    def _count(self, start: int, end: int) -> int:
        """Count the newlines of a gap, for a line that is shown; 0 where the file is gone."""
        try:
            with os.fdopen(os.open(self._path, self._flags), "rb", buffering=0) as file:
                file.seek(self._from + start)
                sizes = range(end - start, 0, -_PIECE)
                return sum(file.read(min(_PIECE, size)).count(b"\n") for size in sizes)
        except OSError:
            return 0

    def _read_on(self, file: BinaryIO, size: int) -> None:
        file.seek(self.offset)
        middle = range(self._from + self._most // 2, size - self._most // 2)
        while self.offset < size:
            piece = file.read(min(_PIECE, size - self.offset))
            if not piece:
                break
            if self.offset in middle and len(middle) > _PIECE:
                self._log.pass_over(piece)
            else:
                self._log.feed(piece)
            self.offset += len(piece)


def read_log(
    path: Path,
    *,
    offset: int = 0,
    follow: bool = False,
    share: Share = Share(),  # noqa: B008 - frozen
) -> Kept:
    """Return what matters of a log's bytes from ``offset`` on, gzip undone. See LogReader."""
    return LogReader(path, offset=offset, follow=follow, share=share).read()


def read_stream(stream: BinaryIO, *, share: Share = Share()) -> Kept:  # noqa: B008 - frozen
    """Return what matters of what a stream gives until it ends, gzip undone."""
    first = stream.read(2)
    pieces = _pieces(stream, first)
    return kept_of(_inflated(pieces) if first == _GZIP else pieces, share)


def kept_of(pieces: Iterator[bytes], share: Share) -> Kept:
    log = LongLog(GATE_FINDER, share)
    for piece in pieces:
        log.feed(piece)
    return log.kept()


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
