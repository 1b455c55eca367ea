"""Stops a run for good: the word first, then the cancel."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from slurmswift.app.tools import Tools
from slurmswift.domain.lifecycle import AT_REST, RunStatus
from slurmswift.errors import SlurmUnavailableError, StateError
from slurmswift.files import journal
from slurmswift.files.run_directory import RunDirectory
from slurmswift.files.state_folder import IndexEntry
from slurmswift.slurm.client import user_name


@dataclass(frozen=True, slots=True)
class Stopped:
    """What `stop` did."""

    run_id: str
    job_id: str | None
    status: str
    message: str


def stop(entry: IndexEntry, tools: Tools) -> Stopped:
    """Create ``stop`` (no start gets past the gate any more), then cancel the job.

    Needs no lease: the word is created once and never taken back by us. The watcher moves the run
    to CANCELLED when Slurm has ended the job. SlurmUnavailableError where Slurm is away: the word
    stands, and the next pass cancels.
    """
    run = RunDirectory(entry.run_dir)
    state = run.read_state()
    if state.status in AT_REST and state.status is not RunStatus.HELD:
        return Stopped(entry.run_id, state.job_id, state.status.value, "it is over already")
    by = f"{user_name()}@{socket.gethostname()}"
    now = tools.now()
    run.request_stop(by=by, at=now)
    journal.append(run.journal, {"schema": 1, "at": now, "by": by, "event": "stop"})
    if state.job_id is None:
        return Stopped(
            entry.run_id, None, state.status.value, "recorded: no start gets past the gate"
        )
    try:
        cluster = tools.slurm.cluster_name()
        if cluster != entry.cluster:
            raise StateError(
                f"{entry.run_id} runs on cluster {entry.cluster}, this is {cluster}: the stop is"
                " recorded, and its own watcher cancels the job"
            )
        tools.slurm.cancel((state.job_id,), entry.run_id)
    except SlurmUnavailableError as error:
        raise SlurmUnavailableError(
            f"recorded: the next pass cancels, and no start gets past the gate ({error})"
        ) from error
    return Stopped(entry.run_id, state.job_id, state.status.value, f"job {state.job_id} cancelled")
