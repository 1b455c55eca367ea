"""Concludes an attempt that is over: what no policy may touch first, then the policy."""

from __future__ import annotations

import os
from dataclasses import replace

from slurmswift.app.chronicle import Chronicle
from slurmswift.app.ends import attempt_end, record_end
from slurmswift.app.facts import AttemptStory
from slurmswift.domain import policy
from slurmswift.domain.job import JobState
from slurmswift.domain.lifecycle import RunStatus
from slurmswift.domain.phase import Over
from slurmswift.domain.quarantine import to_quarantine
from slurmswift.domain.run import AvoidedNode, Quarantined
from slurmswift.files.run_directory import RunDirectory


def conclude(
    chronicle: Chronicle,
    story: AttemptStory,
    over: Over,
    *,
    now: float,
    avoid: tuple[str, ...] = (),
) -> None:
    """Decide about the run's present attempt, and write the decision down with its grounds.

    ``avoid``: nodes to keep off besides the one that the diagnosis names.
    """
    state = chronicle.state
    end = attempt_end(chronicle, story, over, restart_count=state.restart_count, now=now)
    verdict = _owners_or_done(chronicle.run, story, over)
    if verdict is not None:
        status, decision, reason = verdict
        end = replace(end, decision=decision, reason=reason)
        record_end(chronicle, end, story, over, to=status)
        return
    restarts = chronicle.run.read_plan().restart
    limits = policy.Limits(restarts.max_restarts, restarts.budgets)
    ends = (*state.counted_ends, end)
    quarantine = to_quarantine(ends, now)
    choice = policy.decide(ends, limits, state.restarts, other_checkpoint=quarantine is not None)
    if isinstance(choice, policy.Resume):
        nodes = dict.fromkeys((*choice.avoid, *avoid))
        record_end(
            chronicle,
            replace(end, decision="resume", reason=_with_quarantine(choice.why, quarantine)),
            story,
            over,
            to=RunStatus.RESTARTING,
            avoid=tuple(AvoidedNode(node, end.evidence or end.cause, now) for node in nodes),
            not_before=now + choice.delay if choice.delay else None,
            quarantine=quarantine,
        )
        return
    stops = isinstance(choice, policy.Stop)
    end = replace(end, decision="stop" if stops else "hold", reason=choice.why)
    record_end(chronicle, end, story, over, to=RunStatus.FAILED if stops else RunStatus.HELD)


def _with_quarantine(why: str, quarantine: Quarantined | None) -> str:
    if quarantine is None:
        return why
    return f"{why}; {quarantine.path} is in quarantine: {quarantine.why}"


def _owners_or_done(
    run: RunDirectory, story: AttemptStory, over: Over
) -> tuple[RunStatus, str, str] | None:
    """Return the ends that no policy may touch: finished, or cancelled by its owner."""
    if story.succeeded:
        return RunStatus.COMPLETED, "finish", "every node's record says 0"
    if run.stop_requested():
        return RunStatus.CANCELLED, "cancel", "stopped by its owner"
    if over.state is not JobState.CANCELLED:
        return None
    if over.canceller_known and over.cancelled_by not in (None, os.getuid()):
        reason = f"cancelled by uid {over.cancelled_by}, not by its owner: ask before resuming"
        return RunStatus.HELD, "hold", reason
    return RunStatus.CANCELLED, "cancel", "its owner cancelled the job"
