"""The fastest way there is here to find words in a log: ripgrep's own search, where installed.

Without the extra ``slurmswift[fast]`` the domain's plain finder does the same, some twenty times
as slowly (decision 13).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from operator import itemgetter

from slurmswift.domain.literals import Finder, plain_finder

# The extra may be missing, or there is no wheel of it for this machine.
IS_FAST = find_spec("ahocorasick_rs") is not None
if IS_FAST:
    from ahocorasick_rs import BytesAhoCorasick, MatchKind

_PIECE = 256 << 10  # stays in a core's cache, and the offsets of a dense piece are few
_start = itemgetter(1)


def fast_finder(words: Sequence[bytes]) -> Finder:
    """Return the compiled search for these words, the plain one where there is none."""
    if not IS_FAST:
        return plain_finder(words)
    search = _compiled(words)
    overlap = max(map(len, words)) - 1

    def find(data: bytes) -> Sequence[int]:
        if len(data) <= _PIECE:
            return [match[1] for match in search(data)]
        found: list[int] = []
        view = memoryview(data)
        for at in range(0, len(data), _PIECE):
            matches = search(view[at : at + _PIECE + overlap])
            found += [at + offset for offset in map(_start, matches)]
        return found

    return find


def _compiled(words: Sequence[bytes]) -> Callable[[bytes | memoryview], list[tuple[int, int, int]]]:
    # Only the leftmost kinds look for several words at once with vector instructions.
    return BytesAhoCorasick(
        list(words), matchkind=MatchKind.LeftmostLongest
    ).find_matches_as_indexes
