"""Checkpoints that lie aside: renamed, so that no resume, rotation or glob counts them.

Hugging Face's rotation takes every ``checkpoint-*`` for one to keep, and removes a good one for
it; a later save over a damaged one leaves stale files. A name that begins with a dot does neither.
Nothing is ever removed, and ``restore`` gives a checkpoint its name back.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, List, Tuple

from slurmswift.checkpoints.format import Expected
from slurmswift.checkpoints.formats import formats_for

# By an attempt that resumed from an older one; by a person's `resume --from`.
_BAD = re.compile(r"^\.bad-(?P<name>[^/]+)-\d{3,}$")
_SET_ASIDE = re.compile(r"^\.set-aside-(?:\d+-)?(?P<name>[^/]+)$")


@dataclass(frozen=True)
class Aside:
    """A checkpoint that lies aside, and where it would go back to."""

    path: Path
    home: Path


def name_aside(checkpoint: Path, attempt: int) -> Path:
    """Return the path that an attempt moves a checkpoint to."""
    return checkpoint.with_name(f".bad-{checkpoint.name}-{attempt:03d}")


def list_aside(directory: Path) -> Tuple[Aside, ...]:
    """Return what lies aside below a checkpoint directory, the newest name of each last."""
    found: List[Aside] = []
    for folder in _folders(directory):
        for name in sorted(_names(folder)):
            match = _BAD.match(name) or _SET_ASIDE.match(name)
            if match:
                found.append(Aside(folder / name, folder / match.group("name")))
    return tuple(found)


def restore(aside: Aside) -> bool:
    """Give it its name back; False where something else has that name by now."""
    if os.path.lexists(aside.home):
        return False
    aside.path.rename(aside.home)
    return True


def _folders(directory: Path) -> Iterator[Path]:
    """The directory itself, and the folders below that a format keeps checkpoints in."""
    yield directory
    patterns = {below[0] for form in formats_for(Expected()) for below in form.below if below}
    for name in sorted(_names(directory)):
        path = directory / name
        if any(re.fullmatch(pattern, name) for pattern in patterns) and not path.is_symlink():
            yield path


def _names(folder: Path) -> List[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
    except (FileNotFoundError, NotADirectoryError):
        return []
