"""How a value is written so that its reader, a shell or sbatch, gets back exactly that value."""

from __future__ import annotations

import re
import shlex
from typing import Optional

from slurmswift.domain.schema import UnreadableError
from slurmswift.domain.schema_values import one_line

_OPTION = re.compile(r"[a-z][a-z-]*")
_PLAIN = re.compile(r"[A-Za-z0-9_.,:/@%+=-]+")


def shell_word(value: object) -> str:
    """Return ``value`` as one word of the shell; NUL is the one character no shell can hold."""
    text = str(value)
    if "\0" in text:
        raise UnreadableError("a NUL cannot stand in a script")
    return shlex.quote(text)


def directive(option: str, value: Optional[str]) -> str:
    """Return one option as it stands behind ``#SBATCH``.

    sbatch's own parser: quotes group, ``#`` outside them ends the line, and a backslash is eaten
    inside both kinds of quotes together with the meaning of what follows it (seen, 22.05).
    """
    if not _OPTION.fullmatch(option):
        raise UnreadableError(f"{option!r} is not an option's name")
    if value is None:
        return f"--{option}"
    one_line(value)
    if _PLAIN.fullmatch(value):
        return f"--{option}={value}"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'--{option}="{escaped}"'


def filename_pattern(path: str) -> str:
    """Return a folder's path for Slurm's file name patterns, in which ``%`` starts a replacement.

    The log lands where it should (22.05, tests/cluster), though scontrol there shows ``%%j`` as
    ``%1``. UnreadableError for a backslash: one anywhere switches all replacements off.
    """
    if "\\" in path:
        raise UnreadableError(
            f"'{path}': Slurm replaces nothing in a log's path with a backslash in it",
            "put the runs into a folder without one",
        )
    return path.replace("%", "%%")
