"""Turns a log's bytes into lines that say who wrote them and when. Any bytes, bounded work."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Match, Optional, Pattern, Tuple

from slurmswift.domain.literals import MAX_LINE_BYTES, Finder

MAX_KEPT_LINES = 8192  # of those that were taken apart: a traceback's are asked for again
# Prefixes nest: srun's label, torchrun's, torch's own, a timestamp. More than this is noise.
MAX_PREFIXES = 8
_OUTER = ("task", "time")


@dataclass(frozen=True)
class Gap:
    """What was left out of a long log, before the offset ``at`` of what is kept of it.

    ``lines`` where they were counted; else the log itself holds them, between start and end.
    """

    at: int
    start: int
    end: int
    lines: Optional[int]


@dataclass(frozen=True)
class LogText:
    """One log file of one attempt: its name as shown to people, and this attempt's bytes of it.

    ``rank`` and ``node`` where the file is one rank's or one node's own: its lines need not say.
    """

    name: str
    data: bytes
    rank: Optional[int] = None
    node: Optional[str] = None
    gaps: Tuple[Gap, ...] = ()
    count: Optional[Callable[[int, int], int]] = None  # newlines of the log itself, in a gap


@dataclass(frozen=True)
class Line:
    """One line without what stands before the message; None where the line does not say."""

    file: str
    numbered: Callable[[int], int] = field(compare=False, repr=False)
    start: int  # where it starts in the log's bytes, after any carriage return
    end: int
    shown: str  # the whole line, printable
    text: str  # the message alone
    indented: bool = False  # the message was set in: part of a block, such as a traceback
    label: str = ""  # everything peeled off that names a writer: equal labels, same writer
    task: Optional[int] = None  # srun --label
    rank: Optional[int] = None
    local_rank: Optional[int] = None
    host: Optional[str] = None
    pid: Optional[int] = None
    time: Optional[float] = None  # seconds in an imagined year of 31-day months: order, not date

    @property
    def number(self) -> int:
        """As an editor counts: by newline. Counted when it is asked for: few lines are shown."""
        return self.numbered(self.start)


Told = Dict[str, object]


@dataclass(frozen=True)
class Prefix:
    """One thing that programs print before a message, and what it tells about the writer."""

    name: str
    pattern: Pattern[str]
    names_writer: bool
    read: Callable[[Match[str]], Told]


def _nothing(_: Match[str]) -> Told:
    return {}


def _number(name: str) -> Callable[[Match[str]], Told]:
    return lambda match: {name: int(match["number"])}


def _host(match: Match[str]) -> Told:
    return {"host": match["host"]}


def _nccl(match: Match[str]) -> Told:
    told: Told = {"host": match["host"], "pid": int(match["pid"])}
    if match["device"] is not None:
        told["local_rank"] = int(match["device"])
    return told


def _moment(match: Match[str]) -> Told:
    """Order by month, day and time of day; the year is left out because glog leaves it out."""
    days = int(match["month"]) * 31 + int(match["day"])
    seconds = int(match["hour"]) * 3600 + int(match["minute"]) * 60 + int(match["second"])
    return {"time": days * 86400.0 + seconds + float("0." + (match["fraction"] or "0"))}


def _prefix(
    name: str,
    pattern: str,
    read: Callable[[Match[str]], Told] = _nothing,
    *,
    names_writer: bool = False,
) -> Prefix:
    return Prefix(name, re.compile(pattern), names_writer, read)


_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,12}))?"
_ISO = r"\d{4}[-/](?P<month>\d\d)[-/](?P<day>\d\d)[ T]" + _CLOCK

# Tried in this order at the start of what is left of the line, until none matches.
PREFIXES: Tuple[Prefix, ...] = (
    # srun --label pads the number on wide jobs; some sites' wrappers print "[12] ".
    _prefix(
        "srun --label", r"\s{0,6}(?P<number>\d{1,6}):(?: |$)", _number("task"), names_writer=True
    ),
    _prefix("torch", r"\[rank ?(?P<number>\d{1,6})\]: ?", _number("rank"), names_writer=True),
    _prefix("Lightning", r"\[rank: (?P<number>\d{1,6})\] ?", _number("rank"), names_writer=True),
    # torchrun --tee and --redirects: [<role><local rank>]:
    _prefix(
        "torchrun",
        r"\[[A-Za-z_]{1,32}(?P<number>\d{1,4})\]: ?",
        _number("local_rank"),
        names_writer=True,
    ),
    _prefix(
        "Open MPI",
        r"\[\d{1,6},(?P<number>\d{1,6})\]<std(?:out|err)>: ?",
        _number("rank"),
        names_writer=True,
    ),
    _prefix(
        "ray", r"\([A-Za-z_]\w{0,64}(?:\([^()]{0,64}\))? pid=\d+[^()]{0,80}\) ?", names_writer=True
    ),
    _prefix(
        "NCCL",
        r"(?P<host>[A-Za-z0-9][\w.-]{0,62}):(?P<pid>\d+):\d+ (?:\[(?P<device>\d{1,3})\] )?",
        _nccl,
        names_writer=True,
    ),
    # DeepSpeed's pdsh and this kind of wrapper: a host name holds a digit, a Python class does not.
    _prefix(
        "pdsh",
        r"(?!slurmstepd|srun|slurm)(?P<host>[a-z][a-z-]{0,30}\d[\w.-]{0,30}): ?",
        _host,
        names_writer=True,
    ),
    _prefix(
        "glog",
        r"\[?[IWEF](?P<month>\d{1,2}?)(?P<day>\d\d) " + _CLOCK + r"(?: +\d+)? [^\]\s]{1,200}\] ?",
        _moment,
    ),
    _prefix("glog without a time", r"\[[IWEF] [\w./-]{1,120}\.\w{1,4}:\d+\] ?"),
    _prefix("bracketed time", r"\[" + _ISO + r"\] ?", _moment),
    _prefix("time", _ISO + r"(?:Z|[+-]\d\d:?\d\d)?,? ?", _moment),
    _prefix("clock", r"\[" + _CLOCK + r"\] ?"),
    # tqdm writes its bar without a newline, and the next writer's words follow at once.
    _prefix("progress bar", r"[^|\r\n]{0,80}\d%\|[^|]{0,200}\|[^\]]{0,200}\](?=\S)"),
)

# All of them in one: which it is, a line of a traceback tells in one go, and most lines are none.
_ANY_PREFIX = re.compile(
    "|".join("(" + re.sub(r"\(\?P<\w+>", "(?:", p.pattern.pattern) + ")" for p in PREFIXES)
)

_ANSI = re.compile(
    rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\-_])"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def printable(raw: bytes) -> str:
    """Decode bytes that anybody may have written into text that is safe on a terminal."""
    text = _ANSI.sub(b"", raw[: 2 * MAX_LINE_BYTES]).decode("utf-8", errors="replace")
    return _CONTROL.sub("", text.replace("\t", "    ")).rstrip()


def peel(text: str) -> Told:
    """Take the prefixes off a line: return the message as ``text``, and what they say."""
    told: Told = {}
    label: List[str] = []
    rest = text
    for _ in range(MAX_PREFIXES):
        which = _ANY_PREFIX.match(rest)
        if which is None or which.lastindex is None:
            break
        prefix = PREFIXES[which.lastindex - 1]
        match = prefix.pattern.match(rest)
        if match is None or not match.end():
            break
        rest = rest[match.end() :]
        news = prefix.read(match)
        # Of two labels or times the outer one is nearer to the truth, of two hosts the inner one.
        told.update({key: news[key] for key in news if key not in told or key not in _OUTER})
        if prefix.names_writer:
            label.append(match.group().strip())
    told.update(text=rest.lstrip(), indented=rest[:1].isspace(), label=" ".join(label))
    return told


def utf8(data: bytes) -> bytes:
    """Give a log that a Windows tool or an odd locale wrote in UTF-16 as UTF-8."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace").encode("utf-8", errors="replace")
    return data


