"""Weights in several files: each one has to be there, and the index that a load starts from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, Iterator, List, Set

from slurmswift.checkpoints.checkpoint import Problem, State
from slurmswift.checkpoints.contents import DamagedError
from slurmswift.checkpoints.json_file import load_object
from slurmswift.checkpoints.safetensors_file import tensor_names

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
        for name, tensors in sorted(_listed(path / index).items()):
            if name not in files:
                yield Problem(name, f"missing; {index} lists it", State.INCOMPLETE)
            elif name.endswith(".safetensors"):
                yield from _lacking(path, name, tensors, index)


def _lacking(path: Path, name: str, tensors: List[str], index: str) -> Iterator[Problem]:
    """A shard of another save has the right name and size, and other tensors."""
    try:
        there = tensor_names(path / name)
    except DamagedError:  # reported where every file is judged
        return
    absent = next((tensor for tensor in tensors if tensor not in there), None)
    if absent is not None:
        yield Problem(name, f"lacks {absent[:80]!r}, which {index} lists", State.CORRUPT)


def _listed(index: Path) -> Dict[str, List[str]]:
    """Return each shard's tensors."""
    try:
        weights = load_object(index).get("weight_map")
    except DamagedError:  # reported where every file is judged
        return {}
    found: Dict[str, List[str]] = {}
    for tensor, name in weights.items() if isinstance(weights, dict) else ():
        if isinstance(name, str):
            found.setdefault(name, []).append(tensor)
    return found
