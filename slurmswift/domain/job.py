"""Slurm's own nouns: states, exit codes, and the rows that squeue and sacct print."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Dict, FrozenSet, Optional, Tuple


class JobState(Enum):
    """Slurm's base states (https://slurm.schedmd.com/job_state_codes.html), and three more."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    # A flag, printed in place of the base state: over, not yet clean, by whom not known.
    COMPLETING = "COMPLETING"
    # sacct's word for an attempt that ended by being put back in the queue.
    REQUEUED = "REQUEUED"
    # Not Slurm's: a word that this version of slurmswift does not know.
    UNRECOGNIZED = "?"


class Printer(Enum):
    """Who printed a state: the same word means different things (SLURM.md 3)."""

    SQUEUE = "squeue"
    SACCT = "sacct"


# Flags are printed in place of the base state that they go with.
_BASE_STATE_OF_FLAG: Dict[str, JobState] = {
    "CONFIGURING": JobState.RUNNING,
    "POWER_UP_NODE": JobState.RUNNING,
    "EXPEDITING": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "REQUEUE_FED": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "STAGE_OUT": JobState.COMPLETING,
    "STOPPED": JobState.SUSPENDED,
    "UPDATE_DB": JobState.COMPLETING,
    "LAUNCH_FAILED": JobState.NODE_FAIL,
    "RECONFIG_FAIL": JobState.NODE_FAIL,
}

# The attempt is over and Slurm will not run it again by itself.
FINAL_STATES: FrozenSet[JobState] = frozenset(
    {
        JobState.COMPLETED,
        JobState.CANCELLED,
        JobState.FAILED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
        JobState.PREEMPTED,
        JobState.BOOT_FAIL,
        JobState.DEADLINE,
        JobState.OUT_OF_MEMORY,
    }
)


def parse_state(text: str, printer: Printer) -> JobState:
    """Return the state for a State column.

    An unknown word becomes UNRECOGNIZED, never an exception and never a guess: a new Slurm
    release must not crash the watcher nor end a run.
    """
    word = text.split(None, 1)[0] if text.strip() else ""  # sacct writes "CANCELLED by 1000"
    if word == "REQUEUED" and printer is Printer.SQUEUE:
        return JobState.PENDING
    if word in _BASE_STATE_OF_FLAG:
        return _BASE_STATE_OF_FLAG[word]
    try:
        return JobState(word)
    except ValueError:
        return JobState.UNRECOGNIZED


def parse_canceller(text: str) -> Optional[int]:
    """Return the uid of ``CANCELLED by UID``, None where Slurm does not say."""
    before, _, uid = text.strip().rpartition(" by ")
    return int(uid) if before == "CANCELLED" and uid.isdigit() else None


@dataclass(frozen=True)
class ExitCode:
    """Slurm's ``status:signal`` pair."""

    status: int
    signal: int

    @classmethod
    def parse(cls, text: str) -> ExitCode:
        """Read it as sacct prints it; what is no number counts as 0, and the state tells."""
        status, _, signal = text.partition(":")
        return cls(int(status) if status.isdigit() else 0, int(signal) if signal.isdigit() else 0)


@dataclass(frozen=True)
class QueueRow:
    """One job as squeue shows it: also for a while (MinJobAge) after its end."""

    job_id: str
    state: JobState
    restart_count: int
    reason: str
    nodes: str
    name: str
    command: str = ""  # the script and its arguments: for a job of ours, its epoch

    @property
    def epoch(self) -> Optional[int]:
        """The epoch that the job was submitted under; None where a person submitted it."""
        _, _, last = self.command.rpartition(" ")
        return int(last) if last.isdigit() and last != self.command else None


@dataclass(frozen=True)
class AccountRow:
    """One row of sacct: a job (step empty) or a step of one (``batch``, ``extern``, ``0`` ...)."""

    job_id: str
    step: str
    state: JobState
    cancelled_by: Optional[int]
    exit_code: ExitCode
    submit: str  # Slurm's own times, compared with each other only
    start: str
    end: str
    nodes: str
    name: str


@dataclass(frozen=True)
class AccountedAttempt:
    """The last attempt of a job that accounting knows: its own row and those of its steps."""

    job: AccountRow
    steps: Tuple[AccountRow, ...]

    @property
    def out_of_memory(self) -> bool:
        """Slurm may show it on a step alone while the job reads FAILED (SLURM.md 3)."""
        return any(row.state is JobState.OUT_OF_MEMORY for row in (self.job, *self.steps))


def last_attempt(
    rows: Tuple[AccountRow, ...], job_id: str, name: str
) -> Optional[AccountedAttempt]:
    """Pick the newest attempt of a job out of ``sacct --duplicates`` rows.

    sacct prints a job's duplicates in order, each followed by its steps. Ids are used again; the
    name is the job's own.
    """
    attempt: Optional[AccountedAttempt] = None
    ours = False
    for row in rows:
        if row.job_id != job_id:
            continue
        if not row.step:
            ours = row.name == name
            attempt = AccountedAttempt(row, ()) if ours else attempt
        elif attempt is not None and ours:
            attempt = AccountedAttempt(attempt.job, (*attempt.steps, row))
    return attempt
