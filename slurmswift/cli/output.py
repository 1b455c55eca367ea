"""The only writer to a person's terminal: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence

# Log lines, node names and Slurm's words come from others: nothing of them may steer a terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Return text that is safe to show: control characters and direction overrides made visible."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def say(text: str = "") -> None:
    """Print a result."""
    sys.stdout.write(clean(text) + "\n")
    sys.stdout.flush()


def say_json(body: object) -> None:
    sys.stdout.write(json.dumps(body, indent=1) + "\n")
    sys.stdout.flush()


def warn(text: str) -> None:
    """Print a diagnostic."""
    sys.stderr.write(clean(text) + "\n")
    sys.stderr.flush()


def table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns, the first row being the heads."""
    if not rows:
        return
    widths = [max(len(clean(row[i])) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [clean(cell).ljust(width) for cell, width in zip(row, widths, strict=True)]
        say("  ".join(cells).rstrip())
