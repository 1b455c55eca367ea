"""Which nodes the next job is kept off: never so many that it could not start (invariant I8)."""

from __future__ import annotations

from typing import FrozenSet, Sequence, Tuple


def excluded_nodes(
    users: Sequence[str], avoid: Sequence[str], *, available: FrozenSet[str], needed: int
) -> Tuple[str, ...]:
    """Return the user's list and as many of ``avoid`` (newest last) as leave ``needed`` nodes.

    Names that the partition does not have are left out: sbatch refuses a list with one of them.
    The oldest evidence gives way first.
    """
    kept = [node for node in users if node in available]
    suspects = [
        node for node in dict.fromkeys(reversed(avoid)) if node in available and node not in kept
    ]
    room = max(0, len(available) - len(kept) - needed)
    return tuple(kept) + tuple(sorted(suspects[:room]))
