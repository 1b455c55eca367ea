"""Reads YAML into text with places. The only module that imports yaml.

Nothing in a text builds an object: no tags, no merge keys, no types of YAML's own. Size, depth and
what aliases unfold to are bounded, so that no file keeps the reader busy.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

import yaml

from slurmswift.domain.schema import Entry, Listing, Node, Place, Problems, Scalar, Table

MAX_BYTES = 256 * 1024
MAX_DEPTH = 24
MAX_NODES = 20_000  # aliases unfolded


class _GaveUpError(Exception):
    """The text cannot be read any further; the problem is noted."""


@dataclass(slots=True)
class _Composer:
    """Turns the parser's events into a tree."""

    name: str
    problems: Problems
    events: Iterator[yaml.Event]
    anchors: dict[str, Node | None] = field(default_factory=dict)  # None while it is being read
    count: int = 0

    def place(self, event: yaml.Event) -> Place:
        return Place(self.name, event.start_mark.line + 1 if event.start_mark else 0)

    def node(self, event: yaml.Event, depth: int) -> Node:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        place = self.place(event)
        self._count(1, place)
        if depth > MAX_DEPTH:
            self.give_up(place, f"nested more than {MAX_DEPTH} deep", "write it flatter")
        tag = getattr(event, "tag", None)
        if tag and tag != "!":
            self.problems.add(place, "", f"the tag {tag} is not used here", "remove it")
        anchor = getattr(event, "anchor", None)
        if anchor:
            self.anchors[anchor] = None
        made: Node
        if isinstance(event, yaml.MappingStartEvent):
            made = self._table(place, depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            made = self._listing(place, depth)
        else:
            assert isinstance(event, yaml.ScalarEvent)  # noqa: S101 - the grammar has no other
            made = self._scalar(event, place)
        if anchor:
            self.anchors[anchor] = made
        return made

    def _scalar(self, event: yaml.ScalarEvent, place: Place) -> Scalar:
        text: str = event.value
        try:
            text.encode()
        except UnicodeEncodeError:
            self.problems.add(place, "", "half a character (a lone surrogate)", "write it whole")
        if "\0" in text:
            self.problems.add(place, "", "a NUL cannot stand in a recipe", "remove it")
        return Scalar(text, place, quoted=event.style is not None)

    def _listing(self, place: Place, depth: int) -> Listing:
        items: list[Node] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.node(event, depth + 1))
        return Listing(tuple(items), place)

    def _table(self, place: Place, depth: int) -> Table:
        entries: dict[str, Entry] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key_place = self.place(event)
            key = self.node(event, depth + 1)
            value = self.node(next(self.events), depth + 1)
            if not isinstance(key, Scalar):
                self.problems.add(key_place, "", "a key must be text", "write one word")
            elif key.text == "<<" and not key.quoted:
                self.problems.add(
                    key_place, "", "merge keys ('<<') are not used here", "write the keys out"
                )
            elif key.text in entries:
                first = entries[key.text].place.line
                self.problems.add(
                    key_place,
                    key.text,
                    f"is written twice in the same place (first in line {first})",
                    "remove one of them",
                )
            else:
                entries[key.text] = Entry(key.text, key_place, value)
        return Table(tuple(entries.values()), place)

    def _alias(self, event: yaml.AliasEvent) -> Node:
        place = self.place(event)
        if event.anchor not in self.anchors:
            self.give_up(
                place, f"'*{event.anchor}' has no '&{event.anchor}' above it", "write it out"
            )
        node = self.anchors[event.anchor]
        if node is None:
            self.give_up(place, f"'*{event.anchor}' contains itself", "write it out")
        self._count(_size(node), place)
        return node

    def _count(self, nodes: int, place: Place) -> None:
        self.count += nodes
        if self.count > MAX_NODES:
            self.give_up(
                place, f"more than {MAX_NODES} values, aliases unfolded", "write a smaller file"
            )

    def give_up(self, place: Place, message: str, fix: str) -> NoReturn:
        self.problems.add(place, "", message, fix)
        raise _GaveUpError


def load_yaml(text: str, name: str, problems: Problems) -> Node | None:
    """Return the tree of a YAML text; None, with the problem noted, where it has none.

    Without an error in ``problems`` the tree is whole.
    """
    composer = _Composer(name, problems, iter(()))
    try:
        composer.events = yaml.parse(text, Loader=yaml.SafeLoader)
        return _document(composer)
    except _GaveUpError:
        return None
    except yaml.MarkedYAMLError as error:
        _explain(error, name, text, problems)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problems.add(
            Place(name, line), "", f"the control character {error.character:#04x}", "remove it"
        )
    return None


