"""What to do about an attempt that is over: one table, cause -> action and budget (DESIGN.md 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence, Tuple, Union

from slurmswift.domain.run import AttemptEnd


@dataclass(frozen=True)
class PolicyRow:
    """What a family of causes earns.

    ``budget`` counts restarts since the last new whole checkpoint, per row, and 0 is "never
    restarted". A cause ends in ``-`` where it stands for every cause that starts so.
    """

    causes: Tuple[str, ...]
    action: str  # resume, stop, hold
    budget: int
    avoid_node: bool = False
    wait: bool = False  # let the fault pass before the next attempt
    name: str = ""

    def matches(self, cause: str) -> bool:
        return any(
            cause.startswith(mine) if mine.endswith("-") else cause == mine for mine in self.causes
        )


# The first row that matches decides: the particular stand before their families.
POLICY: Tuple[PolicyRow, ...] = (
    PolicyRow(("sched-preempted",), "resume", 2, name="preemption"),
    PolicyRow(("sched-time-limit",), "resume", 2, name="time limit"),
    PolicyRow(("sched-cancelled",), "hold", 0, name="cancelled"),
    PolicyRow(("sched-launch-failure",), "resume", 3, avoid_node=True, name="launch"),
    PolicyRow(("comm-interface-misconfig",), "stop", 0, name="interface"),
    PolicyRow(("comm-",), "resume", 3, avoid_node=True, name="communication"),
    PolicyRow(("hw-",), "resume", 3, avoid_node=True, name="hardware"),
    PolicyRow(("storage-fs-error",), "resume", 3, wait=True, name="file system"),
    PolicyRow(("storage-full",), "hold", 0, name="storage full"),
    PolicyRow(("ckpt-corrupt", "ckpt-missing-files"), "resume", 2, name="checkpoint"),
    PolicyRow(("ckpt-save-race",), "resume", 3, name="save race"),
    PolicyRow(("config-port-in-use",), "resume", 3, name="port"),
    PolicyRow(("config-hub-unreachable",), "resume", 3, wait=True, name="hub"),
    PolicyRow(("mem-host-oom",), "resume", 1, name="host memory"),
    PolicyRow(("unexplained", "unknown", "none"), "resume", 1, name="unexplained"),
    PolicyRow(
        ("mem-", "ckpt-", "code-", "config-", "data-", "numerics-"), "stop", 0, name="the user's"
    ),
)

UNEXPLAINED = next(row for row in POLICY if "unexplained" in row.causes)

# Floors and breaker: no recipe lifts them.
MAX_WITHOUT_CHECKPOINT = 5
BREAKER_ATTEMPTS = 3
BREAKER_SECONDS = 300.0
WAITS_MINUTES = (0, 1, 2, 4, 8, 16, 30)


@dataclass(frozen=True)
class Resume:
    """Put the run back in the queue, off these nodes, not before ``delay`` seconds from now."""

    why: str
    avoid: Tuple[str, ...]
    delay: float


@dataclass(frozen=True)
class Stop:
    """End the run as FAILED: resuming cannot help."""

    why: str


@dataclass(frozen=True)
class Hold:
    """A person must look before anything more is done."""

    why: str


Decision = Union[Resume, Stop, Hold]


def row_for(cause: str) -> PolicyRow:
    """Return the table's row for a cause; one that no row names is treated as unexplained."""
    return next((row for row in POLICY if row.matches(cause)), UNEXPLAINED)


def since_progress(ends: Sequence[AttemptEnd]) -> Tuple[AttemptEnd, ...]:
    """Return the ends since the last new whole checkpoint, the attempt that brought it included."""
    recent: Tuple[AttemptEnd, ...] = ()
    for end in reversed(ends):
        recent = (end, *recent)
        if end.progress:
            break
    return recent


@dataclass(frozen=True)
class Limits:
    """What the recipe says about restarts."""

    max_restarts: int
    budgets: Tuple[Tuple[str, int], ...] = ()  # category or row name -> restarts

    def budget(self, row: PolicyRow, category: str) -> int:
        """The recipe may change a row's number, by the row's name or the cause's category."""
        named = dict(self.budgets)
        if row.action != "resume":
            return row.budget
        return named.get(row.name, named.get(category, row.budget))


def decide(
    ends: Sequence[AttemptEnd], limits: Limits, restarts: int, *, other_checkpoint: bool = False
) -> Decision:
    """Decide about the last of ``ends``, an attempt that failed and that its owner did not cancel.

    ``restarts`` is how often the run was put back before. ``other_checkpoint``: the next attempt
    starts from an older one (quarantine.py), so a spent budget is no reason to stop. Pure: the
    same history gives the same decision, so that ``why`` and a replay can show it again.
    """
    end = ends[-1]
    row = row_for(end.cause)
    if row.action == "stop":
        return Stop(f"{end.cause}: starting it again cannot help")
    if row.action == "hold":
        return Hold(f"{end.cause}: {_HOLD_REASONS.get(end.cause, 'a person must look')}")
    floor = _floor(ends, limits, restarts)
    if floor is not None:
        return floor
    recent = since_progress(ends)
    used = sum(row_for(other.cause) is row for other in recent)
    budget = limits.budget(row, end.category)
    if used > budget and not other_checkpoint:
        return Stop(
            f"{end.cause}: the budget for {row.name} ({budget} restart{'s' * (budget != 1)} "
            "without a new checkpoint) is spent"
        )
    avoid = (end.node,) if row.avoid_node and end.node else ()
    why = f"{end.cause}: restart {used} of {budget} for {row.name} since the last new checkpoint"
    if used > budget:
        why = f"{end.cause}: once more, from an older checkpoint"
    if avoid:
        why += f", avoiding {end.node}"
    # The first restart of a kind is at once, unless the fault itself needs time to pass.
    step = len(recent) - 1 + row.wait
    return Resume(why, avoid, 60.0 * WAITS_MINUTES[min(step, len(WAITS_MINUTES) - 1)])


_HOLD_REASONS = {
    "sched-cancelled": "somebody other than the owner cancelled it",
    "storage-full": "make room, then resume it",
}


def _floor(ends: Sequence[AttemptEnd], limits: Limits, restarts: int) -> Optional[Decision]:
    if restarts >= limits.max_restarts:
        return Stop(f"max_restarts ({limits.max_restarts}) is reached")
    barren = _without_checkpoint(ends)
    if len(barren) >= MAX_WITHOUT_CHECKPOINT:
        return Hold(f"{len(barren)} attempts in a row brought no new checkpoint")
    last = barren[-BREAKER_ATTEMPTS:]
    if len(last) == BREAKER_ATTEMPTS and all(
        end.seconds is not None and end.seconds < BREAKER_SECONDS for end in last
    ):
        return Hold(
            f"{BREAKER_ATTEMPTS} attempts in a row died within minutes of their start"
            " and brought no new checkpoint"
        )
    return None


def _without_checkpoint(ends: Sequence[AttemptEnd]) -> Tuple[AttemptEnd, ...]:
    recent = since_progress(ends)
    return recent[1:] if recent and recent[0].progress else recent


def attempts_left(ends: Sequence[AttemptEnd], limits: Limits, restarts: int) -> int:
    """How many more attempts may start before a decision is needed, for the gate's own count.

    Slurm requeues by itself, without asking: the gate must know where the floors lie.
    """
    return max(
        0,
        min(
            limits.max_restarts - restarts, MAX_WITHOUT_CHECKPOINT - len(_without_checkpoint(ends))
        ),
    )
