"""Turns the story of an attempt into the line that a run keeps of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slurmswift.app.chronicle import Chronicle
from slurmswift.app.facts import AttemptStory, newest_checkpoint
from slurmswift.domain.lifecycle import RunStatus, move
from slurmswift.domain.phase import Over
from slurmswift.domain.records import StartRecord
from slurmswift.domain.run import AttemptEnd, AvoidedNode, Quarantined


def attempt_end(
    chronicle: Chronicle, story: AttemptStory, over: Over, *, restart_count: int, now: float
) -> AttemptEnd:
    """Return the end of an attempt of the run's present job; nothing is decided about it yet."""
    state = chronicle.state
    newest = newest_checkpoint(Path(chronicle.run.read_plan().checkpoint_directory))
    known = state.checkpoint.step if state.checkpoint else -1
    diagnosis = story.diagnosis
    first = diagnosis.evidence[0] if diagnosis.evidence else None
    start = story.start
    resumed_step = start.resume_step if start else None
    return AttemptEnd(
        attempt=story.directory.number if story.directory else 0,
        epoch=state.epoch,
        job_id=str(state.job_id),
        restart_count=restart_count,
        slurm_state=over.state.value,
        cause=diagnosis.cause,
        category=diagnosis.category,
        node=diagnosis.node,
        rank=diagnosis.rank,
        evidence=f"{first.file}:{first.line}: {first.text}" if first else "",
        remedy=diagnosis.remedy,
        rule=diagnosis.rule,
        transient=diagnosis.transient,
        step=newest.step if newest else None,
        progress=newest is not None and newest.step > known,
        seconds=story.seconds,
        decision="",
        reason="",
        at=now,
        resumed_from=start.resume_from if start else None,
        resumed_step=resumed_step,
        # Before its first step it stands where its checkpoint does.
        failed_at=resumed_step if story.last_step is None else story.last_step,
    )


def record_end(
    chronicle: Chronicle,
    end: AttemptEnd,
    story: AttemptStory,
    over: Over,
    *,
    to: RunStatus,
    avoid: tuple[AvoidedNode, ...] = (),
    not_before: float | None = None,
    quarantine: Quarantined | None = None,
) -> None:
    """Write the decided end down, and what the run is now, in one write.

    The journal comes first: where the state is lost to a kill, the end is concluded again.
    """
    start = story.start
    passed_over = start.passed_over if start else ()
    chronicle.decided(
        end,
        story.diagnosis,
        _observation(over, story),
        story.missing,
        passed_over=passed_over,
        quarantine=quarantine,
    )
    state = chronicle.state
    checkpoint = state.checkpoint
    if end.progress:
        folder = Path(chronicle.run.read_plan().checkpoint_directory)
        checkpoint = newest_checkpoint(folder) or checkpoint
    chronicle.save(
        replace(
            state,
            ends=(*state.ends, end),
            attempt=max(end.attempt, state.attempt),
            job_state=end.slurm_state,
            checkpoint=checkpoint,
            avoid=(*state.avoid, *avoid),
            not_before=not_before,
            quarantine=_still_there(state.quarantine, start)
            + ((quarantine,) if quarantine else ()),
            status=move(state.status, to),
            reason=end.reason,
        )
    )
    if to is not state.status:
        chronicle.note(
            "status", end.at, status=to.value, before=state.status.value, reason=end.reason
        )


def _still_there(
    quarantine: tuple[Quarantined, ...], start: StartRecord | None
) -> tuple[Quarantined, ...]:
    """What no attempt has moved aside yet: what is saved under the name later is another one."""
    if start is None or start.rendezvous is None:
        return quarantine
    left = {item.path for item in start.passed_over if item.moved_to is None}
    return tuple(item for item in quarantine if item.path in left)


def _observation(over: Over, story: AttemptStory) -> str:
    code = "" if over.exit_code is None else " {}:{}".format(*over.exit_code)
    words = f"Slurm: {over.state.value}{code}"
    if story.exit is None:
        return f"{words}; the attempt left no exit record"
    hint = f" ({story.exit.cause_hint})" if story.exit.cause_hint else ""
    return f"{words}; its own record: status {story.exit.status}{hint}"
