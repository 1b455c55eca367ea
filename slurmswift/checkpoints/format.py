"""What a format of checkpoints is. One format is one module, and one entry in formats.py.

To add one:

1. Write ``checkpoints/NAME.py`` with a ``FORMAT = Format(...)`` of three functions.
   ``find``       what in one folder may be such a checkpoint: (name, step) of each. By names, as
                  ``named()`` does it; a file is opened only where no name tells the step.
   ``recognise``  whether a candidate that was found is of this format, by the names of its files.
                  Of several formats that find the same name, the first that says yes judges it.
                  It must say yes to a torn one too, by any file that only this format has.
   ``judge``      everything that is wrong with it, as Findings. It looks into each file that a
                  resume reads, at heads and tails, by the helpers of ``files.py``; it never stats
                  or lists the folder again, never loads anything, and reads a pickle by
                  ``stub_pickle`` only. ``expected.deep`` is for the helpers to mind.
2. Put FORMAT into the table of ``formats.py``, before the more general ones, and its name into
   ``FORMATS`` of ``domain/recipe.py``.
3. ``python docs/generate.py`` prints its row of docs/reference/checkpoints.md.

What every format gets for nothing: links that lead out, folders without end, left-overs of killed
writers, vanished checkpoints, the state from the problems, "being written", quarantine.
A ``judge`` says what it saw; it may raise DamagedError, and nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Callable, FrozenSet, Iterable, Iterator, Optional, Tuple

from slurmswift.checkpoints.checkpoint import Problem
from slurmswift.checkpoints.files import Files

AUTO = "auto"


@dataclass(frozen=True)
class Pattern:
    """What a recipe says of checkpoints whose layout slurmswift does not know (``generic``)."""

    directory: str = r"checkpoint-(\d+)"  # the first group is the step
    sentinel: str = ""  # written last; a relative name
    files: Tuple[str, ...] = ()  # shell patterns: each must match a file


@dataclass(frozen=True)
class Expected:
    """What a run knows of its own checkpoints; the default is what nobody knows anything of."""

    format: str = AUTO
    world_size: Optional[int] = None  # ranks that will resume
    weights_only: bool = False  # a checkpoint without optimizer, scheduler and rng will do
    deep: bool = False  # read every byte
    now: Optional[float] = None  # the file server's time; without it nothing is "being written"
    quarantine: FrozenSet[str] = frozenset()  # paths that are never resumed from
    pattern: Pattern = field(default_factory=Pattern)


@dataclass(frozen=True)
class Findings:
    """What a format's judge saw in one checkpoint."""

    problems: Tuple[Problem, ...] = ()
    max_steps: int = 0  # where the training is to end; 0 where the checkpoint does not say
    # What is written last is not there: torn files are then no damage, but a save cut short.
    unfinished: bool = False
    unfit: str = ""  # whole, and not for this run: "saved by 4 ranks, and ZeRO cannot change that"
    last: str = ""  # the relative name of what this save writes last
    # May be newer than the last one: what other ranks write in their own time.
    late: FrozenSet[str] = frozenset()


Found = Iterable[Tuple[str, int]]  # names in one folder, and their steps


@dataclass(frozen=True)
class Folder:
    """One folder that checkpoints are looked for in: its path, and its entries' names."""

    path: str
    folders: Tuple[str, ...]  # real folders; a link to one is a hint, and may lead out
    files: Tuple[str, ...]  # regular files, links not among them


@dataclass(frozen=True)
class Format:
    """How one framework's checkpoints are found, recognised and judged."""

    name: str  # what a recipe writes, and what is shown
    title: str
    find: Callable[[Folder, Expected], Found]
    recognise: Callable[[Files], bool]
    judge: Callable[[Files, int, Expected], Findings]
    # Folders below the given one that are looked into as well: patterns, one per level.
    below: Tuple[Tuple[str, ...], ...] = ()
    only_named: bool = False  # judged only where the recipe names it, never by ``auto``
    # For docs/reference/checkpoints.md, in Markdown.
    layout: str = ""
    last: str = ""  # what is written last
    in_progress: str = ""  # what a save in progress, or one cut short, looks like
    only_deep: Tuple[str, ...] = ()  # damage that only --deep finds
    never: Tuple[str, ...] = ()  # damage that nothing finds
    ignored: Tuple[str, ...] = ()  # files that a resume does without; their loss is no problem


def named(pattern: str, *, files: bool = False) -> Callable[[Folder, Expected], Found]:
    """Return a ``find`` for folders (or files) of a name whose first group is the step."""
    whole = re.compile(pattern)

    def find(folder: Folder, _expected: Expected) -> Iterator[Tuple[str, int]]:
        for name in folder.files if files else folder.folders:
            match = whole.fullmatch(name)
            if match:
                yield name, int(match.group(1))

    return find
