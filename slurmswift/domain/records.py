"""The records that a job leaves in its run directory (DESIGN.md, section 6), as values.

Each ``parse`` takes a decoded JSON object and raises StateError where the object is not what
its writer writes: a damaged record is reported, never guessed over.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Dict, List, Mapping, Optional, Tuple, Type, TypeVar, Union

from slurmswift.errors import StateError

SCHEMA = 1

JsonValue = Union[None, bool, int, float, str, List["JsonValue"], Dict[str, "JsonValue"]]
JsonObject = Mapping[str, object]

_LARGEST = 1e15  # of any number in a record; far beyond every time and size

T = TypeVar("T")


class Fields:
    """Reads typed fields of one JSON object; every miss is a StateError that names the file."""

    def __init__(self, source: object, where: str) -> None:
        if not isinstance(source, dict):
            raise StateError(f"{where}: damaged: not a JSON object")
        self._source: JsonObject = source
        self._where = where

    @classmethod
    def of_record(cls, source: object, where: str) -> Fields:
        """Open a record file's object, refusing one that a newer slurmswift wrote."""
        fields = cls(source, where)
        schema = fields.get("schema", int)
        if schema > SCHEMA:
            raise StateError(
                f"{where}: written by a newer slurmswift (schema {schema}); update this one"
            )
        return fields

    def get(self, key: str, kind: Type[T]) -> T:
        value = self._source.get(key)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value) if abs(value) < _LARGEST else None
        if isinstance(value, float) and not abs(value) < _LARGEST:  # infinite, or not a number
            value = None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise StateError(f"{self._where}: damaged: {key!r} is not {kind.__name__}")
        return value

    def optional(self, key: str, kind: Type[T]) -> Optional[T]:
        return None if self._source.get(key) is None else self.get(key, kind)

    def scalar(self, key: str) -> Union[bool, int, float, str, None]:
        value = self._source.get(key)
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise StateError(f"{self._where}: damaged: {key!r} is not one plain value")

    def strings(self, key: str) -> Tuple[str, ...]:
        values = self.get(key, list)
        if not all(isinstance(value, str) for value in values):
            raise StateError(f"{self._where}: damaged: {key!r} is not a list of text")
        return tuple(values)

    def objects(self, key: str, *, missing_is_empty: bool = False) -> Tuple[Fields, ...]:
        """Read a list of objects; one that an older writer did not know may be missing."""
        if missing_is_empty and key not in self._source:
            return ()
        return tuple(Fields(value, f"{self._where}: {key}") for value in self.get(key, list))

    def object(self, key: str) -> Optional[Fields]:
        value = self._source.get(key)
        return None if value is None else Fields(value, f"{self._where}: {key}")


@dataclass(frozen=True)
class Grant:
    """Which epoch may train, and up to which attempt number (grant.json)."""

    epoch: int
    cluster: str
    job_id: Optional[str]  # None between the intent to submit and Slurm's answer
    last_attempt: int  # the highest attempt number that may start: the budgets, worked out
    by: str
    at: float

    @classmethod
    def parse(cls, source: object, where: str) -> Grant:
        fields = Fields.of_record(source, where)
        return cls(
            epoch=fields.get("epoch", int),
            cluster=fields.get("cluster", str),
            job_id=fields.optional("job_id", str),
            last_attempt=fields.get("last_attempt", int),
            by=fields.get("by", str),
            at=fields.get("at", float),
        )

    def to_json(self) -> Dict[str, object]:
        return {"schema": SCHEMA, **asdict(self)}


@dataclass(frozen=True)
class Rendezvous:
    """Where the ranks of one attempt meet."""

    node: str
    address: str
    port: int


@dataclass(frozen=True)
class PassedOver:
    """A checkpoint newer than the resume point that was not whole."""

    path: str
    why: str
    moved_to: Optional[str] = None  # its name since then


@dataclass(frozen=True)
class SlurmLog:
    """Slurm's own --output, and where this attempt's bytes start in it."""

    path: str
    offset: int


