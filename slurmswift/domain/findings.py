"""Finds the lines of a log that a rule knows, with who wrote them. Reads each log once."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple

from slurmswift.domain.literals import Finder, FinderOf, Words, plain_finder
from slurmswift.domain.log_lines import Line, Lines, LogText
from slurmswift.domain.rule import Role, Rule
from slurmswift.domain.rules import EXCEPTION_RULE, GATES, GATES_BESIDE, RULES

# A job of 512 ranks says everything 512 times: more of one kind from one log adds nothing.
MAX_FINDINGS_PER_RULE = 300
MAX_TRACEBACKS = 2000
MAX_TRACEBACK_LINES = 200
MAX_LINES_BACK = 40

TRACEBACK = "Traceback (most recent call last)"
_CHAINED = (
    "During handling of the above exception",
    "The above exception was the direct cause",
)
_EXCEPTION_LINE = re.compile(r"(?:[A-Za-z_]\w{0,80}\.){0,12}[A-Z]\w{0,80}(?::(?: |$)|$)")
# Python could not raise it, so that it ended nothing.
_IGNORED = "Exception ignored in"
_QUOTED_CODE = ("raise ", 'File "', "return ", "self.", "assert ")
_LOG_LEVELS = ("INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL", "WARN", "FATAL", "NOTE")
_TABLE_RANK = re.compile(r"rank +: (\d+) \(local_rank: (\d+)\)")
_TABLE_HOST = re.compile(r"host +: (\S+)")
_TABLE_LINES = 6  # two apart, with room for a progress bar in between

# What a training prints while it is well. After this much of it, an error before it was survived.
_PROGRESS = re.compile(
    rb"(?i)(?:\bstep|\biter(?:ation)?|\bepoch)\b[^\r\n]{0,40}\d|it/s[,\]]|s/it[,\]]|'loss':"
)
_HEALTHY_BYTES = 64 * 1024
_HEALTHY_LINES = 20
_HEALTHY_LOOK = 4 * 1024 * 1024

# Which rules of the table a literal can lead to.
_PLACES: Dict[str, Tuple[int, ...]] = {
    literal: tuple(n for n, rule in enumerate(RULES) if literal in rule.literals)
    for literal in sorted({literal for rule in RULES for literal in rule.literals})
}

# A gate's word alone ("error: 0.1" as a metric) is not worth taking a line apart for.
_IN_BYTES = Words([*(literal.encode() for literal in _PLACES), b"Traceback"])
_IN_TEXT = Words(list(_PLACES))
_RAISED = re.compile(rb"(?:Error|Exception)(?::|\s*$)")

FAILING = (Role.ROOT, Role.SUSPECT, Role.CONSEQUENCE)


@dataclass(frozen=True)
class Finding:
    """One line that a rule knows. ``log`` is the place of its log among those given."""

    rule: Rule
    log: int
    line: Line
    rank: Optional[int]
    local_rank: Optional[int]
    node: Optional[str]
    task: Optional[int]
    pid: Optional[int]
    status: Optional[int]
    survived: bool = False

    @property
    def place(self) -> Tuple[int, int]:
        return (self.log, self.line.start)

    @property
    def cause(self) -> str:
        return self.rule.cause


@dataclass(frozen=True)
class _Raised:
    """The last line of a traceback: the frames above it, and which exceptions it is chained to."""

    frames: str
    chain: int


def find(logs: Sequence[LogText], finder_of: FinderOf = plain_finder) -> Tuple[Finding, ...]:
    """Return all findings of all logs, log by log, in the order of their lines."""
    gates = finder_of(GATES)
    return tuple(
        _of_owner(found, log)
        for index, log in enumerate(logs)
        for found in _find_in(Lines(log), index, gates, finder_of)
    )


def worth_reading(line: bytes) -> bool:
    """Whether a line that passed a gate holds the words of a rule, or may be an exception's."""
    return bool(_IN_BYTES.held_in(line)) or _RAISED.search(line) is not None


def _of_owner(found: Finding, log: LogText) -> Finding:
    """What the line does not say, the file's owner does."""
    return replace(
        found,
        rank=log.rank if found.rank is None else found.rank,
        node=log.node if found.node is None else found.node,
    )


