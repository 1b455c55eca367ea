"""The ranks below a launcher: found by their environment, seen to end by the kernel."""

from __future__ import annotations

import os
import select
import time
from typing import Dict, List, Optional, Set, Tuple

from slurmswift.domain.records import RankEnd
from slurmswift.node.processes import (
    Process,
    descendants,
    environment_of,
    exit_code_of_zombie,
)

# pidfd_open: Linux 5.3 and Python 3.9. Without it a rank's end is seen within a look's period,
# its status only where its parent has not collected it yet.
_pidfd_open = getattr(os, "pidfd_open", None)


class _Rank:
    """One rank while it is watched."""

    def __init__(self, process: Process, rank: int, local_rank: int) -> None:
        self.process = process
        self.rank = rank
        self.local_rank = local_rank
        self.wait_status: Optional[int] = None
        self.ended_at: Optional[float] = None

    def to_record(self) -> RankEnd:
        status, by_signal = split_wait_status(self.wait_status)
        return RankEnd(
            rank=self.rank,
            local_rank=self.local_rank,
            pid=self.process.pid,
            status=status,
            signal=by_signal,
            ended_at=self.ended_at,
        )


def split_wait_status(wait_status: Optional[int]) -> Tuple[Optional[int], Optional[int]]:
    """Return (exit status, signal), both None where nobody saw the end."""
    if wait_status is None:
        return None, None
    if os.WIFSIGNALED(wait_status):
        return None, os.WTERMSIG(wait_status)
    return os.WEXITSTATUS(wait_status), None


class RankWatch:
    """Keeps what is known of every rank that was ever seen here."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._ranks: Dict[int, _Rank] = {}  # by pid; a later process of the same pid replaces it
        self._earlier: List[_Rank] = []
        self._by_descriptor: Dict[int, _Rank] = {}

    def look(self, root: int) -> None:
        """Find new ranks: the topmost processes with LOCAL_RANK, below which it is inherited."""
        below = descendants(root)
        inside: Set[int] = set()
        for process in below:  # parents come first
            if process.parent in inside or self._knows(process) or self._take(process):
                inside.add(process.pid)
        alive = {(process.pid, process.start_time) for process in below}
        for rank in self._ranks.values():
            if (rank.process.pid, rank.process.start_time) not in alive:
                self._over(rank)

    def wait(self, seconds: float) -> None:
        """Sleep, and wake up for the end of a rank: its status is there for a moment only."""
        for descriptor, _ in self._poll.poll(seconds * 1000):
            rank = self._by_descriptor.pop(descriptor)
            self._over(rank)
            self._poll.unregister(descriptor)
            os.close(descriptor)

    def collected(self, pid: int, wait_status: int) -> None:
        """An orphan rank became our own child, and was waited for."""
        rank = self._ranks.get(pid)
        if rank is not None:
            rank.wait_status = wait_status
            rank.ended_at = rank.ended_at or time.time()

    def any_failed(self) -> bool:
        return any(rank.wait_status not in (None, 0) for rank in self._all())

    def running(self) -> Tuple[Tuple[int, Process], ...]:
        """Each rank that is not over, with its topmost process."""
        return tuple(
            (rank.rank, rank.process) for rank in self._ranks.values() if rank.ended_at is None
        )

    def records(self) -> Tuple[RankEnd, ...]:
        return tuple(
            rank.to_record()
            for rank in sorted(self._all(), key=lambda rank: (rank.rank, rank.process.start_time))
        )

    def _all(self) -> List[_Rank]:
        return [*self._earlier, *self._ranks.values()]

    def _knows(self, process: Process) -> bool:
        rank = self._ranks.get(process.pid)
        return rank is not None and rank.process.start_time == process.start_time

    def _take(self, process: Process) -> bool:
        variables = environment_of(process.pid)
        try:
            rank = _Rank(process, int(variables["RANK"]), int(variables["LOCAL_RANK"]))
        except (KeyError, ValueError):
            return False
        replaced = self._ranks.get(process.pid)
        if replaced is not None:
            self._earlier.append(replaced)
        self._ranks[process.pid] = rank
        self._watch(rank)
        return True

    def _watch(self, rank: _Rank) -> None:
        if _pidfd_open is None:
            return
        try:
            descriptor = _pidfd_open(rank.process.pid)
        except OSError:  # over already, or a kernel before 5.3: the next look sees it gone
            return
        self._by_descriptor[descriptor] = rank
        self._poll.register(descriptor, select.POLLIN)

    def _over(self, rank: _Rank) -> None:
        if rank.ended_at is not None:
            return
        rank.wait_status = exit_code_of_zombie(rank.process.pid)
        rank.ended_at = time.time()
