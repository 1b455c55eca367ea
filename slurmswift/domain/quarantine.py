"""When a checkpoint that looks whole is no longer resumed from: the run fails from it every time.

The judgement of files cannot see everything (a changed byte in the middle of the weights). What
then tells is the run: the same failure, at the same step, after the same checkpoint.
"""

from __future__ import annotations

from typing import Optional, Sequence

from slurmswift.domain.run import AttemptEnd, Quarantined

# The trainer itself said that it cannot read the checkpoint: once is enough.
AT_ONCE = ("ckpt-corrupt", "ckpt-missing-files")
# What a checkpoint has no part in, however often it comes at the same step.
_NEVER = ("sched-", "storage-", "hw-", "config-")
# Before the first step of an attempt these are the network's or the node's.
_ONLY_LATER = ("comm-",)
TIMES = 2


def to_quarantine(ends: Sequence[AttemptEnd], now: float) -> Optional[Quarantined]:
    """Return what the end of the last attempt puts in quarantine, None where nothing.

    Pure: the same history gives the same answer.
    """
    end = ends[-1] if ends else None
    if end is None or end.resumed_from is None or end.cause.startswith(_NEVER):
        return None
    if end.cause in AT_ONCE:
        return Quarantined(end.resumed_from, f"{end.cause} after resuming from it", now)
    if end.failed_at is None:
        return None
    if end.cause.startswith(_ONLY_LATER) and end.failed_at <= (end.resumed_step or 0):
        return None
    key = (end.cause, end.resumed_from, end.failed_at)
    same = [other for other in ends if (other.cause, other.resumed_from, other.failed_at) == key]
    if len(same) < TIMES:
        return None
    why = f"{end.cause} at step {end.failed_at}, {len(same)} times after resuming from it"
    return Quarantined(end.resumed_from, why, now)
