"""What an observation means for a run's current attempt: alive, restarted, ending, over, missing.

Only ``Over`` lets anybody act, and it asks for more than one witness: slurmctld no longer runs the
job *and* accounting has a final row. While a job is COMPLETING squeue hides who cancelled it, and a
requeue would revive what its owner ended (SLURM.md 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple, Union

from slurmswift.domain.job import FINAL_STATES, JobState, QueueRow
from slurmswift.domain.observation import NotFound, Observation, Seen, Unknown


@dataclass(frozen=True)
class Blind:
    """Slurm did not answer: nothing is concluded."""

    why: str


@dataclass(frozen=True)
class Live:
    """The attempt that we know of waits or runs."""

    row: QueueRow


@dataclass(frozen=True)
class Restarted:
    """Slurm (or a person) put the job back in the queue: a new attempt, to be adopted."""

    row: QueueRow


@dataclass(frozen=True)
class Ending:
    """Over or nearly so, but not yet by every witness."""

    why: str
    unqueued: bool = False  # slurmctld does not know the job, and accounting shows no end


@dataclass(frozen=True)
class Over:
    """The attempt has ended, and Slurm will not start it again by itself."""

    state: JobState
    exit_code: Optional[Tuple[int, int]] = None
    cancelled_by: Optional[int] = None
    canceller_known: bool = True
    out_of_memory: bool = False
    nodes: str = ""
    in_queue: bool = False  # slurmctld still has the record: the job can be requeued


@dataclass(frozen=True)
class Missing:
    """Both sources answered, and neither knows the job."""

    job_id: str


Phase = Union[Blind, Live, Restarted, Ending, Over, Missing]

_CANCELLED = frozenset({JobState.CANCELLED})
LIVE_STATES = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED})


def phase_of(observation: Observation, *, restart_count: int, has_accounting: bool) -> Phase:
    """Judge an observation of the job whose restart counter we last knew as ``restart_count``."""
    if isinstance(observation, Unknown):
        return Blind(observation.why)
    if isinstance(observation, NotFound):
        return Missing(observation.job_id)
    row = observation.queue
    if row is not None and row.restart_count > restart_count and _is_settled(row):
        return Restarted(row)
    if row is not None and row.state in LIVE_STATES:
        return Live(row)
    if row is not None and row.state not in FINAL_STATES:
        return Ending(f"squeue shows it {row.state.value}")
    return _ended(observation, has_accounting=has_accounting)


def _is_settled(row: QueueRow) -> bool:
    """A lost node keeps a requeued job COMPLETING until Slurm gives the node up."""
    return row.state in LIVE_STATES or row.state in FINAL_STATES


def _ended(seen: Seen, *, has_accounting: bool) -> Phase:
    row, account = seen.queue, seen.account
    if account is None:
        if row is not None and row.state is JobState.CANCELLED:
            # Cancelled before it was eligible (--begin, held): accounting never hears of it.
            return Over(row.state, canceller_known=False, nodes=row.nodes, in_queue=True)
        if has_accounting or row is None:
            return Ending("accounting does not show its end yet")
        # A site without slurmdbd: nothing names a canceller, and nothing CANCELLED is revived.
        return Over(row.state, canceller_known=False, nodes=row.nodes, in_queue=True)
    job = account.job
    cancelled = row is not None and row.state is JobState.CANCELLED
    if cancelled and (job.state is JobState.REQUEUED or job.state in FINAL_STATES - _CANCELLED):
        # Cancelled while it waited: 22.05 keeps the row of the attempt before, and none of this.
        return Over(JobState.CANCELLED, canceller_known=False, in_queue=True)
    if job.state not in FINAL_STATES or job.end in ("", "Unknown"):
        why = f"accounting still shows it {job.state.value}"
        return Ending(why, unqueued=row is None)
    return Over(
        state=job.state,
        exit_code=(job.exit_code.status, job.exit_code.signal),
        cancelled_by=job.cancelled_by,
        out_of_memory=account.out_of_memory,
        nodes=job.nodes,
        in_queue=row is not None,
    )
