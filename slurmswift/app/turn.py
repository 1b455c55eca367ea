"""One run's turn in a pass: what Slurm says, what it means, what is decided, what is done."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from slurmswift.app import restart
from slurmswift.app.adoption import adopt_restarts, follow_the_grant
from slurmswift.app.chronicle import Chronicle
from slurmswift.app.ends import attempt_end, record_end
from slurmswift.app.facts import AttemptStory, attempt_story
from slurmswift.app.tools import Tools
from slurmswift.domain import policy
from slurmswift.domain.job import JobState, QueueRow
from slurmswift.domain.lifecycle import AT_REST, RunStatus
from slurmswift.domain.observation import Look, observe
from slurmswift.domain.phase import (
    Blind,
    Ending,
    Live,
    Missing,
    Over,
    Restarted,
    phase_of,
)
from slurmswift.domain.run import AvoidedNode
from slurmswift.files.run_directory import RunDirectory

# sacct and squeue may both be behind; a job is given up for lost only after Slurm itself would
# have forgotten it (MinJobAge, 300 s by default), and then some.
MISSING_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Turn:
    """The pass that a turn belongs to."""

    tools: Tools
    look: Look
    may_act: Callable[[], bool]  # the lease, asked right before each act

    def take(self, run: RunDirectory) -> str | None:
        """Bring one run up to date; return a line to log where something changed."""
        now = self.tools.now()
        chronicle = Chronicle(run, run.read_state(), "watch")
        before = chronicle.state
        state = before
        if state.status in AT_REST and not (
            state.status is RunStatus.HELD and run.stop_requested()
        ):
            return None
        follow_the_grant(chronicle, now)
        state = chronicle.state
        if state.job_id is None or (state.intent and state.intent.kind == "submit"):
            restart.settle_submission(chronicle, self.tools, self.look, now)
        else:
            self._follow(chronicle, now)
        after = chronicle.state
        if (after.status, after.reason) == (before.status, before.reason):
            return None
        return f"{after.run_id}: {after.status.value}: {after.reason}"

    def _follow(self, chronicle: Chronicle, now: float) -> None:
        state = chronicle.state
        phase = phase_of(
            observe(self.look, str(state.job_id)),
            restart_count=state.restart_count,
            has_accounting=self.look.has_accounting,
        )
        if not isinstance(phase, (Missing, Blind)) and state.missing_since is not None:
            chronicle.save(replace(chronicle.state, missing_since=None))
        if isinstance(phase, Blind):
            # Unknown never changes a run; it only delays.
            chronicle.save(replace(state, reason=f"Slurm does not answer: {phase.why[:200]}"))
        elif isinstance(phase, Restarted):
            self._adopt(chronicle, phase.row, now)
        elif isinstance(phase, Live):
            self._live(chronicle, phase.row, now)
        elif isinstance(phase, Ending):
            chronicle.save(replace(state, job_state="COMPLETING", reason=phase.why))
        elif isinstance(phase, Missing):
            self._missing(chronicle, now)
        else:
            self._over(chronicle, phase, now)

    def _live(self, chronicle: Chronicle, row: QueueRow, now: float) -> None:
        if chronicle.run.stop_requested():
            restart.cancel(chronicle, self.tools, now)
            return
        state = chronicle.state
        if state.intent is not None and state.intent.kind == "requeue":
            restart.finish_requeue(chronicle, self.tools, now)
            return
        running = row.state is not JobState.PENDING
        words = f"Slurm says {row.state.value}"
        reason = f"{words} on {row.nodes}" if running else f"{words} ({row.reason})"
        newest = max((attempt.number for attempt in chronicle.run.attempts()), default=0)
        chronicle.save(
            replace(chronicle.state, job_state=row.state.value, attempt=newest, not_before=None)
        )
        chronicle.move(RunStatus.RUNNING if running else RunStatus.PENDING, reason, now)

    def _adopt(self, chronicle: Chronicle, row: QueueRow, now: float) -> None:
        """A requeue of ours took effect, or Slurm restarted the job by itself."""
        intent = chronicle.state.intent
        if intent is not None and intent.kind == "requeue":
            restart.finish_requeue(chronicle, self.tools, now)
            return
        adopt_restarts(chronicle, self.look, row, now)
        if row.state is JobState.PENDING and not chronicle.run.stop_requested():
            restart.hasten(chronicle, self.tools, row, now)
        self._live(chronicle, row, now)

    def _missing(self, chronicle: Chronicle, now: float) -> None:
        state = chronicle.state
        since = state.missing_since if state.missing_since is not None else now
        if now - since < MISSING_SECONDS:
            reason = "neither squeue nor sacct knows the job (yet, or any more)"
            chronicle.save(replace(state, missing_since=since, reason=reason))
            return
        gone = Over(JobState.UNRECOGNIZED, canceller_known=False)
        self._over(chronicle, gone, now)

    def _over(self, chronicle: Chronicle, over: Over, now: float) -> None:
        state = chronicle.state
        decided = state.ends and (state.ends[-1].job_id, state.ends[-1].restart_count) == (
            state.job_id,
            state.restart_count,
        )
        if not decided:
            self._conclude(chronicle, over, now)
        elif over.state is JobState.CANCELLED:
            chronicle.move(RunStatus.CANCELLED, "its owner cancelled the job", now)
        if chronicle.state.status is not RunStatus.RESTARTING:
            return
        if chronicle.run.stop_requested():
            chronicle.move(RunStatus.CANCELLED, "stopped by its owner", now)
            return
        due = chronicle.state.not_before
        if (due is not None and now < due) or not self.may_act():
            return
        restart.restart(chronicle, self.tools, over, now)

    def _conclude(self, chronicle: Chronicle, over: Over, now: float) -> None:
        """The attempt is over and nothing is decided yet: find out why, and decide."""
        state = chronicle.state
        plan = chronicle.run.read_plan()
        story = attempt_story(chronicle.run, str(state.job_id), state.restart_count, over)
        end = attempt_end(chronicle, story, over, restart_count=state.restart_count, now=now)
        verdict = _owners_or_done(chronicle.run, story, over)
        if verdict is not None:
            status, decision, reason = verdict
            record_end(chronicle, replace(end, decision=decision, reason=reason), story, over)
            chronicle.move(status, reason, now)
            return
        limits = policy.Limits(plan.restart.max_restarts, plan.restart.budgets)
        choice = policy.decide((*state.counted_ends, end), limits, state.restarts)
        if isinstance(choice, policy.Resume):
            end = replace(end, decision="resume", reason=choice.why)
            record_end(chronicle, end, story, over)
            avoid = tuple(
                AvoidedNode(node, end.evidence or end.cause, now) for node in choice.avoid
            )
            chronicle.save(
                replace(
                    chronicle.state,
                    avoid=(*chronicle.state.avoid, *avoid),
                    not_before=now + choice.delay if choice.delay else None,
                )
            )
            chronicle.move(RunStatus.RESTARTING, choice.why, now)
        elif isinstance(choice, policy.Stop):
            record_end(chronicle, replace(end, decision="stop", reason=choice.why), story, over)
            chronicle.move(RunStatus.FAILED, choice.why, now)
        else:
            record_end(chronicle, replace(end, decision="hold", reason=choice.why), story, over)
            chronicle.move(RunStatus.HELD, choice.why, now)


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