@dataclass(frozen=True)
class StartRecord:
    """What an attempt was when it started (start.json)."""

    attempt: int
    epoch: int
    cluster: str
    job_id: str
    restart_count: int
    nodes: Tuple[str, ...]  # in Slurm's order: the position is SLURM_NODEID
    batch_host: str
    started_at: float
    slurm_log: SlurmLog
    resume_from: Optional[str]
    resume_step: Optional[int]
    passed_over: Tuple[PassedOver, ...]
    rendezvous: Optional[Rendezvous]
    interface: Optional[str]

    @classmethod
    def parse(cls, source: object, where: str) -> StartRecord:
        fields = Fields.of_record(source, where)
        log = Fields(fields.get("slurm_log", dict), f"{where}: slurm_log")
        meeting = fields.object("rendezvous")
        return cls(
            attempt=fields.get("attempt", int),
            epoch=fields.get("epoch", int),
            cluster=fields.get("cluster", str),
            job_id=fields.get("job_id", str),
            restart_count=fields.get("restart_count", int),
            nodes=fields.strings("nodes"),
            batch_host=fields.get("batch_host", str),
            started_at=fields.get("started_at", float),
            slurm_log=SlurmLog(log.get("path", str), log.get("offset", int)),
            resume_from=fields.optional("resume_from", str),
            resume_step=fields.optional("resume_step", int),
            passed_over=tuple(
                PassedOver(
                    item.get("path", str), item.get("why", str), item.optional("moved_to", str)
                )
                for item in fields.objects("passed_over")
            ),
            rendezvous=None
            if meeting is None
            else Rendezvous(
                meeting.get("node", str), meeting.get("address", str), meeting.get("port", int)
            ),
            interface=fields.optional("interface", str),
        )

    def to_json(self) -> Dict[str, object]:
        return {"schema": SCHEMA, **asdict(self)}


@dataclass(frozen=True)
class End:
    """How a process ended. Both None where nobody saw it end."""

    status: Optional[int]
    signal: Optional[int]


@dataclass(frozen=True)
class RankEnd:
    """One rank, as its node's agent saw it."""

    rank: int
    local_rank: int
    pid: int
    status: Optional[int]
    signal: Optional[int]
    ended_at: Optional[float]


@dataclass(frozen=True)
class Interface:
    """The training's network interface on one node, looked at when the launcher ended."""

    name: str
    state: str  # Linux operstate: up, down, lowerlayerdown ...; "missing" where there is none


@dataclass(frozen=True)
class NodeRecord:
    """What one node's agent saw (nodes/HOST.json)."""

    node: str
    node_rank: int
    launcher: End
    ranks: Tuple[RankEnd, ...]
    last_step: Optional[int]
    fenced: Optional[str]  # why the agent ended its ranks itself
    interface: Optional[Interface]
    started_at: float
    ended_at: float

    @classmethod
    def parse(cls, source: object, where: str) -> NodeRecord:
        fields = Fields.of_record(source, where)
        launcher = Fields(fields.get("launcher", dict), f"{where}: launcher")
        interface = fields.object("interface")
        return cls(
            node=fields.get("node", str),
            node_rank=fields.get("node_rank", int),
            launcher=End(launcher.optional("status", int), launcher.optional("signal", int)),
            ranks=tuple(
                RankEnd(
                    rank=item.get("rank", int),
                    local_rank=item.get("local_rank", int),
                    pid=item.get("pid", int),
                    status=item.optional("status", int),
                    signal=item.optional("signal", int),
                    ended_at=item.optional("ended_at", float),
                )
                for item in fields.objects("ranks")
            ),
            last_step=fields.optional("last_step", int),
            fenced=fields.optional("fenced", str),
            interface=None
            if interface is None
            else Interface(interface.get("name", str), interface.get("state", str)),
            started_at=fields.get("started_at", float),
            ended_at=fields.get("ended_at", float),
        )

    def to_json(self) -> Dict[str, object]:
        return {"schema": SCHEMA, **asdict(self)}


# Why an attempt ended, as far as its own script could tell. "time-limit": asked to save and leave
# by Slurm's warning, it did; "ended": so did one that got a TERM; "bug": slurmswift's own.
CAUSE_HINTS = (
    *("training", "preflight", "setup", "no-python", "node-lost", "fenced"),
    *("time-limit", "ended", "bug"),
)


@dataclass(frozen=True)
class ExitRecord:
    """The attempt's own verdict, written last (exit.json). Status 0 needs every node's witness."""

    status: int
    srun_status: Optional[int]
    nodes_expected: int
    nodes_reported: int
    nodes_silent: Tuple[str, ...]
    cause_hint: Optional[str]  # one of CAUSE_HINTS, None after success
    message: Optional[str]
    ended_at: float

    @classmethod
    def parse(cls, source: object, where: str) -> ExitRecord:
        fields = Fields.of_record(source, where)
        return cls(
            status=fields.get("status", int),
            srun_status=fields.optional("srun_status", int),
            nodes_expected=fields.get("nodes_expected", int),
            nodes_reported=fields.get("nodes_reported", int),
            nodes_silent=fields.strings("nodes_silent"),
            cause_hint=fields.optional("cause_hint", str),
            message=fields.optional("message", str),
            ended_at=fields.get("ended_at", float),
        )

    def to_json(self) -> Dict[str, object]:
        return {"schema": SCHEMA, **asdict(self)}


@dataclass(frozen=True)
class Ending:
    """A signal reached the batch shell (ending.json)."""

    signal: str
    at: float

    @classmethod
    def parse(cls, source: object, where: str) -> Ending:
        fields = Fields.of_record(source, where)
        return cls(fields.get("signal", str), fields.get("at", float))
