"""Weights in several files: each one has to be there, and the index that a load starts from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator, List, Set

from slurmswift.checkpoints.checkpoint import Problem, State
from slurmswift.checkpoints.contents import DamagedError
from slurmswift.checkpoints.json_file import load_object

_SHARD = re.compile(r"^(.+)-\d{5}-of-(\d{5})(\.safetensors|\.bin)$")
_INDEX = ".index.json"


def missing_shards(path: Path, files: Set[str]) -> Iterator[Problem]:
    """Name what is missing, by the numbers in the files' names and by the index."""
    series = {match.groups() for match in map(_SHARD.match, files) if match}
    for stem, total, ending in sorted(series):
        wanted = [f"{stem}-{number:05d}-of-{total}{ending}" for number in range(1, int(total) + 1)]
        for name in [*wanted, f"{stem}{ending}{_INDEX}"]:
            if name not in files:
                yield Problem(name, "missing", State.INCOMPLETE)
    for index in sorted(name for name in files if name.endswith(_INDEX)):
        for name in _listed(path / index):
            if name not in files:
                yield Problem(name, f"missing; {index} lists it", State.INCOMPLETE)


def _listed(index: Path) -> List[str]:
    try:
        weights = load_object(index).get("weight_map")
    except DamagedError:  # reported where every file is judged
        return []
    values = weights.values() if isinstance(weights, dict) else ()
    return sorted({value for value in values if isinstance(value, str)})
