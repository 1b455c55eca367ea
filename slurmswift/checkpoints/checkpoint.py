"""A checkpoint and the judgement on it, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Dict, Tuple

_PROBLEMS_IN_A_LINE = 5


class State(Enum):
    """Whether a training may go on from a checkpoint. Only COMPLETE says yes."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"  # something is not there: the save did not finish, or saved less
    CORRUPT = "corrupt"  # something is there and is damaged
    WRITING = "being written"  # incomplete, and its files changed a moment ago


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a checkpoint: the file, what is wrong, and which of the two it is."""

    file: str
    message: str
    state: State

    def __str__(self) -> str:
        return f"{self.file}: {self.message}"


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint, judged."""

    path: str
    step: int
    format: str
    state: State
    problems: Tuple[str, ...]
    max_steps: int = 0  # where the training is to end; 0 where the checkpoint does not say
    unfit: str = ""  # why a whole one is not gone on from: in quarantine, another world size
    changed: float = 0.0  # its newest file's mtime, by the file server's clock; 0: not looked up
    bytes: int = -1  # -1: not added up

    @property
    def finished(self) -> bool:
        """Resumed, a finished run would train one step too many."""
        return 0 < self.max_steps <= self.step

    @property
    def whole(self) -> bool:
        return self.state is State.COMPLETE

    @property
    def usable(self) -> bool:
        """A resume may start from it. A finished one is never resumed, whoever it fits."""
        return self.whole and (self.finished or not self.unfit)

    @property
    def why_not(self) -> str:
        """One line on why no resume starts from it; empty where one may."""
        if self.usable:
            return ""
        if self.whole:
            return f"not used: {self.unfit}"
        shown = "; ".join(self.problems[:_PROBLEMS_IN_A_LINE])
        more = len(self.problems) - _PROBLEMS_IN_A_LINE
        return f"{self.state.value}: {shown}" + (f"; and {more} more" if more > 0 else "")

    def to_json(self) -> Dict[str, object]:
        return {
            "path": self.path,
            "step": self.step,
            "format": self.format,
            "state": self.state.value,
            "problems": list(self.problems),
            "finished": self.finished,
            "unfit": self.unfit,
        }
