"""Writes what happens to a run: its state, and a line in its journal, intent before effect."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Protocol

from slurmswift.domain.lifecycle import RunStatus, move
from slurmswift.domain.records import SCHEMA, Grant, PassedOver
from slurmswift.domain.run import AttemptEnd, Quarantined, RunState
from slurmswift.files import journal
from slurmswift.files.run_directory import RunDirectory


class Journaled(Protocol):
    """A diagnosis. Named by what is asked of it: `submit` does without the rules of diagnosing."""

    def to_json(self) -> dict[str, object]: ...


@dataclass
class Chronicle:
    """One run, held open for a turn: the state as it stands and the places it is written to.

    A single run's mutable cell: every change is written at once, so a kill between any two lines
    leaves a state that the next pass can go on from.
    """

    run: RunDirectory
    state: RunState
    by: str

    def note(self, event: str, at: float, **facts: object) -> None:
        """Append one line to the journal."""
        body = {"schema": SCHEMA, "at": at, "by": self.by, "event": event}
        journal.append(self.run.journal, body | facts)

    def save(self, state: RunState) -> None:
        """Write the state, if it is another one."""
        if state != self.state:
            self.run.write_state(state)
            self.state = state

    def move(self, to: RunStatus, reason: str, at: float, *, of: RunState | None = None) -> None:
        """Move the run, from the state ``of`` if given; a change of status is journaled."""
        before = self.state.status
        self.save(replace(of or self.state, status=move(before, to), reason=reason))
        if before is not to:
            self.note("status", at, status=to.value, before=before.value, reason=reason)

    def grant(self, *, epoch: int, job_id: str | None, last_attempt: int, at: float) -> None:
        """Say which epoch may train. Written before the act that it is for.

        Epochs only go up: a job submitted by hand meanwhile has the newer word.
        """
        present = self.run.read_grant()
        if present is not None and present.epoch > epoch:
            self.note("passed", at, epoch=epoch, granted=present.epoch, by=present.by)
            return
        self.run.write_grant(
            Grant(
                epoch=epoch,
                cluster=self.state.cluster,
                job_id=job_id,
                last_attempt=last_attempt,
                by=self.by,
                at=at,
            )
        )

    def decided(
        self,
        end: AttemptEnd,
        diagnosis: Journaled,
        observation: str,
        missing: tuple[str, ...],
        *,
        passed_over: tuple[PassedOver, ...] = (),
        quarantine: Quarantined | None = None,
    ) -> None:
        """Journal one decision with all that it rests on: what `why` shows."""
        self.note(
            "decided",
            end.at,
            attempt=end.attempt,
            job_id=end.job_id,
            restart_count=end.restart_count,
            observation=observation,
            diagnosis=diagnosis.to_json(),
            decision=end.decision,
            reason=end.reason,
            step=end.step,
            progress=end.progress,
            records_missing=list(missing),
            resumed_from=end.resumed_from,
            passed_over=[asdict(item) for item in passed_over],
            quarantine=None if quarantine is None else asdict(quarantine),
        )
