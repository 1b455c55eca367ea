#!/usr/bin/env python3
"""Writes the pages of docs/reference/ that are printed from tables. Run it after changing one."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from docs.checkpoint_formats import checkpoints_page  # noqa: E402
from docs.recipe_keys import recipe_page  # noqa: E402
from slurmswift.domain.causes import CAUSES, Cause  # noqa: E402
from slurmswift.domain.confirm import CONFIRM  # noqa: E402
from slurmswift.domain.policy import row_for  # noqa: E402
from slurmswift.domain.preflight_verdict import BLAME  # noqa: E402
from slurmswift.domain.rule import Role, Rule  # noqa: E402
from slurmswift.domain.rules import EXCEPTION_RULE, RULES  # noqa: E402
from slurmswift.node.checks import CHECKS, PORT_CHECK  # noqa: E402

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
PREFLIGHT = """\
# Preflight

<!-- Printed by docs/generate.py from slurmswift/node/checks.py and domain/preflight_verdict.py. -->

Before the ranks of an attempt are started, one step (`srun`, one task a node) looks at every node.
Each node answers by one line on the step's output, for the run directory may be what is broken;
the first node gathers them into `attempts/NNN-<job id>/preflight.json`.
A node without a line is in `nodes_silent`;
a check that was not made is in `left_out`, with the reason.
One failed check ends the attempt before anything was trained,
and the watcher resumes without the node that is named.
What fails on all nodes is no node's fault, and has a cause of its own.
It takes as long as the slowest import of torch, and less than a second besides;
what was read for it is then in the node's memory for the ranks.

The port is held during the preflight:
the nodes reach the very place where the ranks will meet.
Should somebody take it in between, the training fails within its first minute:
then the script launches it again at another port, twice at most, in the same attempt.
Clocks are compared through the same connection: with the first node's,
and of three and more with the one in the middle.
"""


def main() -> None:
    reference = ROOT / "docs" / "reference"
    (reference / "causes.md").write_text(causes_page(), encoding="utf-8")
    (reference / "recipe.md").write_text(recipe_page(), encoding="utf-8")
    (reference / "checkpoints.md").write_text(checkpoints_page(), encoding="utf-8")
    (reference / "preflight.md").write_text(preflight_page(), encoding="utf-8")


def preflight_page() -> str:
    """Return the page of the checks before a training, and of what follows from each."""
    lines = [PREFLIGHT, "| check | passes if | why | limit | on one node | on all |"]
    lines += ["|---|---|---|---|---|---|"]
    for check in (PORT_CHECK, *CHECKS):
        blame = BLAME[check.id]
        row = (f"`{check.id}`", check.what, check.why, check.default)
        causes = (f"`{blame.on_some}`", f"`{blame.everywhere}`")
        lines.append("| " + " | ".join((*row, *causes)) + " |")
    return "\n".join([*lines, ""])


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
    if CONFIRM[cause.name]:
        lines += [f"To make sure: {CONFIRM[cause.name]}."]
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
