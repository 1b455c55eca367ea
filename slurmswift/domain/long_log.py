"""Keeps what matters of a log of any length while it passes by, each byte looked at once. Pure.

The first error may stand anywhere, and what proves it stands around it. A log that fits is kept
whole; of a longer one the start, the end, and the surroundings of each line that a rule may know.
"""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Callable, Deque, List, Optional, Tuple

from slurmswift.domain.findings import worth_reading
from slurmswift.domain.literals import MAX_LINE_BYTES, Finder
from slurmswift.domain.log_lines import Gap, LogText

# With a line worth reading: what the same writer said before it, and whether training went on.
_BLOCKS_BEFORE, _BLOCKS_AFTER = 1, 2
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Share:
    """How much of a long log is kept, in bytes."""

    head: int = 4 << 20
    middle: int = 48 << 20
    tail: int = 8 << 20
    block: int = 256 << 10  # what is decided about at once


@dataclass(frozen=True)
class Kept:
    """What was kept of a log, and where lines are missing in it."""

    data: bytes
    gaps: Tuple[Gap, ...] = ()
    count: Optional[Callable[[int, int], int]] = field(default=None, compare=False)

    def as_text(self, name: str, rank: Optional[int] = None, node: Optional[str] = None) -> LogText:
        return LogText(name, self.data, rank, node, self.gaps, self.count)


@dataclass
class _Block:
    data: bytes
    wanted: bool


class LongLog:
    """Takes a log in pieces as they come, however they are cut, and remembers its place.

    With ``counts`` the lines of a gap are counted as they pass; without, whoever needs a number
    counts them in the log itself: that is a second look, but only up to the line that is shown.
    """

    def __init__(
        self,
        gates: Finder,
        share: Share = Share(),
        *,
        counts: bool = True,
    ) -> None:
        self._gates = gates
        self._share = share
        self._counts = counts
        self._decoder: Optional[codecs.IncrementalDecoder] = None
        self._begun = False
        self._first = b""  # until there is enough of it to tell the encoding
        self._rest = bytearray()  # too short for a block yet
        self._whole: List[bytes] = []
        self._size = 0
        self._read = 0
        self._middle_bytes = 0
        self._gaps: List[Gap] = []
        self._gap: Optional[Gap] = None  # still growing
        self._recent: Deque[_Block] = deque()
        self._recent_bytes = 0
        self._wanted_next = 0
        self._cut_line = b""  # the part of the last line that the last block holds

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the log."""
        piece = self._utf8(piece)
        block = self._share.block
        if not self._rest and len(piece) == block:
            self._take(piece)
            return
        self._rest += piece
        start = 0
        while len(self._rest) - start >= block:
            self._take(bytes(self._rest[start : start + block]))
            start += block
        if start:
            del self._rest[:start]

    def pass_over(self, piece: bytes) -> None:
        """Leave out the next bytes without looking for anything in them."""
        for block in (*self._recent, _Block(bytes(self._rest), wanted=False)):
            self._retire(block)
        self._recent.clear()
        self._recent_bytes = 0
        self._rest.clear()
        self._cut_line = b""
        self._leave_out(piece)

    def kept(self) -> Kept:
        """Return what there is to judge so far; more may be fed afterwards."""
        pieces, gaps = list(self._whole), list(self._gaps)
        rest = b"".join((*(block.data for block in self._recent), self._rest, self._first))
        if self._gap is not None:
            gap, rest = _closed(self._gap, rest)
            gaps.append(gap)
        return Kept(b"".join((*pieces, rest)), tuple(gaps))

    def _utf8(self, piece: bytes) -> bytes:
        """Windows tools and odd locales write UTF-16, which a mark at the start tells."""
        if not self._begun:
            self._first += piece
            if len(self._first) < len(_BYTE_ORDER_MARKS[0]):
                return b""
            self._begun = True
            piece, self._first = self._first, b""
            if piece.startswith(_BYTE_ORDER_MARKS):
                self._decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
                self._counts = True  # offsets are not those of the log itself
        if self._decoder is None:
            return piece
        return self._decoder.decode(piece).encode("utf-8", errors="replace")

    def _take(self, data: bytes) -> None:
        wanted = self._is_worth_keeping(data)
        if wanted:
            for block in list(self._recent)[-_BLOCKS_BEFORE:]:
                block.wanted = True
        self._recent.append(_Block(data, wanted or self._wanted_next > 0))
        self._recent_bytes += len(data)
        self._wanted_next = _BLOCKS_AFTER if wanted else max(0, self._wanted_next - 1)
        while self._recent_bytes > self._share.tail:
            block = self._recent.popleft()
            self._recent_bytes -= len(block.data)
            self._retire(block)

    def _retire(self, block: _Block) -> None:
        """Decide about a block that the end of the log is far behind of."""
        data = block.data
        in_head = self._gap is None and not self._gaps
        in_head = in_head and self._size + len(data) <= self._share.head
        if not in_head:
            if not block.wanted or self._middle_bytes + len(data) > self._share.middle:
                self._leave_out(data)
                return
            self._middle_bytes += len(data)
        self._read += len(data)
        if self._gap is not None:
            gap, data = _closed(self._gap, data)
            self._gaps.append(gap)
            self._gap = None
        self._whole.append(data)
        self._size += len(data)

    def _leave_out(self, data: bytes) -> None:
        if self._gap is None:
            start = self._read
            if self._whole:
                # The line that is cut goes with its rest.
                last = self._whole.pop()
                line = last.rfind(b"\n", max(0, len(last) - MAX_LINE_BYTES)) + 1
                self._whole.append(last[:line] if line else last)
                cut = len(last) - line if line else 0
                start -= cut
                self._size -= cut
            self._gap = Gap(self._size, start, start, 0 if self._counts else None)
        self._read += len(data)
        lines = self._gap.lines
        if lines is not None:
            lines += data.count(b"\n")
        self._gap = replace(self._gap, end=self._read, lines=lines)

    def _is_worth_keeping(self, data: bytes) -> bool:
        seam = self._cut_line + data[: _end_of_line(data, 0)]
        self._cut_line = data[max(data.rfind(b"\n") + 1, len(data) - MAX_LINE_BYTES) :]
        if self._gates(seam) and worth_reading(seam):
            return True
        end = -1
        for found in self._gates(data):
            if found >= end:
                start = max(data.rfind(b"\n", 0, found) + 1, found - MAX_LINE_BYTES)
                end = _end_of_line(data, found)
                if worth_reading(data[start:end]):
                    return True
        return False


def _end_of_line(data: bytes, at: int) -> int:
    far = min(len(data), at + MAX_LINE_BYTES)
    end = data.find(b"\n", at, far)
    return far if end < 0 else end


def _closed(gap: Gap, following: bytes) -> Tuple[Gap, bytes]:
    """End a gap before the first whole line of what follows it."""
    cut = following.find(b"\n", 0, MAX_LINE_BYTES) + 1
    lines = gap.lines if gap.lines is None or not cut else gap.lines + 1
    return replace(gap, end=gap.end + cut, lines=lines), following[cut:]
