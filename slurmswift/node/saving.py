"""Asks the ranks of a node to save and leave, when the script says that the time limit is near."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Callable, Set

from slurmswift.ages import modified
from slurmswift.node.attempt import Attempt
from slurmswift.node.processes import Process, catches
from slurmswift.node.ranks import RankWatch

# By now a training has its handlers, if it has any.
_PATIENCE_SECONDS = 30.0


class SaveRequest:
    """Sends SIGUSR2 once to each rank's topmost process, where it has a handler for it.

    Only to that one: a data loader's worker inherits LOCAL_RANK, and its death would end the
    rank before it has saved. And only with a handler: without one the signal itself would end
    the rank. One that is still importing gets it as soon as it is ready.
    """

    def __init__(self, attempt: Attempt, ranks: RankWatch, say: Callable[[str], None]) -> None:
        self._file = attempt.path / "save-request"
        self._ranks = ranks
        self._say = say
        self._seen_at = 0.0
        self._asked: Set[Process] = set()
        self._deaf_said = False

    def look(self) -> None:
        """Every second, after the ranks have been looked for."""
        if not self._seen_at and not self._seen():
            return
        deaf = []
        for rank, process in self._ranks.running():
            if process in self._asked:
                continue
            if catches(process.pid, signal.SIGUSR2):
                self._asked.add(process)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, signal.SIGUSR2)
                self._say(f"asked rank {rank} to save and leave")
            else:
                deaf.append(rank)
        if deaf and not self._deaf_said and time.monotonic() - self._seen_at > _PATIENCE_SECONDS:
            self._deaf_said = True
            numbers = ", ".join(map(str, sorted(deaf)))
            self._say(
                f"not asked to save, for want of a handler for SIGUSR2: rank {numbers}; "
                "their newest checkpoint is where the next attempt starts"
            )

    def _seen(self) -> bool:
        try:
            there = modified(self._file) is not None
        except OSError:  # a file system that cannot be read now: the next look is in a second
            return False
        if there:
            self._seen_at = time.monotonic()
        return there
