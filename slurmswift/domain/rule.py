"""What one message means: the form of an entry in the table of rules."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Optional, Pattern, Tuple

from slurmswift.domain.causes import CAUSES


class Role(Enum):
    """What a message can prove."""

    ROOT = "root"  # a cause by itself: the earliest one of the attempt is the answer
    SUSPECT = "suspect"  # the cause where no root stands: time-outs, which others' ends explain
    ENDING = "ending"  # ended from outside: what comes after it in the same log is its echo
    CONSEQUENCE = "consequence"  # somebody else's end, seen from here: the answer only if alone
    CONFIRMATION = "confirmation"  # names the rank, node or process that a cause belongs to
    BOILERPLATE = "boilerplate"  # printed with every failure of a kind: proves nothing
    HARMLESS = "harmless"  # sounds bad and is not


@dataclass(frozen=True)
class Rule:
    """One kind of message.

    Patterns are searched for in a line without its prefixes (rank, label, time). Named groups:
    rank, local_rank, node, peer, task, pid, status, signal. ``literals`` are texts of which each
    matching line holds at least one. ``context`` must match the traceback above the line.
    ``yields_to`` names rules that, found anywhere in the attempt, explain this one.
    """

    id: str
    role: Role
    cause: str
    literals: Tuple[str, ...]
    patterns: Tuple[str, ...]
    source: str
    positive: Tuple[str, ...]
    negative: Tuple[str, ...]
    context: str = ""
    yields_to: Tuple[str, ...] = ()
    remedy: str = ""
    advice: str = ""  # yes, no, unknown: overrides the cause's own word on resuming elsewhere
    compiled: Tuple[Pattern[str], ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.cause and self.cause not in CAUSES:
            raise ValueError(f"rule {self.id}: no such cause: {self.cause}")
        compiled = tuple(re.compile(pattern) for pattern in self.patterns)
        object.__setattr__(self, "compiled", compiled)

    def match(self, text: str) -> Optional[re.Match[str]]:
        if self.literals and not any(literal in text for literal in self.literals):
            return None
        return self.search(text)

    def search(self, text: str) -> Optional[re.Match[str]]:
        """Match a text that is known to hold one of the literals."""
        for pattern in self.compiled:
            found = pattern.search(text)
            if found is not None:
                return found
        return None

    @property
    def transient(self) -> Optional[bool]:
        """Whether resuming elsewhere is likely to help; None where it depends."""
        if self.advice:
            return {"yes": True, "no": False}.get(self.advice)
        return CAUSES[self.cause].transient if self.cause else None
