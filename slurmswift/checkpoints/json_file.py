"""Reads a JSON file of a checkpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Dict, Sequence, Tuple

from slurmswift.checkpoints.contents import Contents, DamagedError, opened

# Parsed, it may take 25 times as much memory. Greater ones do occur: the state of a long training
# has its whole log in it.
_MAX_PARSED_BYTES = 32 << 20
_END_BYTES = 1 << 20
_SPACE = b" \t\r\n"
_CLOSING = {b"{": b"}", b"[": b"]"}


def check_json_file(path: Path, *, deep: bool = False) -> None:
    """Raise DamagedError unless the file is JSON; of a very large one only its ends are seen."""
    with opened(path) as file:
        if file.size <= _MAX_PARSED_BYTES:
            _parse(file)
        else:
            _ends(file)
            if deep:
                file.read_through()


def load_object(path: Path) -> Dict[str, object]:
    """Return the file's object, or raise DamagedError, also where it is very large."""
    with opened(path) as file:
        if file.size > _MAX_PARSED_BYTES:
            raise DamagedError(f"larger than {_MAX_PARSED_BYTES} bytes")
        return _object(_parse(file))


def load_numbers(path: Path, names: Sequence[str]) -> Dict[str, object]:
    """Return an object's own numbers of these names, or raise DamagedError.

    Of a very large one they are found near its ends, by the indentation that Trainer writes with.
    """
    with opened(path) as file:
        if file.size <= _MAX_PARSED_BYTES:
            body = _object(_parse(file))
            return {name: body[name] for name in names if name in body}
        found: Dict[str, object] = {}
        for part in _ends(file):
            for name in names:
                match = re.search(rb'\n  "%s": (-?\d{1,18}),?\n' % name.encode(), part)
                if match:
                    found.setdefault(name, int(match.group(1)))
        return found


def _object(value: object) -> Dict[str, object]:
    if not isinstance(value, dict):
        raise DamagedError("damaged: not a JSON object")
    return value


def _parse(file: Contents) -> object:
    if file.size == 0:
        raise DamagedError("empty")
    try:
        value: object = json.loads(file.read(0, file.size).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedError("damaged: not JSON") from error
    return value


def _ends(file: Contents) -> Tuple[bytes, bytes]:
    head = file.read(0, _END_BYTES)
    tail = file.read(file.size - _END_BYTES, _END_BYTES)
    first = head.lstrip(_SPACE)[:1]
    if first not in _CLOSING or tail.rstrip(_SPACE)[-1:] != _CLOSING[first]:
        raise DamagedError("damaged: JSON that does not begin and end as it should")
    hole = file.first_hole()
    if hole is not None:
        raise DamagedError(f"blocks from byte {hole} on were never written")
    return head, tail