def last_words(logs: Sequence[LogText]) -> Optional[Line]:
    """Return the last line that says something, from the first log that has one."""
    for log in logs:
        lines = Lines(log)
        line: Optional[Line] = lines.at(len(lines.data) - 1) if lines.data else None
        while line is not None and not line.text:
            line = lines.before(line)
        if line is not None:
            return line
    return None


def _find_in(lines: Lines, index: int, gates: Finder, finder_of: FinderOf) -> Tuple[Finding, ...]:
    candidates = _lines_worth_reading(lines, gates)
    raised = _exceptions(lines, candidates)
    found = _matched(lines, index, candidates, raised)
    for rule in {finding.rule.id for finding in found}.intersection(GATES_BESIDE):
        beside = _lines_worth_reading(lines, finder_of(GATES_BESIDE[rule]))
        found = sorted(
            [*found, *_matched(lines, index, beside, {})], key=lambda finding: finding.place
        )
    return _mark_survived(lines, _last_of_chains(found, raised))


def _lines_worth_reading(lines: Lines, gates: Finder) -> Dict[int, Line]:
    """Return the lines that pass a gate and hold a rule's own words, by where they start."""
    worth = {}
    for offset in lines.holding(gates):
        start, end = lines.bounds(offset)
        if worth_reading(lines.data[start:end]):
            worth[start] = lines.at(offset)
    return worth


def _matched(
    lines: Lines, index: int, candidates: Mapping[int, Line], raised: Mapping[int, _Raised]
) -> List[Finding]:
    counts: Dict[str, int] = {}
    found: List[Finding] = []
    for start in sorted(candidates):
        line = candidates[start]
        frames = raised[start].frames if start in raised else None
        matched = _matching(lines, line, frames)
        if matched is None:
            continue
        rule, match = matched
        counts[rule.id] = counts.get(rule.id, 0) + 1
        if counts[rule.id] <= MAX_FINDINGS_PER_RULE:
            found.append(_finding(lines, index, line, rule, match))
    return found


def _matching(
    lines: Lines, line: Line, frames: Optional[str]
) -> Optional[Tuple[Rule, re.Match[str]]]:
    """Return the first rule that knows the line; only a traceback's last line is an exception."""
    text = line.text
    if line.indented and text.startswith(_QUOTED_CODE):
        return None
    for place in sorted({n for literal in _IN_TEXT.held_in(text) for n in _PLACES[literal]}):
        rule = RULES[place]
        match = rule.search(text)
        if match is None:
            continue
        if rule.context:
            frames = _frames_above(lines, line) if frames is None else frames
            if re.search(rule.context, frames + "\n" + text) is None:
                continue
        return rule, match
    if _is_exception(text):
        frames = _frames_above(lines, line) if frames is None else frames
        match = EXCEPTION_RULE.match(text) if frames else None
        if match is not None:
            return EXCEPTION_RULE, match
    return None


def _is_exception(text: str) -> bool:
    return _EXCEPTION_LINE.match(text) is not None and not text.startswith(_LOG_LEVELS)


def _exceptions(lines: Lines, candidates: Dict[int, Line]) -> Mapping[int, _Raised]:
    """Follow each traceback to its last line, which becomes a candidate whatever it says."""
    raised: Dict[int, _Raised] = {}
    chain_of: Dict[str, int] = {}
    heads = [line for line in candidates.values() if TRACEBACK in line.text]
    for head in sorted(heads, key=lambda line: line.start)[:MAX_TRACEBACKS]:
        followed = _follow(lines, head, candidates)
        if followed is None:
            continue
        last, frames = followed
        before = _said_before(lines, head)
        introduction = before.text if before is not None else ""
        if introduction.startswith(_IGNORED):
            candidates.pop(last.start, None)
            continue
        chained = introduction.startswith(_CHAINED)
        chain = chain_of.get(head.label, last.start) if chained else last.start
        chain_of[head.label] = chain
        candidates.setdefault(last.start, last)
        raised[last.start] = _Raised(frames, chain)
    return raised


