"""Resumes a run because a person says so: also after FAILED, HELD, CANCELLED."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from slurmswift.app import restart
from slurmswift.app.chronicle import Chronicle
from slurmswift.app.tools import Tools
from slurmswift.checkpoints import Checkpoint, list_checkpoints
from slurmswift.domain import hostlist
from slurmswift.domain.lifecycle import AT_REST, RunStatus, move
from slurmswift.domain.observation import observe
from slurmswift.domain.phase import Blind, Ending, Live, Restarted, phase_of
from slurmswift.domain.run import AvoidedNode, Intent, RunState
from slurmswift.errors import SlurmUnavailableError, StateError, UsageError
from slurmswift.files.run_directory import RunDirectory
from slurmswift.files.state_folder import IndexEntry

_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Resumed:
    """What `resume` did."""

    run_id: str
    job_id: str
    set_aside: tuple[str, ...]  # newer checkpoints, renamed so that nothing resumes from them


def resume(entry: IndexEntry, tools: Tools, *, start_from: Path | None, exclude: str) -> Resumed:
    """Submit a run that is at rest again, under a new epoch; budgets count anew.

    UsageError where there is nothing to resume; StateError while its last job is not over yet.
    """
    run = RunDirectory(entry.run_dir)
    state = run.read_state()
    _refuse_unless_at_rest(entry, state)
    cluster = tools.slurm.cluster_name()
    if cluster != entry.cluster:
        raise StateError(f"{entry.run_id} runs on cluster {entry.cluster}, this is {cluster}")
    _refuse_while_alive(state, tools)
    excluded = _hosts(exclude)
    newer = _newer_than(start_from, Path(run.read_plan().checkpoint_directory))
    now = tools.now()
    chronicle = Chronicle(run, state, "resume")
    chronicle.note(
        "resumed",
        now,
        start_from=None if start_from is None else str(start_from),
        exclude=list(excluded),
        set_aside=[checkpoint.path for checkpoint in newer],
    )
    names = tuple(_set_aside(Path(checkpoint.path)) for checkpoint in newer)
    if run.stop_requested():
        # The word was the owner's, and so is its taking back; it stays to be seen.
        run.stop_file.rename(run.path / f"stop.taken-back-{len(state.ends)}")
    avoid = tuple(AvoidedNode(node, "excluded by its owner", now) for node in excluded)
    chronicle.save(
        replace(
            state,
            forgiven=len(state.ends),
            avoid=(*state.avoid, *avoid),
            checkpoint=None if newer else state.checkpoint,
            not_before=None,
            # From here on a watcher sees a submission under way, and leaves the run alone.
            job_id=None,
            intent=Intent("submit", state.epoch, None, excluded, hold=False, at=now),
            status=move(state.status, RunStatus.RESTARTING),
            reason="resumed by its owner",
        )
    )
    job_id = restart.submit_epoch(chronicle, tools, restart.exclusions(chronicle, tools), now)
    return Resumed(entry.run_id, job_id, names)


def _refuse_unless_at_rest(entry: IndexEntry, state: RunState) -> None:
    if state.status is RunStatus.COMPLETED:
        raise UsageError(f"{entry.run_id} is COMPLETED: a finished run is never resumed")
    if state.status not in AT_REST:
        raise UsageError(
            f"{entry.run_id} is {state.status.value} ({state.reason}): there is nothing to resume"
        )


def _refuse_while_alive(state: RunState, tools: Tools) -> None:
    if state.job_id is None:
        return
    look = tools.slurm.look(since=state.submitted_at - _DAY)
    phase = phase_of(
        observe(look, state.job_id, state.run_id),
        restart_count=state.restart_count,
        has_accounting=look.has_accounting,
    )
    if isinstance(phase, (Live, Restarted)):
        words = phase.row.state.value
        raise StateError(f"job {state.job_id} is still {words}: cancel it, then resume")
    if isinstance(phase, Ending):
        raise StateError(f"job {state.job_id} is not over yet ({phase.why}): try again shortly")
    if isinstance(phase, Blind):
        raise SlurmUnavailableError(phase.why)


def _hosts(exclude: str) -> tuple[str, ...]:
    try:
        return hostlist.expand(exclude)
    except ValueError as error:
        raise UsageError(f"--exclude: {error}") from error


def _newer_than(start_from: Path | None, folder: Path) -> tuple[Checkpoint, ...]:
    """The run's checkpoints that are newer than the chosen one; the chosen one must be whole."""
    if start_from is None:
        return ()
    found = list_checkpoints(str(folder)) if folder.is_dir() else ()
    wanted = start_from.resolve()
    chosen = next((item for item in found if Path(item.path).resolve() == wanted), None)
    if chosen is None:
        known = ", ".join(item.path for item in found) or "none"
        raise UsageError(f"--from {start_from}: not a checkpoint of this run; it has: {known}")
    if not chosen.whole:
        problems = "; ".join(str(problem) for problem in chosen.problems)
        raise UsageError(f"--from {start_from}: {chosen.state.value}: {problems}")
    return tuple(item for item in found if item.step > chosen.step)


def _set_aside(checkpoint: Path) -> str:
    """Rename it so that no resume, no rotation and no glob for ``checkpoint-*`` sees it."""
    target = checkpoint.with_name(f".set-aside-{checkpoint.name}")
    number = 1
    while target.exists():
        number += 1
        target = checkpoint.with_name(f".set-aside-{number}-{checkpoint.name}")
    checkpoint.rename(target)
    return str(target)
