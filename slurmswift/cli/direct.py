"""Reads the plain command lines of `submit` and `render` without typer: its import takes longest.

What is not plainly one of these (help, completion, an abbreviation, a mistake) is left to typer,
which alone explains and completes. tests/unit/cli/test_direct.py holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

Command = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Options:
    """One command's options, each with the name of its parameter."""

    flags: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)  # may be given several times


OPTIONS = {
    "submit": Options(
        flags={"--dry-run": "dry_run", "--watch": "watch", "--json": "as_json"},
        paths={"--profile": "profile"},
        texts={"--set": "sets"},
    ),
    "render": Options(
        flags={"--json": "as_json"},
        paths={"--profile": "profile", "--output": "folder", "-o": "folder"},
        texts={"--set": "sets"},
    ),
}


def command_of(arguments: Sequence[str]) -> Command | None:
    """Return the command that a command line asks for; None where typer has to look at it."""
    if not arguments or arguments[0] not in OPTIONS:
        return None
    read = read_options(OPTIONS[arguments[0]], arguments[1:])
    if read is None:
        return None
    from slurmswift.cli import submitting  # noqa: PLC0415 - after the cheap questions

    if arguments[0] == "submit":
        return partial(submitting.submit_recipe, **read)  # type: ignore[arg-type]
    return partial(submitting.render_recipe, **read)  # type: ignore[arg-type]


def read_options(options: Options, words: Sequence[str]) -> dict[str, object] | None:
    """Return the parameters by name; None where a word is not plainly what it must be."""
    read: dict[str, object] = {}
    texts: dict[str, list[str]] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if not word.startswith("-"):
            if not word or "recipe" in read:
                return None
            read["recipe"] = Path(word)
        elif word in options.flags:
            read[options.flags[word]] = True
        elif name in options.paths or name in options.texts:
            if not equals and (not left or left[0].startswith("-")):
                return None
            value = value if equals else left.pop(0)
            if name in options.texts:
                texts.setdefault(options.texts[name], []).append(value)
            else:
                read[options.paths[name]] = Path(value)
        else:
            return None
    return {**read, **texts} if "recipe" in read else None
