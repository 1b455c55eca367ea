"""The life of a run: its statuses, and the one table of moves between them.

Everything that moves a run's status goes through ``move``; a move that the table does not hold
raises and changes nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import Dict, FrozenSet


class RunStatus(Enum):
    """Where a run stands (DESIGN.md, section 2)."""

    PLANNED = "PLANNED"  # written down, sbatch not yet answered
    SUBMITTED = "SUBMITTED"  # sbatch answered with a job id; not seen in the queue yet
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"  # an attempt ended; the next one is decided, or is being arranged
    HELD = "HELD"  # a person must look
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


_S = RunStatus
TERMINAL: FrozenSet[RunStatus] = frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELLED})
# The watcher leaves these alone until a person speaks.
AT_REST: FrozenSet[RunStatus] = TERMINAL | {_S.HELD}

_LIVE = frozenset({_S.SUBMITTED, _S.PENDING, _S.RUNNING, _S.RESTARTING})
MOVES: Dict[RunStatus, FrozenSet[RunStatus]] = {
    _S.PLANNED: _LIVE | AT_REST,
    _S.SUBMITTED: _LIVE | AT_REST,
    _S.PENDING: _LIVE | AT_REST,
    _S.RUNNING: _LIVE | AT_REST,
    _S.RESTARTING: _LIVE | AT_REST,
    # Only a person's `resume` or `stop` leads out of these; a finished run stays finished.
    _S.HELD: frozenset({_S.RESTARTING, _S.CANCELLED}),
    _S.FAILED: frozenset({_S.RESTARTING}),
    _S.CANCELLED: frozenset({_S.RESTARTING}),
    _S.COMPLETED: frozenset(),
}


class IllegalMoveError(Exception):
    """A bug: somebody moved a run where the table does not let it go."""


def move(status: RunStatus, to: RunStatus) -> RunStatus:
    """Return the new status, or raise IllegalMoveError. Staying is always allowed."""
    if to is not status and to not in MOVES[status]:
        raise IllegalMoveError(f"a run cannot move from {status.value} to {to.value}")
    return to
