"""Names the first cause of an attempt's end from its logs and records. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional, Sequence, Tuple, Union

from slurmswift.domain.attribution import attribute
from slurmswift.domain.causes import CAUSES
from slurmswift.domain.confirm import CONFIRM
from slurmswift.domain.evidence import AttemptFacts, Case, Evidence, Owner, Verdict, shown
from slurmswift.domain.findings import find, last_words
from slurmswift.domain.literals import FinderOf, plain_finder
from slurmswift.domain.log_lines import LogText
from slurmswift.domain.verdicts import STEPS

__all__ = ["AttemptFacts", "Diagnosis", "Evidence", "LogText", "diagnose", "diagnose_text"]

MAX_EVIDENCE = 5


@dataclass(frozen=True)
class Diagnosis:
    """The first cause, who failed first, the lines that prove it, and what to do."""

    cause: str
    category: str
    transient: Optional[bool]
    rank: Optional[int]
    node: Optional[str]
    evidence: Tuple[Evidence, ...]
    remedy: str
    rule: str

    def to_json(self) -> Dict[str, object]:
        return {
            "cause": self.cause,
            "category": self.category,
            "transient": self.transient,
            "rank": self.rank,
            "node": self.node,
            "evidence": [
                {"file": item.file, "line": item.line, "text": item.text} for item in self.evidence
            ],
            "remedy": self.remedy,
            "rule": self.rule,
        }


def diagnose(
    logs: Sequence[LogText], facts: AttemptFacts, *, finder_of: FinderOf = plain_finder
) -> Diagnosis:
    """Return the first cause that logs and facts support; "unexplained" where they support none."""
    case = Case(facts, find(logs, finder_of), tuple(Owner(log.rank, log.node) for log in logs))
    for step in STEPS:
        verdict = step(case)
        if verdict is not None:
            return _finished(attribute(case, verdict))
    return _finished(_unexplained(logs, facts))


def diagnose_text(
    text: Union[str, bytes],
    *,
    name: str = "log",
    state: Optional[str] = None,
    exit_code: Optional[str] = None,
) -> Diagnosis:
    """Diagnose one log that somebody has, with what Slurm says of the job where that is known."""
    data = text.encode("utf-8", errors="replace") if isinstance(text, str) else text
    return diagnose(
        (LogText(name, data),),
        AttemptFacts(slurm_state=state, exit_code=exit_code_of(exit_code)),
    )


def exit_code_of(text: Optional[str]) -> Optional[Tuple[int, int]]:
    """Read sacct's STATUS:SIGNAL, or a status alone; None for any other text."""
    status, _, signal = (text or "").strip().partition(":")
    if not status.isdigit() or not (signal or "0").isdigit():
        return None
    return int(status), int(signal or 0)


def _finished(verdict: Verdict) -> Diagnosis:
    cause = CAUSES[verdict.cause]
    seen: Dict[Evidence, None] = dict.fromkeys(verdict.evidence)
    return Diagnosis(
        cause=cause.name,
        category=cause.category,
        transient=verdict.transient,
        rank=verdict.rank,
        node=verdict.node,
        evidence=tuple(seen)[:MAX_EVIDENCE],
        remedy=_advice(verdict.remedy or cause.remedy, CONFIRM[cause.name]),
        rule=verdict.rule,
    )


def _advice(remedy: str, confirm: str) -> str:
    return f"{remedy}. To make sure: {confirm}" if confirm else remedy


def _unexplained(logs: Sequence[LogText], facts: AttemptFacts) -> Verdict:
    """Say that nothing explains it, and show what the log ended with."""
    evidence = []
    record = facts.exit_record
    if record is not None and record.message:
        evidence.append(Evidence("exit.json", 1, shown(record.message)))
    line = last_words(logs)
    if line is not None:
        evidence.append(Evidence(line.file, line.number, shown(line.shown)))
    return Verdict("unexplained", "no-rule-matched", None, evidence=tuple(evidence))
