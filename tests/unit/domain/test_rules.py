"""The table of rules: each entry proves itself by its examples, and none can be slow."""

from __future__ import annotations

import re
import time

import pytest

from slurmswift.domain.causes import CAUSES
from slurmswift.domain.confirm import CONFIRM
from slurmswift.domain.diagnosis import diagnose_text
from slurmswift.domain.log_lines import Lines, LogText
from slurmswift.domain.policy import POLICY
from slurmswift.domain.rule import Role, Rule
from slurmswift.domain.rules import EXCEPTION_RULE, GATES, GATES_BESIDE, RULE_BY_ID, RULES

ALL_RULES = (*RULES, EXCEPTION_RULE)
WITH_CAUSE = {Role.ROOT, Role.SUSPECT, Role.ENDING, Role.CONSEQUENCE}
each_rule = pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)


def message_of(text: str) -> str:
    return Lines(LogText("log", text.encode())).at(0).text


@each_rule
def test_a_rule_has_an_example_that_it_knows_and_one_that_it_does_not(rule: Rule) -> None:
    missed = [text for text in rule.positive if rule.match(message_of(text)) is None]
    taken = [text for text in rule.negative if rule.match(message_of(text)) is not None]

    assert rule.positive
    assert rule.negative
    assert (missed, taken) == ([], [])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_rule_before_it_takes_a_rules_own_example(rule: Rule) -> None:
    first = {
        next(
            other.id
            for other in RULES
            # A context decides by the traceback above, which an example does not have.
            if (other is rule or not other.context) and other.match(message_of(text)) is not None
        )
        for text in rule.positive
        if not rule.context
    }

    assert first <= {rule.id}


@each_rule
def test_a_rule_says_where_its_wording_comes_from(rule: Rule) -> None:
    assert rule.source
    assert bool(rule.cause) == (rule.role in WITH_CAUSE) or rule.role is Role.CONFIRMATION
    assert rule.advice in ("", "yes", "no", "unknown")
    assert set(rule.yields_to) <= set(RULE_BY_ID)


@pytest.mark.parametrize(
    "rule",
    [rule for rule in RULES if rule.role not in (Role.BOILERPLATE, Role.HARMLESS)],
    ids=lambda rule: rule.id,
)
def test_what_a_rule_knows_passes_the_gate(rule: Rule) -> None:
    """A line without a gate's word is never looked at."""
    gates = (*GATES, *(gate for beside in GATES_BESIDE.values() for gate in beside))
    shut_out = [text for text in rule.positive if not any(gate in text.encode() for gate in gates)]

    assert shut_out == []


@each_rule
def test_no_pattern_has_a_repetition_without_a_bound_over_any_text(rule: Rule) -> None:
    unbounded = [p for p in (*rule.patterns, rule.context) if re.search(r"(?<!\\)\.[*+]", p)]

    assert unbounded == []


def test_every_rule_has_its_own_name() -> None:
    assert len({rule.id for rule in ALL_RULES}) == len(ALL_RULES)


def test_every_cause_has_a_remedy_and_a_row_of_the_policy() -> None:
    incomplete = [cause.name for cause in CAUSES.values() if not (cause.meaning and cause.remedy)]
    without_row = [name for name in CAUSES if not any(row.matches(name) for row in POLICY)]

    assert (incomplete, without_row) == ([], [])


@pytest.mark.parametrize(
    "piece",
    [
        "RuntimeError: ",
        "torch.distributed.",
        "srun: error: n1: task 1: ",
        "slurmstepd: error: *** JOB ",
        "NCCL WARN NET/IB : ",
        "--local_rank=3 ",
        "a.",
        "Assertion `",
        "[rank1]: ",
        "100%|",
    ],
)
def test_a_hostile_line_costs_no_more_than_its_length(piece: str) -> None:
    """Quadratic patterns would take minutes here; the bound leaves room for a slow machine."""
    text = "Error failed signal " + piece * (200_000 // len(piece))
    started = time.process_time()

    diagnose_text(text, state="FAILED")

    assert time.process_time() - started < 5


def test_every_cause_says_how_to_make_sure_of_it() -> None:
    assert set(CONFIRM) == set(CAUSES)
    assert [name for name, text in CONFIRM.items() if not text] == ["none"]


def test_the_advice_is_given_with_the_diagnosis() -> None:
    remedy = diagnose_text("OSError: image file is truncated (7 bytes)", state="FAILED").remedy

    assert CONFIRM["data-bad-sample"] in remedy
    assert CAUSES["data-bad-sample"].remedy in remedy
