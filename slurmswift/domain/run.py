"""The present state of a run (run.json), as its watcher keeps it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Dict, Optional, Tuple

from slurmswift.domain.lifecycle import RunStatus
from slurmswift.domain.records import SCHEMA, Fields
from slurmswift.errors import StateError


@dataclass(frozen=True)
class Intent:
    """An effect on Slurm that was begun and not yet seen to be done."""

    kind: str  # submit, requeue
    epoch: int
    job_id: Optional[str]
    exclude: Tuple[str, ...]
    hold: bool  # requeue: held until its exclusions are set
    at: float


@dataclass(frozen=True)
class KnownCheckpoint:
    """The newest whole checkpoint that the watcher has seen."""

    path: str
    step: int


@dataclass(frozen=True)
class AvoidedNode:
    """A node that this run's next jobs are kept off, and the evidence."""

    node: str
    why: str
    since: float


@dataclass(frozen=True)
class Quarantined:
    """A checkpoint that the next attempt must not start from, until one has moved it aside."""

    path: str
    why: str
    at: float


@dataclass(frozen=True)
class AttemptEnd:
    """One attempt that is over: what ended it and what was done about it."""

    attempt: int  # 0 where the job ended and left no attempt directory
    epoch: int
    job_id: str
    restart_count: int
    slurm_state: str
    cause: str
    category: str
    node: Optional[str]
    rank: Optional[int]
    evidence: str  # "file:line: text" of the first line, for status and why
    remedy: str
    rule: str
    transient: Optional[bool]
    step: Optional[int]  # newest whole checkpoint when it had ended
    progress: bool  # it brought a checkpoint newer than any before
    seconds: Optional[float]  # how long it ran, by the batch host's clock
    decision: str
    reason: str
    at: float
    resumed_from: Optional[str] = None  # the checkpoint that it had started from
    resumed_step: Optional[int] = None
    failed_at: Optional[int] = None  # the last step that its log tells, else resumed_step


@dataclass(frozen=True)
class RunState:
    """Everything the next pass needs to know. Written by the holder of the lease only."""

    run_id: str
    status: RunStatus
    name: str
    cluster: str
    epoch: int
    job_id: Optional[str]
    restart_count: int  # Slurm's own counter for job_id, as last seen
    attempt: int  # number of the newest attempt directory seen
    job_state: Optional[str]  # Slurm's word, as last seen
    reason: str  # why the run stands where it stands, for a person
    submitted_at: float
    not_before: Optional[float] = None  # a decided restart waits until then
    missing_since: Optional[float] = None  # Slurm has not known the job since then
    intent: Optional[Intent] = None
    checkpoint: Optional[KnownCheckpoint] = None
    avoid: Tuple[AvoidedNode, ...] = ()
    ends: Tuple[AttemptEnd, ...] = field(default=())
    quarantine: Tuple[Quarantined, ...] = ()
    # A person resumed the run after so many ends: budgets and floors count anew from there.
    forgiven: int = 0

    @property
    def restarts(self) -> int:
        """How often it was put back in the queue since a person last resumed it."""
        return sum(end.decision in ("resume", "adopt") for end in self.ends[self.forgiven :])

    @property
    def counted_ends(self) -> Tuple[AttemptEnd, ...]:
        """The ends that budgets and floors look at."""
        return self.ends[self.forgiven :]

    def has_ended(self, restart_count: int) -> bool:
        """Whether that attempt of the present job is already concluded."""
        last = self.ends[-1] if self.ends else None
        return last is not None and (last.job_id, last.restart_count) == (
            self.job_id,
            restart_count,
        )

    def to_json(self) -> Dict[str, object]:
        body: Dict[str, object] = {"schema": SCHEMA, "run_id": self.run_id}
        # The third key: the gate, in bash, reads it with one pattern.
        body["status"] = self.status.value
        for key, value in asdict(self).items():
            if key not in body:
                body[key] = value
        return body

    @classmethod
    def parse(cls, source: object, where: str) -> RunState:
        fields = Fields.of_record(source, where)
        checkpoint = fields.object("checkpoint")
        return cls(
            run_id=fields.get("run_id", str),
            status=_status(fields.get("status", str), where),
            name=fields.get("name", str),
            cluster=fields.get("cluster", str),
            epoch=fields.get("epoch", int),
            job_id=fields.optional("job_id", str),
            restart_count=fields.get("restart_count", int),
            attempt=fields.get("attempt", int),
            job_state=fields.optional("job_state", str),
            reason=fields.get("reason", str),
            submitted_at=fields.get("submitted_at", float),
            not_before=fields.optional("not_before", float),
            missing_since=fields.optional("missing_since", float),
            intent=_parse_intent(fields.object("intent")),
            checkpoint=None
            if checkpoint is None
            else KnownCheckpoint(checkpoint.get("path", str), checkpoint.get("step", int)),
            avoid=tuple(
                AvoidedNode(item.get("node", str), item.get("why", str), item.get("since", float))
                for item in fields.objects("avoid")
            ),
            ends=tuple(_parse_end(item) for item in fields.objects("ends")),
            quarantine=parse_quarantine(source, where),
            forgiven=fields.get("forgiven", int),
        )


def parse_quarantine(source: object, where: str) -> Tuple[Quarantined, ...]:
    """Return the one thing of run.json that an attempt asks; older ones have no word of it."""
    items = Fields.of_record(source, where).objects("quarantine", missing_is_empty=True)
    return tuple(
        Quarantined(item.get("path", str), item.get("why", str), item.get("at", float))
        for item in items
    )


def _status(text: str, where: str) -> RunStatus:
    try:
        return RunStatus(text)
    except ValueError:
        raise StateError(f"{where}: damaged: unknown status {text[:40]!r}") from None


def _parse_intent(item: Optional[Fields]) -> Optional[Intent]:
    if item is None:
        return None
    return Intent(
        kind=item.get("kind", str),
        epoch=item.get("epoch", int),
        job_id=item.optional("job_id", str),
        exclude=item.strings("exclude"),
        hold=item.get("hold", bool),
        at=item.get("at", float),
    )


def _parse_end(item: Fields) -> AttemptEnd:
    return AttemptEnd(
        attempt=item.get("attempt", int),
        epoch=item.get("epoch", int),
        job_id=item.get("job_id", str),
        restart_count=item.get("restart_count", int),
        slurm_state=item.get("slurm_state", str),
        cause=item.get("cause", str),
        category=item.get("category", str),
        node=item.optional("node", str),
        rank=item.optional("rank", int),
        evidence=item.get("evidence", str),
        remedy=item.get("remedy", str),
        rule=item.get("rule", str),
        transient=item.optional("transient", bool),
        step=item.optional("step", int),
        progress=item.get("progress", bool),
        seconds=item.optional("seconds", float),
        decision=item.get("decision", str),
        reason=item.get("reason", str),
        at=item.get("at", float),
        resumed_from=item.optional("resumed_from", str),
        resumed_step=item.optional("resumed_step", int),
        failed_at=item.optional("failed_at", int),
    )
