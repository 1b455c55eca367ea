"""Where the logs of a run are."""

from __future__ import annotations

from pathlib import Path

from slurmswift.errors import StateError, UsageError
from slurmswift.files.run_directory import AttemptDirectory, RunDirectory
from slurmswift.files.state_folder import IndexEntry


def log_files(entry: IndexEntry, *, attempt: int | None, rank: int | None) -> tuple[Path, ...]:
    """Return the log files of one attempt (the newest by default), of one rank if asked."""
    run = RunDirectory(entry.run_dir)
    attempts = run.attempts()
    if not attempts:
        state = run.read_state()
        slurm_log = run.slurm_log(state.job_id) if state.job_id else None
        if slurm_log is not None and slurm_log.exists():
            return (slurm_log,)
        raise StateError(f"{entry.run_id}: no attempt has started yet ({state.reason})")
    chosen = attempts[-1]
    if attempt is not None:
        numbered = [a for a in attempts if a.number == attempt]
        if not numbered:
            have = ", ".join(str(a.number) for a in attempts)
            raise UsageError(f"{entry.run_id} has no attempt {attempt}; it has: {have}")
        chosen = numbered[-1]
    if rank is None:
        return (chosen.log,)
    return _rank_logs(entry, run, chosen, rank)


def _rank_logs(
    entry: IndexEntry, run: RunDirectory, attempt: AttemptDirectory, rank: int
) -> tuple[Path, ...]:
    start = attempt.start()
    per_node = run.read_plan().processes_per_node
    if start is None or not 0 <= rank < len(start.nodes) * per_node:
        raise UsageError(f"{entry.run_id}: attempt {attempt.number} has no rank {rank}")
    node, local = start.nodes[rank // per_node], rank % per_node
    # torchrun: LOG_DIR/<run id>_<random>/attempt_0/<local rank>/{stdout,stderr}.log
    logs = attempt.path / "ranks" / node
    found = sorted([*logs.glob(f"*/attempt_*/{local}/std*.log"), *logs.glob(f"rank-{rank}.log")])
    if not found:
        raise StateError(
            f"{entry.run_id}: rank {rank} left no log of its own in attempt {attempt.number};"
            f" see {attempt.log}"
        )
    return tuple(found)
