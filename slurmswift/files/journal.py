"""The append-only history of a run: intent before effect, one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path

from slurmswift.atomic import append_line, read_regular

MAX_JOURNAL_BYTES = 256 << 20


def append(path: Path, entry: dict[str, object]) -> None:
    append_line(path, json.dumps(entry, ensure_ascii=True, sort_keys=False))


def read(path: Path) -> tuple[dict[str, object], ...]:
    """Return every entry.

    A torn last line (its writer was killed) is left out; one that a later writer closed, or any
    other damage, stands there as an entry of event ``damaged``: reported, never guessed over.
    """
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
        except ValueError:
            if number == len(lines):
                break
            entry = None
        if not isinstance(entry, dict):
            entry = {"event": "damaged", "line": number}
        entries.append(entry)
    return tuple(entries)