def _follow(lines: Lines, head: Line, candidates: Dict[int, Line]) -> Optional[Tuple[Line, str]]:
    """Return a traceback's last line and the text of its frames; others' lines are skipped."""
    frames: List[str] = [head.text]
    line: Optional[Line] = lines.after(head)
    for _ in range(MAX_TRACEBACK_LINES):
        if line is None:
            return None
        if line.label == head.label and line.text:
            if not line.indented and _is_exception(line.text):
                return line, "\n".join(frames)
            # Code that is quoted in a frame is not what happened.
            candidates.pop(line.start, None)
            frames.append(line.text)
        line = lines.after(line)
    return None


def _said_before(lines: Lines, line: Line) -> Optional[Line]:
    """Return what the same writer said right before."""
    before: Optional[Line] = lines.before(line)
    for _ in range(MAX_LINES_BACK):
        if before is None or (before.label == line.label and before.text):
            return before
        before = lines.before(before)
    return None


def _frames_above(lines: Lines, line: Line) -> str:
    """Return the frames right above a line whose traceback has lost its head; "" if none."""
    frames: List[str] = []
    above = lines.before(line)
    for _ in range(MAX_LINES_BACK):
        if above is None:
            break
        if above.label == line.label and above.text:
            if not above.indented:
                break
            frames.append(above.text)
        above = lines.before(above)
    text = "\n".join(reversed(frames))
    return text if "File " in text or (frames and line.label) else ""


def _last_of_chains(found: Sequence[Finding], raised: Mapping[int, _Raised]) -> List[Finding]:
    """Of chained exceptions keep what a rule knows, else the last: the one that ended it."""
    known: Set[int] = set()
    last: Dict[int, int] = {}
    for finding in found:
        start = finding.line.start
        if start in raised:
            chain = raised[start].chain
            last[chain] = start
            if finding.rule is not EXCEPTION_RULE and finding.rule.role is not Role.BOILERPLATE:
                known.add(chain)
    kept = []
    for finding in found:
        start = finding.line.start
        if finding.rule is EXCEPTION_RULE and start in raised:
            chain = raised[start].chain
            if chain in known or last[chain] != start:
                continue
        kept.append(finding)
    return kept


def _finding(lines: Lines, index: int, line: Line, rule: Rule, match: re.Match[str]) -> Finding:
    groups = match.groupdict()

    def number(name: str) -> Optional[int]:
        text = groups.get(name)
        return int(text) if text is not None and text.lstrip("-").isdigit() else None

    finding = Finding(
        rule=rule,
        log=index,
        line=line,
        rank=line.rank if number("rank") is None else number("rank"),
        local_rank=line.local_rank if number("local_rank") is None else number("local_rank"),
        node=groups.get("node") or line.host,
        task=line.task if number("task") is None else number("task"),
        pid=line.pid if number("pid") is None else number("pid"),
        status=number("status"),
    )
    return _table_entry(lines, finding) if rule.id == "torchrun-table" else finding


def _table_entry(lines: Lines, finding: Finding) -> Finding:
    """Read the rank and host that torchrun's failure table gives above the exit code."""
    line = finding.line
    for _ in range(_TABLE_LINES):
        above = _said_before(lines, line)
        if above is None:
            break
        line = above
        rank, host = _TABLE_RANK.match(line.text), _TABLE_HOST.match(line.text)
        if rank is not None:
            finding = replace(finding, rank=int(rank[1]), local_rank=int(rank[2]))
        if host is not None:
            return replace(finding, node=None if host[1] == "localhost" else host[1])
    return finding


def _mark_survived(lines: Lines, found: Sequence[Finding]) -> Tuple[Finding, ...]:
    """Mark failures after which the training went on in good health for long.

    A traceback that a library caught and printed, a download that worked the second time: what
    ended the attempt stands after the last long healthy stretch.
    """
    failing = [finding for finding in found if finding.rule.role in FAILING]
    healthy_from = -1
    for finding, following in zip(failing, [*failing[1:], None]):
        end = len(lines.data) if following is None else following.line.start
        if end - finding.line.end < _HEALTHY_BYTES:
            continue
        look = min(end, finding.line.end + _HEALTHY_LOOK)
        healthy = _PROGRESS.finditer(lines.data, finding.line.end, look)
        if next(islice(healthy, _HEALTHY_LINES - 1, None), None) is not None:
            healthy_from = finding.line.end
    return tuple(replace(finding, survived=finding.line.start < healthy_from) for finding in found)
