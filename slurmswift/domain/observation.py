"""What one look at Slurm told us about a job. Three answers, because silence is not "finished"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Set, Tuple, Union

from slurmswift.domain.job import AccountedAttempt, AccountRow, QueueRow, last_attempt


@dataclass(frozen=True)
class Seen:
    """Slurm knows the job: in its queue, in its accounts, or in both."""

    queue: Optional[QueueRow]
    account: Optional[AccountedAttempt]


@dataclass(frozen=True)
class NotFound:
    """Slurm answered from both sources, and does not know the job (yet, or any more)."""

    job_id: str


@dataclass(frozen=True)
class Unknown:
    """Slurm did not answer. Nothing about the job may be concluded."""

    why: str


Observation = Union[Seen, NotFound, Unknown]


@dataclass(frozen=True)
class Look:
    """The answers of one squeue and one sacct, for all jobs of a user."""

    queue: Union[Tuple[QueueRow, ...], Unknown]
    accounts: Union[Tuple[AccountRow, ...], Unknown]
    has_accounting: bool = True


def observe(look: Look, job_id: str) -> Observation:
    """Return what the look says of one job."""
    if isinstance(look.queue, Unknown):
        return look.queue
    queue = next((row for row in look.queue if row.job_id == job_id), None)
    if isinstance(look.accounts, Unknown):
        # A job that is in the queue is known even where accounting does not answer.
        return look.accounts if queue is None else Seen(queue, None)
    account = last_attempt(look.accounts, job_id)
    if queue is None and account is None:
        return NotFound(job_id)
    return Seen(queue, account)


def jobs_named_since(look: Look, name: str, since: str) -> Tuple[str, ...]:
    """Return the ids of the jobs of that name, oldest id first.

    Those that accounting knows to be submitted before ``since`` (Slurm's time, as text) are left
    out: older jobs of the run, and of an owner who reuses the name.
    """
    found: Set[str] = set()
    older: Set[str] = set()
    if not isinstance(look.accounts, Unknown):
        for row in look.accounts:
            if row.name == name and not row.step:
                (found if row.submit >= since else older).add(row.job_id)
    if not isinstance(look.queue, Unknown):
        found |= {row.job_id for row in look.queue if row.name == name}
    return tuple(sorted(found - older, key=int))
