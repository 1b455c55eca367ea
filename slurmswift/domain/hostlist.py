"""Slurm's host lists: ``node[01-03,7],login`` to names and back."""

from __future__ import annotations

import re
from typing import Dict, List, Sequence, Tuple

_RANGE = re.compile(r"^(\d+)(?:-(\d+))?$")
_NUMBERED = re.compile(r"^(.*?)(\d+)$")

MAX_HOSTS = 65536  # a hostile list must not fill the memory


def expand(text: str) -> Tuple[str, ...]:
    """Return the names of a host list, in its order.

    Slurm's own words for "no nodes" (``None assigned``, ``(null)``) give no names. A list that
    cannot be read raises ValueError.
    """
    text = text.strip()
    if text in ("", "None", "None assigned", "(null)", "n/a"):
        return ()
    names: List[str] = []
    for piece in _split(text):
        names.extend(_expand_piece(piece))
        if len(names) > MAX_HOSTS:
            raise ValueError(f"more than {MAX_HOSTS} hosts in {text[:60]!r}")
    return tuple(names)


def _split(text: str) -> List[str]:
    pieces, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth not in (0, 1):
            raise ValueError(f"not a host list: {text[:60]!r}")
        if character == "," and depth == 0:
            pieces.append(text[start:position])
            start = position + 1
    if depth:
        raise ValueError(f"not a host list: {text[:60]!r}")
    pieces.append(text[start:])
    return [piece for piece in pieces if piece]


def _expand_piece(piece: str) -> List[str]:
    names = [""]
    position = 0
    while position < len(piece):
        if piece[position] != "[":
            end = piece.find("[", position)
            end = len(piece) if end < 0 else end
            names = [name + piece[position:end] for name in names]
            position = end
            continue
        end = piece.index("]", position)
        numbers = _expand_ranges(piece[position + 1 : end])
        if len(names) * len(numbers) > MAX_HOSTS:
            raise ValueError(f"more than {MAX_HOSTS} hosts in {piece[:60]!r}")
        names = [name + number for name in names for number in numbers]
        position = end + 1
    return names


def _expand_ranges(text: str) -> List[str]:
    numbers: List[str] = []
    for part in text.split(","):
        match = _RANGE.match(part)
        if not match:
            raise ValueError(f"not a range of hosts: [{text[:60]}]")
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) - int(first) > MAX_HOSTS:
            raise ValueError(f"more than {MAX_HOSTS} hosts in [{text[:60]}]")
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return numbers


def compress(names: Sequence[str]) -> str:
    """Return a host list for sbatch: sorted, numbered names of one width folded into ranges."""
    groups: Dict[Tuple[str, int], List[int]] = {}
    plain = []
    for name in sorted(set(names)):
        match = _NUMBERED.match(name)
        if match:
            groups.setdefault((match.group(1), len(match.group(2))), []).append(int(match.group(2)))
        else:
            plain.append(name)
    pieces = plain
    for (prefix, width), numbers in sorted(groups.items()):
        ranges = _fold(sorted(numbers), width)
        bare = len(numbers) == 1
        pieces.append(prefix + ranges if bare else f"{prefix}[{ranges}]")
    return ",".join(pieces)


def _fold(numbers: List[int], width: int) -> str:
    ranges: List[List[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(
        str(low).zfill(width)
        if low == high
        else f"{str(low).zfill(width)}-{str(high).zfill(width)}"
        for low, high in ranges
    )
