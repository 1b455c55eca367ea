"""Shows what is wrong with a recipe."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from slurmswift.app.check import Checked, check
from slurmswift.app.submit import Request
from slurmswift.app.tools import Tools
from slurmswift.cli import output
from slurmswift.errors import ExitStatus


def show_check(
    tools: Tools, recipe: Path, sets: tuple[str, ...], profile: Path | None, *, as_json: bool
) -> int:
    """Print every problem; return the exit status, in which warnings do not count."""
    checked = check(Request(recipe, sets, profile), tools)
    if as_json:
        problems = [problem.to_json() for problem in checked.problems]
        output.say_json({"problems": problems, "forecast": checked.forecast})
    else:
        for problem in checked.problems:
            output.say(str(problem))
        output.say(_summary(checked))
    return int(ExitStatus.INPUT if checked.failed else ExitStatus.OK)


def _summary(checked: Checked) -> str:
    counts = Counter(problem.severity for problem in checked.problems)
    parts = [f"{count} {kind}{'s' * (count > 1)}" for kind, count in sorted(counts.items())]
    if checked.forecast is not None:
        parts.append(f"sbatch: {checked.forecast}")
    return "; ".join(parts) if counts else "; ".join(["no problems", *parts])
