"""Reads a recipe and what it extends into one tree; each value keeps its own file and line."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from slurmswift.domain.recipe import require_schema
from slurmswift.domain.schema import Place, Problems, Reader, Scalar, Table
from slurmswift.domain.schema_values import a_path
from slurmswift.files.regular_file import NotRegularError, TooLargeError, read_regular
from slurmswift.files.yaml_text import MAX_BYTES, load_yaml

EXTENDS = "extends"
MAX_FILES = 32  # one recipe's files, each counted as often as it is named


def read_layers(path: Path, problems: Problems) -> Table | None:
    """Return a recipe's tree over those of the files that it extends, the later over the earlier.

    Tables go into each other; lists and single values replace what they lie on.
    """
    return _Layers(problems).read(path, ())


@dataclass(slots=True)
class _Layers:
    problems: Problems
    count: int = field(default=0)

    def read(self, path: Path, above: tuple[Path, ...]) -> Table | None:
        """``above``: the files that extend this one, the recipe first."""
        self.count += 1
        tree = read_tree(path, self.problems)
        if tree is None:
            return None
        if above:
            # Of all files but the recipe itself the number would be covered by the recipe's.
            only = tuple(entry for entry in tree.entries if entry.key == "schema")
            require_schema(Reader(Table(only, tree.place), self.problems, keys=("schema",)))
        below = Table((), tree.place)
        for place, name in _names(tree, self.problems):
            layer = self._layer(path, name, place, (*above, path))
            below = below if layer is None else below.under(layer)
        return below.under(tree.without(EXTENDS))

    def _layer(self, path: Path, name: str, place: Place, above: tuple[Path, ...]) -> Table | None:
        base = Path(os.path.normpath(path.parent / name))
        chain = [*above, base]
        if any(_same(base, file) for file in above):
            shown = " -> ".join(file.name for file in chain)
            self.problems.add(place, EXTENDS, f"goes in a circle: {shown}", "remove it")
        elif not base.exists():
            fix = f"write the path as seen from the folder of {path.name}"
            self.problems.add(place, EXTENDS, f"{base} does not exist", fix)
        elif self.count >= MAX_FILES:
            self.problems.add(place, EXTENDS, f"more than {MAX_FILES} files", "extend fewer")
        else:
            return self.read(base, above)
        return None


def _names(tree: Table, problems: Problems) -> list[tuple[Place, str]]:
    """Return what a tree extends, each with the place where it is written."""
    entry = tree.get(EXTENDS)
    if entry is None:
        return []
    names = Reader(Table((entry,), tree.place), problems, keys=(EXTENDS,)).read_list(
        EXTENDS, a_path
    )
    items = getattr(entry.value, "items", (entry.value,))
    if names is None or len(names) != len(items):
        return []
    return [(item.place, name) for item, name in zip(items, names, strict=True)]


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def read_tree(path: Path, problems: Problems) -> Table | None:
    text = _read_text(path, problems)
    if text is None:
        return None
    found = len(problems.found)
    tree = load_yaml(text, str(path), problems)
    if tree is None or (isinstance(tree, Scalar) and tree.is_null):
        if len(problems.found) == found:
            problems.add(Place(str(path), 1), "", "is empty", "write as the first line: schema: 1")
        return None
    if not isinstance(tree, Table):
        problems.add(tree.place, "", "holds no keys", "write 'key: value' lines")
        return None
    return tree


def _read_text(path: Path, problems: Problems) -> str | None:
    place = Place(str(path))
    try:
        raw = read_regular(path, MAX_BYTES)
    except NotRegularError:
        problems.add(place, "", "is not a regular file", "name the recipe's file")
        return None
    except TooLargeError as error:
        problems.add(place, "", error.strerror or "is too large", "write a smaller file")
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = getattr(error, "strerror", None) or str(error)
        problems.add(place, "", f"cannot be read: {why}", "look at the path")
        return None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problems.add(Place(str(path), line), "", "is not UTF-8 text", "save the file as UTF-8")
        return None
