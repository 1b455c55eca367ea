"""The training's own command line: the user's words, exactly, less what slurmswift must own."""

from __future__ import annotations

import re
import shlex
from typing import List, Optional, Sequence, Tuple

from slurmswift.domain.placeholders import check_placeholders
from slurmswift.domain.schema import (
    Entry,
    Listing,
    Node,
    Place,
    Problems,
    Scalar,
    Table,
    UnreadableError,
    read_scalar,
)
from slurmswift.domain.schema_values import a_path

Words = Tuple[str, ...]

_MODULE = re.compile(r"-m\s+([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)")
_ARGUMENT = re.compile(r"[^\s=\0]+")
# What a shell would have replaced; lower-case names are left alone: patterns and prompts have them.
_UNREPLACED = re.compile(r"\$\{?[A-Z][A-Z0-9_]*\}?")


def read_command(text: str) -> Words:
    """Return what is started: a script's path, or ``-m`` and a module."""
    module = _MODULE.fullmatch(text)
    if module is not None:
        return ("-m", module.group(1))
    if text.startswith("-"):
        raise UnreadableError(
            f"{text!r} starts with a dash", "write the script's path, or -m package.module"
        )
    check_placeholders(a_path(text))
    script = re.match(r"(?:python3?\s+|torchrun\s+)?(\S+\.py)(\s+\S.*)?$", text)
    if script is not None and script.group() != script.group(1):
        fix = f"write command: {script.group(1)}"
        if script.group(2):
            fix += ", and what follows it under launch.arguments"
        raise UnreadableError(f"{text!r} is more than a script's path", fix)
    return (text,)


def read_program(entry: Optional[Entry], problems: Problems) -> Words:
    """Return a program or script and its words: one text, or a list. No shell reads any of it."""
    if entry is None:
        return ()
    key = "launch.command"
    if not isinstance(entry.value, Listing):
        return read_scalar(entry.value, _one_program, problems, key=key) or ()
    words = [_word(item, problems, key=key) for item in entry.value.items]
    if not words:
        problems.add(entry.place, key, "is empty", "write [program, argument]")
    elif words[0] is not None and not _starts_something([word or "" for word in words]):
        problems.add(
            entry.value.items[0].place,
            key,
            f"{words[0]!r} is no program",
            "write the program or script first, or [-m, package.module]",
        )
    return tuple(word for word in words if word is not None)


def _one_program(text: str) -> Words:
    module = _MODULE.fullmatch(text)
    if module is not None:
        return ("-m", module.group(1))
    if text.startswith("-"):
        raise UnreadableError(
            f"{text!r} starts with a dash", "write the program's path, or -m package.module"
        )
    check_placeholders(a_path(text))
    if re.search(r"\s", text):
        raise UnreadableError(
            f"{text!r} is more than a program, and no shell takes it apart",
            f"write its words: [{', '.join(_words_of(text))}]",
        )
    return (text,)


def _words_of(text: str) -> List[str]:
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that is never closed
        words = text.split()
    return [word if re.fullmatch(r"[\w./+=-]+", word) else repr(word) for word in words]


def _starts_something(words: Sequence[str]) -> bool:
    if words[0] == "-m":
        return len(words) > 1 and _MODULE.fullmatch(f"-m {words[1]}") is not None
    return bool(words[0].strip()) and not words[0].startswith("-")


def script_of(command: Words, *, any_program: bool) -> Optional[str]:
    """Return the file that a command starts, as seen from the recipe; None where it is none.

    ``any_program``: a bare name without a suffix is a program for PATH to find.
    """
    if not command or command[0] == "-m":
        return None
    is_path = "/" in command[0] or re.search(r"\.[A-Za-z]\w*$", command[0]) is not None
    return command[0] if is_path or not any_program else None


def read_arguments(entry: Optional[Entry], problems: Problems, *, flag: Optional[str]) -> Words:
    """Return the words that follow the command.

    A table: ``name: value`` becomes ``--name value``, an empty value the bare flag, a list several
    words. A list: words as they stand.
    """
    if entry is None:
        return ()
    path = "launch.arguments"
    node = entry.value
    if isinstance(node, Listing):
        return _verbatim(node, problems, path=path, flag=flag)
    if isinstance(node, Table):
        words: List[str] = []
        for argument in node.entries:
            words += _named(argument, problems, path=path, flag=flag)
        return tuple(words)
    if not node.is_null:
        problems.add(
            node.place, path, "needs names and values", "write 'name: value' lines, or [word, word]"
        )
    return ()


def _verbatim(node: Listing, problems: Problems, *, path: str, flag: Optional[str]) -> Words:
    words = [_word(item, problems, key=path) for item in node.items]
    for item, word in zip(node.items, words):
        if word is not None and _is_resume(word.split("=")[0], flag):
            _refuse_resume(item.place, path, word.split("=")[0], problems)
    return tuple(word for word in words if word is not None)


def _named(entry: Entry, problems: Problems, *, path: str, flag: Optional[str]) -> Words:
    key = f"{path}.{entry.key}"
    if not _ARGUMENT.fullmatch(entry.key):
        problems.add(
            entry.place, key, "is not an argument's name", "write a name without blanks and '='"
        )
        return ()
    name = entry.key if entry.key.startswith("-") else f"--{entry.key}"
    if _is_resume(name, flag):
        _refuse_resume(entry.place, key, entry.key, problems)
        return ()
    node = entry.value
    if isinstance(node, Scalar) and node.is_null:
        return (name,)
    items = node.items if isinstance(node, Listing) else (node,)
    words = [_word(item, problems, key=key) for item in items]
    values = tuple(word for word in words if word is not None)
    # argparse would take a value with a leading dash for the next argument's name.
    if len(values) == 1 and values[0].startswith("-") and name.startswith("--"):
        return (f"{name}={values[0]}",)
    return (name, *values)


def _word(node: Node, problems: Problems, *, key: str) -> Optional[str]:
    if isinstance(node, Table) and len(node.entries) > 1:
        problems.add(node.place, key, "keys cannot stand here", "write JSON as text: '{\"a\": 1}'")
        return None
    return read_scalar(
        node, lambda text: _checked(text, node.place, problems, key=key), problems, key=key
    )


def _checked(text: str, place: Place, problems: Problems, *, key: str) -> str:
    check_placeholders(text)
    variable = _UNREPLACED.search(text)
    if variable is not None:
        problems.warn(
            place,
            key,
            f"{variable.group()} stays as it is: no shell reads it",
            "write the value itself",
        )
    return text


def _is_resume(name: str, flag: Optional[str]) -> bool:
    return flag is not None and name.lstrip("-").replace("-", "_") == flag.lstrip("-").replace(
        "-", "_"
    )


def _refuse_resume(place: Place, path: str, name: str, problems: Problems) -> None:
    problems.add(
        place,
        path,
        f"slurmswift sets --{name.lstrip('-')} itself, from the newest whole checkpoint",
        "remove it; another flag's name goes to checkpoints.flag, and none at all if that is empty",
    )
