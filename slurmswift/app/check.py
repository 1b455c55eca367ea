"""Judges a recipe as a whole: what would stop it here, and what Slurm says of it."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from slurmswift.app.submit import Prepared, Request, prepare
from slurmswift.app.tools import Tools
from slurmswift.errors import Problem, RecipeError, SlurmRefusedError, SlurmUnavailableError

_UNSUBMITTED = "unsubmitted"


@dataclass(frozen=True, slots=True)
class Checked:
    """Every problem at once, and Slurm's forecast where it gave one."""

    problems: tuple[Problem, ...]
    forecast: str | None = None

    @property
    def failed(self) -> bool:
        return any(problem.severity == "error" for problem in self.problems)


def check(request: Request, tools: Tools) -> Checked:
    """Read, plan and render a recipe; where that works and sbatch exists, have it tested.

    Nothing is submitted and nothing is kept.
    """
    has_slurm = shutil.which("sbatch", path=tools.environ.get("PATH")) is not None
    cluster, unasked = _cluster(tools) if has_slurm else (_UNSUBMITTED, ())
    try:
        prepared = prepare(request, tools, cluster=cluster)
    except RecipeError as error:
        return Checked(error.problems)
    if not has_slurm or unasked:
        return Checked((*prepared.warnings, *unasked))
    try:
        return Checked(prepared.warnings, _forecast(prepared, tools))
    except SlurmRefusedError as error:
        fix = "change what it asks for under sbatch, or another partition, account or QOS"
        refused = Problem(str(request.recipe), str(error), fix, rule="sbatch")
        return Checked((*prepared.warnings, refused))
    except SlurmUnavailableError as error:
        return Checked((*prepared.warnings, _unasked(error)))


def _cluster(tools: Tools) -> tuple[str, tuple[Problem, ...]]:
    try:
        return tools.slurm.cluster_name(), ()
    except SlurmUnavailableError as error:
        return _UNSUBMITTED, (_unasked(error),)


def _unasked(error: SlurmUnavailableError) -> Problem:
    fix = "check again when Slurm answers"
    return Problem("sbatch", f"not tested: {error}", fix, rule="sbatch", severity="warning")


def _forecast(prepared: Prepared, tools: Tools) -> str:
    """Return sbatch's own words on when and where the job would start."""
    environment: dict[str, str] = json.loads(prepared.files["environment.json"])["variables"]
    with tempfile.TemporaryDirectory(prefix="slurmswift-check-") as folder:
        script = Path(folder, "job.sbatch")
        script.write_text(prepared.script.text, encoding="utf-8")
        said = tools.slurm.test_only(str(script), env=environment)
    return said.replace("sbatch: ", "")
