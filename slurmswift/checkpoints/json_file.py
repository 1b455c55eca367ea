"""Reads a JSON file of a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict

from slurmswift.checkpoints.contents import DamagedError, opened

# A tokenizer of a quarter of a million words is about 20 MB.
_MAX_BYTES = 512 << 20


def check_json_file(path: Path, *, deep: bool = False) -> None:  # noqa: ARG001
    """Raise DamagedError unless the file is JSON."""
    _load(path)


def load_object(path: Path) -> Dict[str, object]:
    """Return the file's object, or raise DamagedError."""
    value = _load(path)
    if not isinstance(value, dict):
        raise DamagedError("damaged: not a JSON object")
    return value


def _load(path: Path) -> object:
    with opened(path) as file:
        if file.size == 0:
            raise DamagedError("empty")
        if file.size > _MAX_BYTES:
            raise DamagedError(f"larger than {_MAX_BYTES} bytes")
        data = file.read(0, file.size)
    try:
        value: object = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedError("damaged: not JSON") from error
    return value
