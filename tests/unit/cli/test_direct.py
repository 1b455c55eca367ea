"""What is read without typer is read as typer would read it, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer.main

from slurmswift.cli import boundary, submitting
from slurmswift.cli.app import app
from slurmswift.cli.boundary import run_cli
from slurmswift.cli.direct import OPTIONS, command_of

Call = tuple[str, dict[str, object]]

PLAIN = [
    "submit recipe.yaml",
    "submit --json recipe.yaml",
    "submit recipe.yaml --set a.b=c --set=d=e=f --profile p.yaml --watch",
    "submit --profile=p.yaml recipe.yaml --dry-run --dry-run",
    "submit recipe.yaml --set x=",
    "submit recipe.yaml --set x=-1",
    "render recipe.yaml",
    "render recipe.yaml -o folder",
    "render --output folder recipe.yaml --json --profile a --profile b",
]
MISTAKES = [
    "submit",
    "submit recipe.yaml other.yaml",
    "submit recipe.yaml --wat",
    "submit recipe.yaml --set",
    "submit recipe.yaml --json=yes",
    "submit recipe.yaml -o folder",
    "render recipe.yaml --out folder",
    "--json submit recipe.yaml",
]
OTHERS = [
    "",
    "--help",
    "status",
    "submit --help",
    "submit recipe.yaml -h",
    "submit recipe.yaml --set -x",
    "submit -- recipe.yaml",
    "render recipe.yaml -ofolder",
]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Records what either way of reading calls, defaults left out."""
    found: list[Call] = []

    def note(name: str) -> None:
        def record(recipe: Path, **given: object) -> int:
            told = {
                key: value for key, value in given.items() if value not in (None, False, [], ())
            }
            found.append((name, {"recipe": recipe, **told}))
            return 0

        monkeypatch.setattr(submitting, name, record)

    note("submit_recipe")
    note("render_recipe")
    return found


@pytest.mark.parametrize("line", PLAIN)
def test_plain_lines_are_read_as_typer_reads_them(
    line: str, calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command_of(line.split()) is not None
    assert run_cli(line.split()) == 0
    monkeypatch.setattr(boundary, "command_of", lambda _: None)
    assert run_cli(line.split()) == 0

    direct, by_typer = calls
    assert direct == by_typer


@pytest.mark.parametrize("line", [*MISTAKES, *OTHERS])
def test_the_rest_is_typers(line: str) -> None:
    assert command_of(line.split()) is None


@pytest.mark.parametrize("name", OPTIONS)
def test_both_know_the_same_options(name: str) -> None:
    group = typer.main.get_command(app)
    parameters = group.commands[name].params  # type: ignore[attr-defined]
    typers = {opt: p.name for p in parameters for opt in p.opts if opt.startswith("-")}
    mine = OPTIONS[name]

    assert {**mine.flags, **mine.paths, **mine.texts} == typers


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes_are_explained_by_typer(
    line: str, calls: list[Call], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(line.split()) == 2
    assert "Error: " in capsys.readouterr().err
    assert calls == []


def test_an_interruption_and_an_error_end_as_they_do_under_typer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    assert run_cli(["render", str(tmp_path / "nothing.yaml")]) == 3
    assert "cannot be read" in capsys.readouterr().err
    monkeypatch.setattr(submitting, "render_recipe", interrupted)
    assert run_cli(["render", "x"]) == 130
    assert run_cli(["render", "--", "x"]) == 130
