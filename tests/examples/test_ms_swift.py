"""Each recipe of examples/ms-swift: nothing is wrong with it, and ms-swift knows its words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurmswift.domain.planning import make_plan
from slurmswift.files.recipe_file import read_recipe
from tests.support.tiny_swift import EXAMPLE, OFFLINE, ROOT, swift_python

RECIPES = sorted(EXAMPLE.glob("*.yaml"))
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
needs_swift = pytest.mark.skipif(swift_python() is None, reason="needs ms-swift: .venv-swift")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_check_finds_nothing(recipe: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "slurmswift", "check", str(recipe), "--json"],
        env={**os.environ, "PATH": "/nowhere"},  # without sbatch: the partitions are not here
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["problems"] == []


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_the_readme_says_in_a_line_what_makes_its_resume_exact(recipe: Path) -> None:
    (line,) = [line for line in README.splitlines() if line.startswith(f"| `{recipe.name}` |")]
    _, what, exact = line.strip("| ").split(" | ")

    assert what
    assert exact


def words_of(recipe: Path) -> tuple[str, ...]:
    loaded = read_recipe(recipe)
    plan = make_plan(
        loaded.recipe,
        loaded.profile,
        run_id="x-260101-abcde",
        run_dir="/runs/x-260101-abcde",
        recipe_dir="/recipes",
        cluster="here",
    )
    more = ("--finetune", "false") if plan.framework == "megatron-swift" else ()
    resumed = (plan.resume_flag, "/runs/x/checkpoint-1", *more)
    dash, module = plan.command
    assert dash == "-m"
    return (module, *plan.arguments, *resumed)


@pytest.fixture(scope="module")
def left_over() -> dict[str, list[str]]:
    """Of each recipe the words that ms-swift's parser does not know; it has one nobody knows."""
    asked = {path.stem: (*words_of(path), "--no_such_word", "1") for path in RECIPES}
    done = subprocess.run(
        [str(swift_python()), str(ROOT / "tests/support/swift_parser.py")],
        input=json.dumps(asked),
        env={**os.environ, **OFFLINE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@needs_swift
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_ms_swift_knows_every_word(recipe: Path, left_over: dict[str, list[str]]) -> None:
    assert left_over[recipe.stem] == ["--no_such_word", "1"]
