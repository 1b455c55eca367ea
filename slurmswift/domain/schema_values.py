"""How a field's text is read: numbers, truth, names, paths. Each says what to write instead."""

from __future__ import annotations

import re
from typing import Callable, Iterable

from slurmswift.domain.schema import NOT_YET, UnreadableError, did_you_mean

_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What ends a line for some reader of it: C0, DEL, C1 and Unicode's own line ends.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
MAX_NAME = 48  # the run id adds 13; a job name, a folder name and a socket path must all bear it


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from ``low`` to ``high``."""

    def read(text: str) -> int:
        if not _WHOLE.fullmatch(text):
            raise UnreadableError(f"'{text}' is not a whole number", f"write {low} to {high}")
        if not low <= int(text) <= high:
            raise UnreadableError(f"{text} is out of range", f"write {low} to {high}")
        return int(text)

    return read


def truth(text: str) -> bool:
    lower = text.lower()
    if lower in _TRUE or lower in _FALSE:
        return lower in _TRUE
    raise UnreadableError(f"'{text}' is neither true nor false", "write true or false")


def choice(have: Iterable[str], later: Iterable[str] = ()) -> Callable[[str], str]:
    """Return a reader of one word out of ``have``; ``later`` are words of a version to come."""
    words = tuple(have)
    coming = tuple(later)

    def read(text: str) -> str:
        if text in words:
            return text
        if text in coming:
            raise UnreadableError(f"'{text}' is {NOT_YET}", f"this one has: {', '.join(words)}")
        raise UnreadableError(f"'{text}' is not known", did_you_mean(text, (*words, *coming)))

    return read


def any_text(text: str) -> str:
    return text


def one_line(text: str) -> str:
    """Return text that can stand in one line: in a directive, a path, a name."""
    found = _CONTROL.search(text)
    if found is None:
        return text
    shown = {"\n": "a line break", "\t": "a tab", "\0": "a NUL"}.get(
        found.group(), f"the control character {ord(found.group()):#04x}"
    )
    raise UnreadableError(f"{shown} cannot stand here", "write it in one line")


def a_name(text: str) -> str:
    """Return a run's name: it becomes part of a folder's and a job's name."""
    if len(text) > MAX_NAME:
        raise UnreadableError(
            f"is {len(text)} characters long", f"write at most {MAX_NAME}: a job's name holds it"
        )
    if not _NAME.fullmatch(text):
        proposed = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._") or "my-run"
        raise UnreadableError(
            f"{text!r} is not a name: letters, digits, '.', '_' and '-', a letter or digit first",
            f"write {proposed}",
        )
    return text


def a_path(text: str) -> str:
    """Return a path, in one line and without what only a shell would replace."""
    if text.startswith("~"):
        raise UnreadableError(f"'{text}': '~' is replaced by shells only", "write the whole path")
    return a_folder(text)


def a_folder(text: str) -> str:
    """Return a path that may start in the user's home: ``~/runs``."""
    one_line(text)
    if not text.strip():
        raise UnreadableError("is empty", "write a path, or remove the line")
    if re.search(r"\$(\{|\(|[A-Za-z_])", text):
        raise UnreadableError(
            f"'{text}': no variable is replaced here", "write the path itself, not the variable"
        )
    return text


def variable_name(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise UnreadableError(
            f"{text!r} is not a variable's name",
            "write letters, digits and '_', not a digit first",
        )
    return text


def an_interface(text: str) -> str:
    """Return a network interface's name, as ``ip link`` shows it (Linux: 15 bytes)."""
    if not re.fullmatch(r"[A-Za-z0-9._:@-]{1,15}", text):
        raise UnreadableError(f"{text!r} is not an interface's name", "see: ip -br link")
    return text
