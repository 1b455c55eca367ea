#!/usr/bin/env python3
"""Writes the pages of docs/reference/ that are printed from tables. Run it after changing one."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from docs.recipe_keys import recipe_page  # noqa: E402
from slurmswift.domain.causes import CAUSES, Cause  # noqa: E402
from slurmswift.domain.policy import row_for  # noqa: E402
from slurmswift.domain.rule import Role, Rule  # noqa: E402
from slurmswift.domain.rules import EXCEPTION_RULE, RULES  # noqa: E402

ADVICE = {True: "yes", False: "no", None: "it depends"}
ROLES = {
    Role.ROOT: "a cause by itself: the earliest one of an attempt is the answer",
    Role.SUSPECT: "the cause where no root explains it, such as a time-out",
    Role.ENDING: "ended from outside; what comes after it in the same log is its echo",
    Role.CONSEQUENCE: "somebody else's end, seen from here; the answer only where it stands alone",
    Role.CONFIRMATION: "names the rank, node or process that a cause belongs to",
    Role.BOILERPLATE: "printed with every failure of its kind; proves nothing",
    Role.HARMLESS: "sounds bad and is not",
}  # fmt: skip
HEADER = """\
# Causes

<!-- Printed by docs/generate.py from slurmswift/domain/causes.py and rules*.py: do not edit. -->

`slurmswift diagnose` and the watcher answer with one of these.
The answer is the first cause that the evidence of one attempt supports:
its logs, its records and Slurm's state.
Where the evidence names none, it is `comm-remote-peer-lost`,
`comm-collective-timeout-unexplained` or `unexplained`, with what to collect next time.
"Elsewhere" says whether resuming, perhaps on other nodes, is likely to help.
The last column is what the watcher does by itself.
"""


def main() -> None:
    reference = ROOT / "docs" / "reference"
    (reference / "causes.md").write_text(causes_page(), encoding="utf-8")
    (reference / "recipe.md").write_text(recipe_page(), encoding="utf-8")


def causes_page() -> str:
    """Return the page of all causes and of the messages that prove them."""
    parts = [HEADER, _table(), "## What each means, and what to do\n"]
    parts += [_section(cause) for cause in CAUSES.values()]
    parts += [_other_messages()]
    return "\n".join(parts)


def _table() -> str:
    rows = ["| cause | category | elsewhere | the watcher |", "|---|---|---|---|"]
    for cause in CAUSES.values():
        acts = "nothing to do" if cause.name == "none" else _action(cause)
        link = f"[`{cause.name}`](#{cause.name})"
        rows.append(f"| {link} | {cause.category} | {ADVICE[cause.transient]} | {acts} |")
    return "\n".join([*rows, ""])


def _action(cause: Cause) -> str:
    row = row_for(cause.name)
    if row.action != "resume":
        return {"stop": "stops: FAILED", "hold": "holds for a person"}[row.action]
    return f"resumes, at most {row.budget} without a new checkpoint" + (
        ", off the named node" if row.avoid_node else ""
    )


def _section(cause: Cause) -> str:
    rules = [rule for rule in (*RULES, EXCEPTION_RULE) if rule.cause == cause.name]
    lines = [f"### {cause.name}", "", f"{cause.meaning[0].upper()}{cause.meaning[1:]}."]
    lines += [f"{cause.remedy}."] if cause.name != "none" else []
    if rules:
        lines += ["", "| rule | role | a message | wording from |", "|---|---|---|---|"]
        lines += [_row(rule) for rule in rules]
    return "\n".join([*lines, ""])


def _row(rule: Rule) -> str:
    return f"| `{rule.id}` | {rule.role.value} | {_code(rule.positive[0])} | {_text(rule.source)} |"


def _other_messages() -> str:
    lines = ["## Messages that are no cause", "", "| rule | role | a message |", "|---|---|---|"]
    lines += [
        f"| `{rule.id}` | {rule.role.value} | {_code(rule.positive[0])} |"
        for rule in RULES
        if not rule.cause
    ]
    lines += ["", "## Roles", "", *(f"- **{role.value}**: {ROLES[role]}." for role in Role), ""]
    return "\n".join(lines)


def _code(text: str) -> str:
    """Put a message into a table's cell: a bar would end the cell, and a backtick the code."""
    return "`" + " ".join(text.split()).replace("|", "\\|").replace("`", "'") + "`"


def _text(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    main()
