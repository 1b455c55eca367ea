"""A checkpoint and the judgement on it, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Dict, Tuple


class State(Enum):
    """Whether a training may go on from a checkpoint. Only COMPLETE says yes."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"  # something is not there: the save did not finish, or saved less
    CORRUPT = "corrupt"  # something is there and is damaged


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
    """One checkpoint directory, judged."""

    path: str
    step: int
    format: str
    state: State
    problems: Tuple[str, ...]
    max_steps: int = 0  # where the training is to end; 0 where the checkpoint does not say

    @property
    def finished(self) -> bool:
        """Resumed, a finished run would train one step too many."""
        return 0 < self.max_steps <= self.step

    @property
    def whole(self) -> bool:
        return self.state is State.COMPLETE

    def to_json(self) -> Dict[str, object]:
        return {
            "path": self.path,
            "step": self.step,
            "format": self.format,
            "state": self.state.value,
            "problems": list(self.problems),
            "finished": self.finished,
        }
