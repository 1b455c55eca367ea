"""What a recipe or profile is made of before anything is read into it: text with its place.

Scalars stay text until a field's own rule reads them: YAML would make 86400 of ``time: 24:00:00``,
7 of ``account: 007`` and a truth value of ``partition: on``.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import (
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

from slurmswift.errors import Problem

T = TypeVar("T")

NOT_YET = "not in this version"
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_FEW = 12  # so many choices can still be listed in one line


@dataclass(frozen=True)
class Place:
    """Where a text was written: a file's line, or an option of the command line."""

    source: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True)
class Scalar:
    """One piece of text."""

    text: str
    place: Place
    quoted: bool = False

    @property
    def is_null(self) -> bool:
        return not self.quoted and self.text in _NULLS


@dataclass(frozen=True)
class Listing:
    """A YAML sequence."""

    items: Tuple[Node, ...]
    place: Place


@dataclass(frozen=True)
class Entry:
    """One ``key: value``, with the key's own place."""

    key: str
    place: Place
    value: Node


@dataclass(frozen=True)
class Table:
    """A YAML mapping in the order it was written."""

    entries: Tuple[Entry, ...]
    place: Place

    def get(self, key: str) -> Optional[Entry]:
        return next((entry for entry in self.entries if entry.key == key), None)

    def replaced(self, entry: Entry) -> Table:
        """Return this table with ``entry`` in place of the one of its key, or at the end."""
        if self.get(entry.key) is None:
            return Table((*self.entries, entry), self.place)
        return Table(
            tuple(entry if mine.key == entry.key else mine for mine in self.entries), self.place
        )

    def under(self, over: Table) -> Table:
        """Return this table with ``over`` on top: tables go into each other, all else replaces."""
        merged = Table(self.entries, over.place)
        for entry in over.entries:
            mine, value = self.get(entry.key), entry.value
            if mine is not None and isinstance(mine.value, Table) and isinstance(value, Table):
                value = mine.value.under(value)
            merged = merged.replaced(Entry(entry.key, entry.place, value))
        return merged

    def without(self, key: str) -> Table:
        return Table(tuple(entry for entry in self.entries if entry.key != key), self.place)


Node = Union[Scalar, Listing, Table]


class UnreadableError(ValueError):
    """A text is not what its field needs. Carries what to write instead."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


@dataclass
class Problems:
    """Collects what is wrong, so that a person sees all of it at once."""

    found: List[Problem] = field(default_factory=list)

    def add(self, place: Place, key: str, message: str, fix: str = "") -> None:
        self.found.append(Problem(_where(place, key), message, fix))

    def warn(self, place: Place, key: str, message: str, fix: str = "") -> None:
        self.found.append(Problem(_where(place, key), message, fix, severity="warning"))

    @property
    def errors(self) -> Tuple[Problem, ...]:
        return tuple(problem for problem in self.found if problem.severity == "error")

    @property
    def warnings(self) -> Tuple[Problem, ...]:
        return tuple(problem for problem in self.found if problem.severity == "warning")


def _where(place: Place, key: str) -> str:
    """Return ``file:line: key``; ``--set a.b`` names its key already."""
    named = not key or place.source.endswith(f" {key}")
    return str(place) if named else f"{place}: {key}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the fix for an unknown word: the nearest known one, or the choices if they are few."""
    known = sorted(known)
    near = difflib.get_close_matches(word.lower().replace("-", "_"), known, n=1, cutoff=0.6)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"there are: {', '.join(known)}" if len(known) <= _FEW else ""


class Reader:
    """Reads the keys of one table. What is wrong is noted, and the default returned."""

    def __init__(
        self,
        table: Table,
        problems: Problems,
        *,
        path: str = "",
        keys: Sequence[str],
        later: Sequence[str] = (),
        hints: Mapping[str, str] = {},
    ) -> None:
        self.table = table
        self.problems = problems
        self.path = path
        for entry in table.entries:
            if entry.key in later:
                self.note(entry, NOT_YET, "remove it")
            elif entry.key not in keys:
                self.note(
                    entry, "no such key", hints.get(entry.key) or did_you_mean(entry.key, keys)
                )

    def key(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def note(self, entry: Entry, message: str, fix: str = "") -> None:
        self.problems.add(entry.place, self.key(entry.key), message, fix)

    def missing(self, name: str, fix: str) -> None:
        self.problems.add(self.table.place, self.key(name), "missing", fix)

    def given(self, name: str) -> bool:
        return self.table.get(name) is not None

    def read(self, name: str, convert: Callable[[str], T]) -> Optional[T]:
        """Return the key's text as ``convert`` reads it; None where it is absent or wrong."""
        entry = self.table.get(name)
        if entry is None:
            return None
        return read_scalar(entry.value, convert, self.problems, key=self.key(name))

    def read_list(self, name: str, convert: Callable[[str], T]) -> Optional[Tuple[T, ...]]:
        """Return a list; a single text counts as a list of one. None where absent."""
        entry = self.table.get(name)
        if entry is None:
            return None
        if isinstance(entry.value, Table):
            self.note(entry, "needs a list", "write [first, second]")
            return None
        items = entry.value.items if isinstance(entry.value, Listing) else (entry.value,)
        key = self.key(name)
        values = (read_scalar(item, convert, self.problems, key=key) for item in items)
        return tuple(value for value in values if value is not None)

    def table_of(self, name: str) -> Table:
        """Return the table under a key; an empty one where it is absent or something else."""
        entry = self.table.get(name)
        if entry is None:
            return Table((), self.table.place)
        if isinstance(entry.value, Table):
            return entry.value
        if not (isinstance(entry.value, Scalar) and entry.value.is_null):
            self.note(entry, "needs keys of its own", f"write '{name}:' and its keys below it")
        return Table((), entry.place)


def read_scalar(
    node: Node, convert: Callable[[str], T], problems: Problems, *, key: str
) -> Optional[T]:
    """Return a node's text as ``convert`` reads it, or note what is wrong and return None."""
    if not isinstance(node, Scalar):
        _note_kind(node, problems, key=key)
        return None
    if node.is_null:
        problems.add(node.place, key, "has no value", "write one, or remove the line")
        return None
    try:
        return convert(node.text)
    except UnreadableError as error:
        problems.add(node.place, key, error.message, error.fix)
        return None


def _note_kind(node: Union[Listing, Table], problems: Problems, *, key: str) -> None:
    if isinstance(node, Listing):
        problems.add(node.place, key, "needs one value, not a list")
        return
    # To YAML, {output_dir} without quotes is a table of one key.
    only = node.entries[0] if len(node.entries) == 1 else None
    bare = only is not None and isinstance(only.value, Scalar) and only.value.is_null
    fix = f'write it in quotes: "{{{only.key}}}"' if only is not None and bare else ""
    problems.add(node.place, key, "needs one value, not keys of its own", fix)


def flatten(table: Table, path: str = "") -> Dict[str, Place]:
    """Return where each key of a tree was written, by its dotted name."""
    places: Dict[str, Place] = {}
    for entry in table.entries:
        name = f"{path}.{entry.key}" if path else entry.key
        places[name] = entry.value.place if isinstance(entry.value, Scalar) else entry.place
        if isinstance(entry.value, Table):
            places.update(flatten(entry.value, name))
    return places
