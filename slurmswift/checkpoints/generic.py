"""Checkpoints that only their recipe knows: by the pattern of their names, and what must be there.

Every file is judged by the ending of its name, as far as that tells a kind.
"""

from __future__ import annotations

import fnmatch
import re
from typing import Iterator, Set, Tuple

from slurmswift.checkpoints.checkpoint import Problem
from slurmswift.checkpoints.dcp import METADATA, folder_problems
from slurmswift.checkpoints.files import Files, damaged, missing
from slurmswift.checkpoints.format import Expected, Findings, Folder, Format


def _find(folder: Folder, expected: Expected) -> Iterator[Tuple[str, int]]:
    pattern = re.compile(expected.pattern.directory)
    for name in (*folder.folders, *folder.files):
        match = pattern.fullmatch(name)
        # A group that took no part, or took something else, tells no step.
        if match and match.groups() and (match.group(1) or "").isdecimal():
            yield name, int(match.group(1))


def _judge(files: Files, _step: int, expected: Expected) -> Findings:
    pattern = expected.pattern
    problems = list(_missing(files, expected))
    described = _described(files)
    for folder in described:
        problems += folder_problems(files, folder, deep=expected.deep)[1]
    problems += files.damage(sorted(files.names), deep=expected.deep)
    problems += _empty_ones(files, expected, {problem.file for problem in problems})
    return Findings(
        tuple(problems),
        unfinished=bool(pattern.sentinel) and pattern.sentinel not in files.names,
        last=pattern.sentinel,
    )


def _missing(files: Files, expected: Expected) -> Iterator[Problem]:
    pattern = expected.pattern
    if pattern.sentinel and pattern.sentinel not in files.names:
        yield missing(pattern.sentinel, "missing: the save did not finish")
    for wanted in pattern.files:
        if not fnmatch.filter(files.names, wanted):
            yield missing(wanted, "no file of that name")
    if not files.names:
        yield missing(".", "no file in it")


def _described(files: Files) -> Tuple[str, ...]:
    """Return the folders that say themselves what is in them; "" for the checkpoint's own."""
    metadata = (name for name in files.names if f"/{name}".endswith(f"/{METADATA}"))
    return tuple(sorted(name[: -len(METADATA)].rstrip("/") for name in metadata))


def _empty_ones(files: Files, expected: Expected, known: Set[str]) -> Iterator[Problem]:
    """Of a file that the recipe asks for, of whatever kind, at least something must be there."""
    for wanted in expected.pattern.files:
        for name in sorted(fnmatch.filter(files.names, wanted)):
            try:
                empty = (files.path / name).stat().st_size == 0
            except OSError:  # gone since it was listed
                empty = True
            if empty and name not in known:
                yield damaged(name, "empty")


FORMAT = Format(
    name="generic",
    title="what the recipe says",
    find=_find,
    recognise=lambda _files: True,
    judge=_judge,
    only_named=True,
    layout="names by a pattern whose first group is the step, a file or a folder",
    last="the recipe's sentinel",
    in_progress="no sentinel",
    only_deep=("changed bytes in the middle of a file of torch",),
    never=("a file removed that the recipe does not ask for", "damage of a file of unknown kind"),
)
