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


def observe(look: Look, job_id: str, name: str) -> Observation:
    """Return what the look says of one job.

    A job of that id and another name is another job: Slurm lost its state, or the ids wrapped.
    """
    if isinstance(look.queue, Unknown):
        return look.queue
    queue = next((row for row in look.queue if (row.job_id, row.name) == (job_id, name)), None)
    if isinstance(look.accounts, Unknown):
        # A job that is in the queue is known even where accounting does not answer.
        return look.accounts if queue is None else Seen(queue, None)
    account = last_attempt(look.accounts, job_id, name)
    if queue is None and account is None:
        return NotFound(job_id)
    return Seen(queue, account)


def jobs_of_epoch(look: Look, name: str, epoch: int, since: str) -> Tuple[str, ...]:
    """Return the ids of the jobs of that name that were, or may be, submitted under that epoch.

    squeue tells the epoch. Where accounting alone knows a job, those submitted before ``since``
    (Slurm's time, as text) are left out: older jobs of the run.
    """
    queue = () if isinstance(look.queue, Unknown) else look.queue
    accounts = () if isinstance(look.accounts, Unknown) else look.accounts
    told = {row.job_id: row.epoch for row in queue if row.name == name}
    found: Set[str] = {job_id for job_id, its_epoch in told.items() if its_epoch == epoch}
    for row in accounts:
        if row.name == name and not row.step and row.job_id not in told and row.submit >= since:
            found.add(row.job_id)
    return tuple(sorted(found, key=int))