def _document(composer: _Composer) -> Node | None:
    """Return the one document's tree, refusing a second one."""
    tree: Node | None = None
    for event in composer.events:
        if isinstance(event, yaml.DocumentStartEvent):
            if tree is not None:
                composer.give_up(
                    composer.place(event), "a second document ('---') in one file", "remove it"
                )
        elif isinstance(event, yaml.NodeEvent):
            tree = composer.node(event, 0)
    return tree


def _size(node: Node) -> int:
    if isinstance(node, Listing):
        return 1 + sum(_size(item) for item in node.items)
    if isinstance(node, Table):
        return 1 + sum(1 + _size(entry.value) for entry in node.entries)
    return 1


@dataclass(frozen=True, slots=True)
class _Explanation:
    """What a message of the yaml library means for somebody who wrote the file."""

    pattern: str  # of the library's message, with its context in front
    message: str
    fix: str
    at_start: bool = False  # the place to look at is where the construct began


# The first that matches speaks.
_EXPLANATIONS = (
    _Explanation(r"character '\\t'", "a tab; YAML is indented by spaces", "write spaces instead"),
    _Explanation(
        r"quoted scalar .*(end of stream|document separator)",
        "a quote that is never closed",
        "close it at the end of the value",
        at_start=True,
    ),
    _Explanation(
        r"unknown escape character",
        "a backslash inside double quotes",
        "write the value in single quotes",
    ),
    _Explanation(
        r"flow sequence", "a '[' that is never closed", "close it with ']'", at_start=True
    ),
    _Explanation(
        r"flow (mapping|node)", "a '{' that is never closed", "close it with '}'", at_start=True
    ),
    _Explanation(
        r"mapping values are not allowed",
        "a second ': ' in the value, or the line is indented otherwise than its neighbours",
        "write the value in quotes, or align the line",
    ),
    _Explanation(
        r"could not find expected ':'", "a line without ': '", "write 'key: value'", at_start=True
    ),
    _Explanation(
        r"character '(.)' that cannot start", "a value cannot start with {0}", "write it in quotes"
    ),
    _Explanation(r"(alias|anchor) ", "a value cannot start with '*' or '&'", "write it in quotes"),
    _Explanation(
        r"found '<scalar>'",
        "text behind a closing quote or brace",
        "write the whole value in quotes",
    ),
    _Explanation(
        r"found '-'|sequence entries|block collection",
        "a '- ' item that does not belong to the lines around it",
        "indent all items of one list alike, below their key",
    ),
    _Explanation(
        r"<block end>", "the line is indented otherwise than its neighbours", "align it with them"
    ),
    _Explanation(r"document start", "more text behind the end", "remove it"),
)


def _explain(error: yaml.MarkedYAMLError, name: str, text: str, problems: Problems) -> None:
    said = f"{error.context or ''} {error.problem or ''}".strip()
    marks = [mark for mark in (error.problem_mark, error.context_mark) if mark is not None]
    lines = text.splitlines()
    for known in _EXPLANATIONS:
        match = re.search(known.pattern, said)
        if match is None:
            continue
        line = marks[-1 if known.at_start else 0].line
        shown = [f"'{group}'" if group else "" for group in match.groups()] or [""]
        message, fix = known.message.replace("{0}", shown[0]), known.fix
        # The one mistake that only recipes have: {output_dir}/x without quotes is a table to YAML.
        brace = re.search(r":\s+(\{\w+\}\S+)", lines[line] if line < len(lines) else "")
        if brace is not None:
            message = "a value that starts with a brace"
            fix = f'write it in quotes: "{brace.group(1)}"'
        opened = _quote_that_ran_on(text, line)
        if opened is not None:
            # Closed by the next value's own quote: that one's line says nothing.
            line, message, fix = opened, "a quote that is not closed in its line", "close it"
        problems.add(Place(name, line + 1), "", f"not YAML: {message}", fix)
        return
    problems.add(Place(name, marks[0].line + 1 if marks else 1), "", f"not YAML: {said}")


def _quote_that_ran_on(text: str, line: int) -> int | None:
    """Return the line where a quoted value begins that ends in ``line``, if that is another one."""
    opened = None
    with contextlib.suppress(yaml.MarkedYAMLError):
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            if token.start_mark.line > line:
                break
            if not isinstance(token, yaml.ScalarToken) or token.plain or token.style not in "'\"":
                continue
            if token.start_mark.line < token.end_mark.line == line:
                opened = token.start_mark.line
    return opened
