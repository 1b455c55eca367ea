"""One run's turn in a pass: what Slurm says, what it means, what is decided, what is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from slurmswift.app import restart
from slurmswift.app.adoption import adopt_restarts, follow_the_grant
from slurmswift.app.chronicle import Chronicle
from slurmswift.app.conclusion import conclude
from slurmswift.app.facts import attempt_story
from slurmswift.app.lost import Lost, find_lost
from slurmswift.app.tools import Tools
from slurmswift.domain.job import JobState, QueueRow
from slurmswift.domain.lifecycle import AT_REST, RunStatus
from slurmswift.domain.observation import Look, observe
from slurmswift.domain.phase import (
    LIVE_STATES,
    Blind,
    Ending,
    Live,
    Missing,
    Over,
    Restarted,
    phase_of,
)
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
            observe(self.look, str(state.job_id), state.run_id),
            restart_count=state.restart_count,
            has_accounting=self.look.has_accounting,
        )
        if not isinstance(phase, (Missing, Blind, Ending)) and state.missing_since is not None:
            chronicle.save(replace(chronicle.state, missing_since=None))
        if isinstance(phase, Blind):
            # Unknown never changes a run; it only delays.
            chronicle.save(replace(state, reason=f"Slurm does not answer: {phase.why[:200]}"))
        elif isinstance(phase, Restarted):
            self._adopt(chronicle, phase.row, now)
        elif isinstance(phase, Live):
            self._live(chronicle, phase.row, now)
        elif isinstance(phase, Ending):
            self._ending(chronicle, phase, now)
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
        lost = find_lost(chronicle.run.attempt_of(str(state.job_id), state.restart_count))
        if lost is not None or state.has_ended(state.restart_count):
            self._lost(chronicle, lost, now)
            return
        running = row.state is not JobState.PENDING
        words = f"Slurm says {row.state.value}"
        reason = f"{words} on {row.nodes}" if running else f"{words} ({row.reason})"
        newest = max((attempt.number for attempt in chronicle.run.attempts()), default=0)
        chronicle.save(
            replace(chronicle.state, job_state=row.state.value, attempt=newest, not_before=None)
        )
        chronicle.move(RunStatus.RUNNING if running else RunStatus.PENDING, reason, now)

    def _ending(self, chronicle: Chronicle, phase: Ending, now: float) -> None:
        state = chronicle.state
        lost = find_lost(chronicle.run.attempt_of(str(state.job_id), state.restart_count))
        if lost is not None and not chronicle.run.stop_requested():
            self._lost(chronicle, lost, now)
            return
        since = state.missing_since if state.missing_since is not None else now
        if phase.unqueued and now - since >= MISSING_SECONDS:
            why = f"{phase.why}, and squeue does not know it: a runaway job, for the admins"
            chronicle.move(RunStatus.HELD, why, now)
            return
        chronicle.save(
            replace(
                chronicle.state,
                job_state="COMPLETING",
                reason=phase.why,
                missing_since=since if phase.unqueued else None,
            )
        )

    def _adopt(self, chronicle: Chronicle, row: QueueRow, now: float) -> None:
        """A requeue of ours took effect, or Slurm restarted the job by itself."""
        intent = chronicle.state.intent
        if intent is not None and intent.kind == "requeue":
            restart.finish_requeue(chronicle, self.tools, now)
            return
        adopt_restarts(chronicle, self.tools.slurm, self.look, row, now)
        if chronicle.state.status is RunStatus.COMPLETED:
            # It had finished before it was started again: nothing of it is trained twice.
            restart.cancel(chronicle, self.tools, now, reason="the run is complete")
            return
        restart.renew_grant(chronicle, now)
        if row.state not in LIVE_STATES:
            return  # over again already: the next pass sees how
        if row.state is JobState.PENDING and not chronicle.run.stop_requested():
            restart.hasten(chronicle, self.tools, row, now)
        self._live(chronicle, row, now)

    def _missing(self, chronicle: Chronicle, now: float) -> None:
        state = chronicle.state
        gone = Over(JobState.UNRECOGNIZED, canceller_known=False)
        attempt = chronicle.run.attempt_of(str(state.job_id), state.restart_count)
        end = attempt.exit() if attempt else None
        if end is not None and end.status == 0:
            # Every node said so: nobody else need tell.
            self._over(chronicle, gone, now)
            return
        since = state.missing_since if state.missing_since is not None else now
        if now - since < MISSING_SECONDS:
            reason = "neither squeue nor sacct knows the job (yet, or any more)"
            chronicle.save(replace(state, missing_since=since, reason=reason))
            return
        if not self.look.has_accounting:
            # Without accounting a cancelled job vanishes like a lost one: it is never revived.
            why = "Slurm no longer knows the job, and no accounting tells how it ended"
            chronicle.move(RunStatus.HELD, why, now)
            return
        if attempt is None:
            # Cancelled before it was eligible, a job leaves no trace (22.05): it is not revived.
            why = "Slurm no longer knows the job, which had not started: cancelled, or lost"
            chronicle.move(RunStatus.HELD, why, now)
            return
        self._over(chronicle, gone, now)

    def _over(self, chronicle: Chronicle, over: Over, now: float) -> None:
        state = chronicle.state
        if not state.has_ended(state.restart_count):
            story = attempt_story(chronicle.run, str(state.job_id), state.restart_count, over)
            conclude(chronicle, story, over, now=now)
        elif over.state is JobState.CANCELLED:
            chronicle.move(RunStatus.CANCELLED, "its owner cancelled the job", now)
        if chronicle.state.status is RunStatus.HELD and chronicle.run.stop_requested():
            chronicle.move(RunStatus.CANCELLED, "stopped by its owner", now)
        if self._may_restart(chronicle, now):
            restart.restart(chronicle, self.tools, over, now)

    def _lost(self, chronicle: Chronicle, lost: Lost | None, now: float) -> None:
        """A node fell silent while others failed: go on without waiting for Slurm to notice."""
        state = chronicle.state
        if lost is not None and not state.has_ended(state.restart_count):
            conclude(chronicle, lost.story, Over(JobState.NODE_FAIL), now=now, avoid=lost.nodes)
        if self._may_restart(chronicle, now):
            restart.leave_behind(chronicle, self.tools, now)

    def _may_restart(self, chronicle: Chronicle, now: float) -> bool:
        if chronicle.state.status is not RunStatus.RESTARTING:
            return False
        if chronicle.run.stop_requested():
            chronicle.move(RunStatus.CANCELLED, "stopped by its owner", now)
            return False
        due = chronicle.state.not_before
        return (due is None or now >= due) and self.may_act()
