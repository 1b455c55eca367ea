"""Reads a recipe and a profile from their files: all that is wrong with both, at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slurmswift.domain.planning import undecided
from slurmswift.domain.profile import Profile, parse_profile
from slurmswift.domain.recipe import ANY_PROGRAM, Recipe, parse_recipe
from slurmswift.domain.schema import Entry, Node, Place, Problems, Scalar, Table
from slurmswift.errors import Problem, RecipeError
from slurmswift.files.recipe_tree import EXTENDS, read_layers, read_tree
from slurmswift.files.yaml_text import load_yaml

# Below these, what follows is one key, dots and all: --set launch.arguments.optim.lr=1
_OPEN = ("launch.arguments", "environment.variables")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A recipe and its profile without an error, and what is worth a second look."""

    recipe: Recipe
    profile: Profile
    warnings: tuple[Problem, ...]


def read_recipe(path: Path, *, sets: Sequence[str] = (), profile: Path | None = None) -> Loaded:
    """Return recipe and profile; RecipeError carries every problem of both.

    ``sets``: ``a.b=c`` of the command line, which goes over what the file says.
    """
    problems = Problems()
    read_profile = Profile()
    tree = read_layers(path, problems)
    profile_tree = None if profile is None else read_tree(profile, problems)
    for text in sets:
        tree = _set(tree, text, problems)
    if profile_tree is not None:
        read_profile = parse_profile(profile_tree, problems)
    if tree is None:
        raise RecipeError(problems.errors)
    recipe = parse_recipe(tree, problems)
    _check_files(recipe, path.resolve().parent, problems)
    problems.found += undecided(recipe, read_profile)
    if problems.errors:
        raise RecipeError(_in_order(problems))
    return Loaded(recipe, read_profile, problems.warnings)


def _in_order(problems: Problems) -> tuple[Problem, ...]:
    """Errors and warnings as a reader meets them: by file, then by line."""

    def key(problem: Problem) -> tuple[str, int]:
        place = problem.where.split(": ")[0]
        name, _, line = place.rpartition(":")
        return (name, int(line)) if line.isdigit() else (place, 0)

    return tuple(sorted(problems.found, key=key))


def _set(tree: Table | None, text: str, problems: Problems) -> Table | None:
    """Return the tree with one ``a.b=c`` of the command line in it."""
    name, equals, value = text.partition("=")
    place = Place(f"--set {name}")
    keys = _keys(name)
    if not equals or not all(keys):
        problems.add(
            Place(f"--set {text}"), "", "is not KEY=VALUE", "write it like sbatch.time=1:00:00"
        )
        return tree
    if keys[0] == EXTENDS:
        problems.add(place, "", "only a file can extend others", "write it into the recipe")
        return tree
    node: Node | None = Scalar(value, place)
    if value.startswith(("[", "{")):
        node = load_yaml(value, str(place), problems)
    if tree is None or node is None:
        return tree
    return _with(tree, keys, node, place)


def _keys(name: str) -> tuple[str, ...]:
    for prefix in _OPEN:
        if name.startswith(f"{prefix}."):
            return (*prefix.split("."), name[len(prefix) + 1 :])
    return tuple(name.split("."))


def _with(table: Table, keys: tuple[str, ...], node: Node, place: Place) -> Table:
    key, *rest = keys
    if rest:
        entry = table.get(key)
        inner = entry.value if entry is not None and isinstance(entry.value, Table) else None
        node = _with(inner or Table((), place), tuple(rest), node, place)
    return table.replaced(Entry(key, place, node))


def _check_files(recipe: Recipe, folder: Path, problems: Problems) -> None:
    """Note a script that is not there: the queue is a bad place to find that out."""
    name = recipe.launch.script
    if name is None or "{" in name:
        return
    script = folder / name
    place = dict(recipe.places)["launch.command"]
    if script.is_dir():
        problems.add(place, "launch.command", f"{script} is a folder", "name the script in it")
    elif not script.is_file():
        beside = sorted(path.name for path in folder.glob("*.py"))[:5]
        there = f"; beside the recipe are: {', '.join(beside)}" if beside else ""
        problems.add(
            place,
            "launch.command",
            f"{script} does not exist",
            f"write the script's path as seen from the recipe's folder{there}",
        )
    elif recipe.launch.framework in ANY_PROGRAM and not (
        script.suffix == ".py" or os.access(script, os.X_OK)
    ):
        fix = f"chmod +x {name}, or name the program that reads it: [bash, {name}]"
        problems.add(place, "launch.command", f"{script} cannot be executed", fix)
