"""What a diagnosis is made from, and what a step of it concludes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Iterable, List, Optional, Tuple

from slurmswift.domain.findings import FAILING, Finding
from slurmswift.domain.preflight import PreflightRecord
from slurmswift.domain.records import ExitRecord, NodeRecord
from slurmswift.domain.rule import Role

MAX_SHOWN = 600

# Slurm's words for an end that came from outside the job.
ENDED_BY_SLURM = {
    "TIMEOUT": "sched-time-limit",
    "DEADLINE": "sched-time-limit",
    "PREEMPTED": "sched-preempted",
    "CANCELLED": "sched-cancelled",
}


@dataclass(frozen=True)
class Evidence:
    """One line that proves something: of a log, or of a record in the run directory."""

    file: str
    line: int
    text: str


def shown(text: str) -> str:
    """Cut a line to what a person reads."""
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def evidence_of(finding: Finding) -> Evidence:
    return Evidence(finding.line.file, finding.line.number, shown(finding.line.shown))


@dataclass(frozen=True)
class AttemptFacts:
    """What is known of an attempt besides its logs; all of it may be missing."""

    slurm_state: Optional[str] = None
    exit_code: Optional[Tuple[int, int]] = None
    exit_record: Optional[ExitRecord] = None
    node_records: Tuple[NodeRecord, ...] = ()
    nodes: Tuple[str, ...] = ()
    ending_signal: Optional[str] = None  # reached the batch shell (ending.json)
    preflight: Optional[PreflightRecord] = None
    left_no_attempt: bool = False  # a job of a run that ended without an attempt directory

    @property
    def state(self) -> str:
        """The state alone: sacct writes "CANCELLED by 1000"."""
        words = (self.slurm_state or "").split()
        return words[0].rstrip("+") if words else ""

    @property
    def of_a_run(self) -> bool:
        """Whether slurmswift started it, so that success needs the job's own witness."""
        return bool(self.exit_record or self.node_records or self.nodes or self.left_no_attempt)


@dataclass(frozen=True)
class Verdict:
    """What a step concluded; attribution fills in who failed first."""

    cause: str
    rule: str
    transient: Optional[bool]
    rank: Optional[int] = None
    node: Optional[str] = None
    evidence: Tuple[Evidence, ...] = ()
    remedy: str = ""
    finding: Optional[Finding] = None

    @classmethod
    def of(cls, finding: Finding) -> Verdict:
        rule = finding.rule
        return cls(
            rule.cause,
            rule.id,
            rule.transient,
            evidence=(evidence_of(finding),),
            remedy=rule.remedy,
            finding=finding,
        )


@dataclass(frozen=True)
class Owner:
    """Whose a log is; None and None where it is everybody's."""

    rank: Optional[int] = None
    node: Optional[str] = None


@dataclass
class Case:
    """The facts and findings of one attempt, with the questions that the steps ask of them."""

    facts: AttemptFacts
    findings: Tuple[Finding, ...]
    owners: Tuple[Owner, ...] = ()  # one for each log
    endings: Tuple[Finding, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.endings = tuple(found for found in self.findings if self._is_end(found))

    def of_role(self, role: Role) -> Tuple[Finding, ...]:
        """Return the role's findings that no ending before them explains and nobody survived."""
        return tuple(
            found
            for found in self.findings
            if found.rule.role is role and not found.survived and not self.is_echo(found)
        )

    def of_rules(self, *ids: str) -> Tuple[Finding, ...]:
        return tuple(found for found in self.findings if found.rule.id in ids)

    def silent_owner(self) -> Optional[Owner]:
        """Return who ended without a word, where each of the others left a log that complains.

        Killed, crashed or hung: whoever is lost writes nothing, and whoever lost it does.
        """
        owned = {log for log, owner in enumerate(self.owners) if owner != Owner()}
        spoke = {found.log for found in self.findings if _tells_of_an_end(found)}
        silent = owned - spoke
        if len(silent) != 1 or len(owned) < _LEAST_LOGS:
            return None
        return self.owners[silent.pop()]

    def is_echo(self, found: Finding) -> bool:
        """Whether the attempt had been ended from outside before this line, in the same log."""
        return any(
            end.log == found.log and end.line.start < found.line.start for end in self.endings
        )

    def _is_end(self, found: Finding) -> bool:
        """Whether an ending's line is one, or the launcher or srun clearing up after a failure."""
        if found.rule.role is not Role.ENDING:
            return False
        if found.cause != "sched-cancelled" or found.rule.id == "slurm-requeued":
            return True
        state = self.facts.state
        if state in ENDED_BY_SLURM or self.facts.ending_signal is not None:
            return True
        if found.rule.id == "slurm-cancelled" and state:
            return False
        # Without Slurm's word: it is an ending if nothing had failed before it.
        return not self.facts.of_a_run and not any(
            other.log == found.log
            and other.line.start < found.line.start
            and (other.rule.role in FAILING or other.rule.id in EXITS)
            for other in self.findings
        )


_LEAST_LOGS = 2


def _tells_of_an_end(found: Finding) -> bool:
    return found.rule.role in (*FAILING, Role.ENDING) or found.rule.id.startswith("torchrun-")


EXITS = (
    "slurm-task-exit",
    "torchrun-rank-failed",
    "torchrun-table",
    "deepspeed-rank-failed",
    "spawned-rank-failed",
)

Step = Callable[[Case], Optional[Verdict]]


def earliest(findings: Iterable[Finding]) -> Optional[Finding]:
    """Return the first of them: by time where the first of every log tells it, else by place."""
    firsts: List[Finding] = []
    for found in sorted(findings, key=lambda found: found.place):
        if not firsts or firsts[-1].log != found.log:
            firsts.append(found)
    if not firsts:
        return None
    times = [found.line.time for found in firsts]
    if any(time is None for time in times):
        return firsts[0]
    return min(firsts, key=lambda found: (found.line.time or 0.0, found.place))