class Lines:
    """Random access to the lines of one log: a scan looks at few of them, each but once."""

    def __init__(self, log: LogText) -> None:
        self.name = log.name
        self.data = utf8(log.data)
        self._gaps = log.gaps
        self._count = log.count
        self._counted = ([0], [1])  # offsets, ascending, and the number of the line that holds each
        self._peeled: Dict[int, Line] = {}

    def at(self, offset: int) -> Line:
        """Return the line that holds this offset, peeled."""
        line = self._peeled.get(offset)
        if line is not None and line.end - offset < MAX_LINE_BYTES and self._starts(offset):
            return line
        start, end = self.bounds(offset)
        line = self._peeled.get(start)
        if line is None or line.end != end:
            shown = printable(self.data[start:end])
            told = peel(shown)
            line = Line(self.name, self._number, start, end, shown, **told)  # type: ignore[arg-type]
            if len(self._peeled) >= MAX_KEPT_LINES:
                self._peeled.clear()
            self._peeled[start] = line
        return line

    def _starts(self, offset: int) -> bool:
        return offset == 0 or self.data[offset - 1] in b"\r\n"

    def bounds(self, offset: int) -> Tuple[int, int]:
        """Return where the line that holds offset starts and ends; carriage returns part too."""
        data = self.data
        floor = max(0, offset - MAX_LINE_BYTES)
        start = max(data.rfind(b"\n", floor, offset), floor - 1)
        start = max(data.rfind(b"\r", start + 1, offset), start)
        ceiling = min(len(data), offset + MAX_LINE_BYTES)
        end = data.find(b"\n", offset, ceiling)
        end = ceiling if end < 0 else end
        returned = data.find(b"\r", offset, end)
        return start + 1, end if returned < 0 else returned

    def after(self, line: Line) -> Optional[Line]:
        """Return the next line that is not empty."""
        offset = line.end
        while offset < len(self.data) and self.data[offset] in b"\r\n":
            offset += 1
        return self.at(offset) if offset < len(self.data) else None

    def before(self, line: Line) -> Optional[Line]:
        """Return the line before that is not empty."""
        offset = line.start - 1
        while offset >= 0 and self.data[offset] in b"\r\n":
            offset -= 1
        return self.at(offset) if offset >= 0 else None

    def holding(self, finder: Finder) -> Tuple[int, ...]:
        """Return one offset per line that holds any of what the finder looks for, ascending."""
        hits: List[int] = []
        end = -1
        for found in finder(self.data):
            if found >= end:
                _, end = self.bounds(found)
                hits.append(found)
        return tuple(hits)

    def _number(self, offset: int) -> int:
        offsets, numbers = self._counted
        place = bisect.bisect_right(offsets, offset) - 1
        number = numbers[place] + self.data.count(b"\n", offsets[place], offset)
        number += sum(map(self._missing, self._between(offsets[place], offset)))
        if offset > offsets[-1]:
            offsets.append(offset)
            numbers.append(number)
        return number

    def _between(self, after: int, offset: int) -> Tuple[Gap, ...]:
        return tuple(gap for gap in self._gaps if after < gap.at <= offset or gap.at == after == 0)

    def _missing(self, gap: Gap) -> int:
        if gap.lines is not None:
            return gap.lines
        return self._count(gap.start, gap.end) if self._count is not None else 0
