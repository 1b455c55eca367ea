"""Finds the few words in a log that make a line worth reading: where nothing faster is there."""

from __future__ import annotations

from collections import Counter
from typing import AnyStr, Callable, Dict, Generic, List, Sequence, Tuple

# A longer line (a core dump, a progress bar that never ends) is judged by its first part only.
MAX_LINE_BYTES = 8 * 1024

# Given a piece of a log: offsets, ascending, of which each line that holds one of the words has
# at least one.
Finder = Callable[[bytes], Sequence[int]]
# Makes a finder of words. A word holds no newline.
FinderOf = Callable[[Sequence[bytes]], Finder]


def plain_finder(words: Sequence[bytes]) -> Finder:
    """Look for each word in turn.

    bytes.find passes over a gigabyte per second and word; a regular expression of alternatives
    needs three times as long as forty of them.
    """

    def find(data: bytes) -> Sequence[int]:
        found: List[int] = []
        for word in words:
            at = data.find(word)
            while at >= 0:
                found.append(at)
                # One in a line is enough, and a word can stand in it a thousand times.
                far = min(len(data), at + MAX_LINE_BYTES)
                end = data.find(b"\n", at, far)
                end = far if end < 0 else end
                returned = data.find(b"\r", at, end)
                at = data.find(word, max(at + 1, end if returned < 0 else returned))
        return sorted(found)

    return find


_GRAM = 3  # as long as the shortest of the words that rules are found by


class Words(Generic[AnyStr]):
    """Tells which of some hundred words a line holds, in the time of looking for a few.

    Each word stands under three letters of its own that few others have: a line's threes name the
    words that it may hold.
    """

    def __init__(self, words: Sequence[AnyStr]) -> None:
        shared = Counter(gram for word in words for gram in set(_grams(word)))
        under: Dict[AnyStr, List[AnyStr]] = {}
        self._short: Tuple[AnyStr, ...] = tuple(word for word in words if len(word) < _GRAM)
        for word in words:
            if len(word) >= _GRAM:
                under.setdefault(min(_grams(word), key=lambda gram: shared[gram]), []).append(word)
        self._under: Dict[AnyStr, List[AnyStr]] = under

    def held_in(self, line: AnyStr) -> Tuple[AnyStr, ...]:
        """Return the words that the line holds, in no order that means anything."""
        under = self._under
        held = [word for word in self._short if word in line]
        for gram in under.keys() & set(_grams(line)):
            held += [word for word in under[gram] if word in line]
        return tuple(held)


def _grams(text: AnyStr) -> List[AnyStr]:
    return [text[at : at + _GRAM] for at in range(len(text) - _GRAM + 1)]
