"""What the checks before a training found (preflight.json), as values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Dict, Optional, Tuple, Union

from slurmswift.domain.records import SCHEMA, Fields

Value = Union[None, bool, int, float, str]


@dataclass(frozen=True)
class CheckResult:
    """One check on one node."""

    check: str
    node: str
    ok: bool
    value: Value
    limit: Value
    message: str


@dataclass(frozen=True)
class LeftOut:
    """A check that was not made on a node, and why."""

    check: str
    node: str
    why: str


@dataclass(frozen=True)
class PreflightRecord:
    """All of them, as the first node gathered them."""

    ok: bool
    checks: Tuple[CheckResult, ...]
    nodes_silent: Tuple[str, ...]  # started no check, or did not come back from it
    left_out: Tuple[LeftOut, ...]
    seconds: float

    @property
    def failed(self) -> Tuple[CheckResult, ...]:
        return tuple(result for result in self.checks if not result.ok)

    @classmethod
    def parse(cls, source: object, where: str) -> PreflightRecord:
        fields = Fields.of_record(source, where)
        return cls(
            ok=fields.get("ok", bool),
            checks=tuple(_result(item) for item in fields.objects("checks")),
            nodes_silent=fields.strings("nodes_silent"),
            left_out=tuple(
                LeftOut(item.get("check", str), item.get("node", str), item.get("why", str))
                for item in fields.objects("left_out")
            ),
            seconds=fields.get("seconds", float),
        )

    def to_json(self) -> Dict[str, object]:
        return {"schema": SCHEMA, **asdict(self)}


def _result(fields: Fields) -> CheckResult:
    return CheckResult(
        check=fields.get("check", str),
        node=fields.get("node", str),
        ok=fields.get("ok", bool),
        value=fields.scalar("value"),
        limit=fields.scalar("limit"),
        message=fields.get("message", str),
    )


def in_words(result: CheckResult) -> str:
    return f"{result.node}: {result.check}: {result.message}"


def silent_in_words(node: str) -> str:
    return f"{node}: no answer to the preflight"


def summary(record: PreflightRecord, most: int = 3) -> Optional[str]:
    """Return what failed, node and check first; None where nothing did."""
    said = [silent_in_words(node) for node in record.nodes_silent]
    said += [in_words(result) for result in record.failed]
    if not said:
        return None
    more = f"; and {len(said) - most} more (preflight.json)" if len(said) > most else ""
    return "; ".join(said[:most]) + more
