"""The append-only history of a run: intent before effect, one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path

from slurmswift.atomic import append_line, read_regular
from slurmswift.errors import StateError

MAX_JOURNAL_BYTES = 256 << 20


def append(path: Path, entry: dict[str, object]) -> None:
    append_line(path, json.dumps(entry, ensure_ascii=True, sort_keys=False))


def read(path: Path) -> tuple[dict[str, object], ...]:
    """Return every entry. A torn last line (its writer was killed) is left out; any other is damage."""
    try:
        lines = read_regular(path, MAX_JOURNAL_BYTES).split(b"\n")
    except FileNotFoundError:
        return ()
    entries: list[dict[str, object]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            if number == len(lines):
                break
            raise StateError(f"{path}:{number}: damaged journal line: {error}") from error
        if isinstance(entry, dict):
            entries.append(entry)
    return tuple(entries)
