"""The pages that are printed from tables are as the tables say now, and these as the code does."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from docs.checkpoint_formats import checkpoints_page
from docs.recipe_keys import ABOUT_FRAMEWORKS, KEYS, Key, recipe_page
from slurmswift.checkpoints.formats import FORMATS
from slurmswift.domain.recipe import FRAMEWORKS
from slurmswift.domain.schema import Reader
from tests.support.recipes import WHOLE, load

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"


def test_the_page_of_causes_is_fresh() -> None:
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    written = (REFERENCE / "causes.md").read_text(encoding="utf-8")

    assert written == generate["causes_page"](), "run docs/generate.py"


def test_the_page_of_recipes_is_fresh() -> None:
    written = (REFERENCE / "recipe.md").read_text(encoding="utf-8")

    assert written == recipe_page(), "run docs/generate.py"


def test_the_page_of_checkpoints_is_fresh() -> None:
    written = (REFERENCE / "checkpoints.md").read_text(encoding="utf-8")

    assert written == checkpoints_page(), "run docs/generate.py"


def test_each_format_says_what_the_page_needs() -> None:
    unsaid = [
        form.name
        for form in FORMATS
        if not (form.title and form.layout and form.last and form.in_progress)
    ]

    assert unsaid == []


def test_the_page_of_the_preflight_is_fresh() -> None:
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    written = (REFERENCE / "preflight.md").read_text(encoding="utf-8")

    assert written == generate["preflight_page"](), "run docs/generate.py"


def test_the_page_has_exactly_the_keys_that_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[str] = set()
    original = Reader.__init__

    def recording(self: Reader, *arguments: object, keys: tuple[str, ...], **more: object) -> None:
        path = f"{more['path']}." if more.get("path") else ""
        read.update(f"{path}{key}" for key in keys)
        original(self, *arguments, keys=keys, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Reader, "__init__", recording)
    load(tmp_path)
    # The values of these are tables of the user's own, or have a page or table of theirs.
    open_tables = ("environment.variables.", "launch.arguments.", "restart.budgets.", "sbatch.")
    tables = {"environment", "launch", "checkpoints", "restart"}
    keys = {key for key in read if not key.startswith(open_tables)} - tables

    assert keys == {key.name for key in KEYS}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_each_example_is_a_value_that_a_recipe_can_have(key: Key, tmp_path: Path) -> None:
    whole = WHOLE + "  processes_per_node: 2\n"
    (tmp_path / "base.yaml").write_text(whole, encoding="utf-8")
    written = {"schema": "1", "extends": "base.yaml", key.name: key.example}
    lines = [
        f"{name.partition('.')[0]}: {{{name.partition('.')[2]}: {value}}}" if "." in name
        else f"{name}: {value}"
        for name, value in written.items()
    ]  # fmt: skip

    assert load(tmp_path, "\n".join(lines)).warnings == ()


def test_each_framework_is_told_of() -> None:
    assert tuple(ABOUT_FRAMEWORKS) == FRAMEWORKS
