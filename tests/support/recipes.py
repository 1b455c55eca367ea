"""Recipes for tests: a whole one to change, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

from slurmswift.domain.plan import Plan
from slurmswift.domain.planning import make_plan
from slurmswift.errors import Problem, RecipeError
from slurmswift.files.recipe_file import Loaded, read_recipe

WHOLE = """\
schema: 1
name: tiny
sbatch:
  nodes: 2
  gpus_per_node: 4
  time: 1:00:00
launch:
  framework: torchrun
  command: train.py
"""


def write(folder: Path, text: str = WHOLE, name: str = "recipe.yaml") -> Path:
    (folder / "train.py").touch()
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, text: str = WHOLE, *sets: str, profile: str | None = None) -> Loaded:
    beside = None if profile is None else write(folder, profile, "profile.yaml")
    return read_recipe(write(folder, text), sets=sets, profile=beside)


def problems(folder: Path, text: str, *sets: str, profile: str | None = None) -> list[Problem]:
    """Return what is wrong with a recipe, without the folder's name in front."""
    try:
        found = load(folder, text, *sets, profile=profile).warnings
    except RecipeError as error:
        found = error.problems
    return [
        Problem(
            problem.where.replace(f"{folder}/", ""),
            problem.message,
            problem.fix,
            problem.rule,
            problem.severity,
        )
        for problem in found
    ]


def a_plan(
    folder: Path,
    text: str = WHOLE,
    *sets: str,
    profile: str | None = None,
    run_dir: str = "/runs/tiny-260101-abcde",
    cluster: str = "here",
    asked_by_shell: dict[str, str] | None = None,
) -> Plan:
    loaded = load(folder, text, *sets, profile=profile)
    return make_plan(
        loaded.recipe,
        loaded.profile,
        run_id="tiny-260101-abcde",
        run_dir=run_dir,
        recipe_dir=str(folder),
        cluster=cluster,
        asked_by_shell=asked_by_shell or {},
    )
