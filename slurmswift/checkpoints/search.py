"""Finds checkpoints below a directory, newest first, and the one to resume from."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Optional, Tuple, Union

from slurmswift.checkpoints.checkpoint import Checkpoint
from slurmswift.checkpoints.format import Expected, Folder, Format
from slurmswift.checkpoints.formats import FORMATS, formats_for
from slurmswift.checkpoints.judging import judge_candidate

AnyPath = Union[str, "os.PathLike[str]"]

_ANYTHING = Expected()
_MAX_STEP = 10**18
_MAX_ENTRIES = 100_000  # of one folder, and candidates of all: an output directory has tens


@dataclass(frozen=True)
class ResumePoint:
    """Where to go on: the newest usable checkpoint, and the newer ones that are not usable."""

    checkpoint: Optional[Checkpoint]
    passed_over: Tuple[Checkpoint, ...]


@dataclass(frozen=True)
class _Candidate:
    path: str
    step: int
    modified: float
    formats: Tuple[Format, ...]


def judge(path: AnyPath, expected: Expected = _ANYTHING) -> Checkpoint:
    """Judge one checkpoint; ValueError where nothing of that name can be one."""
    wanted = Path(path).absolute()
    for candidate in _in_folder(_look(str(wanted.parent)), formats_for(expected), expected):
        if candidate.path == str(wanted):
            judged = judge_candidate(wanted, candidate.step, candidate.formats, expected)
            if judged is not None:
                return judged
    raise ValueError(f"{wanted}: not a checkpoint by its name, such as checkpoint-500")


def list_checkpoints(directory: AnyPath, expected: Expected = _ANYTHING) -> Tuple[Checkpoint, ...]:
    """Judge every checkpoint below ``directory``, newest first."""
    return tuple(_judged(directory, expected))


def newest_whole(checkpoints: Iterable[Checkpoint]) -> Optional[Checkpoint]:
    """Return the first that is whole, of checkpoints newest first."""
    return next((checkpoint for checkpoint in checkpoints if checkpoint.whole), None)


def find_resume_point(directory: AnyPath, expected: Expected = _ANYTHING) -> ResumePoint:
    """Judge from the newest on, and no further than to the first usable one."""
    return resume_point_of(_judged(directory, expected))


def resume_point_of(newest_first: Iterable[Checkpoint]) -> ResumePoint:
    """Return where a resume starts, of checkpoints newest first."""
    passed_over: List[Checkpoint] = []
    for checkpoint in newest_first:
        if checkpoint.usable:
            return ResumePoint(checkpoint, tuple(passed_over))
        passed_over.append(checkpoint)
    return ResumePoint(None, tuple(passed_over))


def _judged(directory: AnyPath, expected: Expected) -> Iterator[Checkpoint]:
    for candidate in _newest_first(str(Path(directory).absolute()), expected):
        judged = judge_candidate(Path(candidate.path), candidate.step, candidate.formats, expected)
        if judged is not None:
            yield judged


def _newest_first(top: str, expected: Expected) -> List[_Candidate]:
    """By step, then by time: two starts of ms-swift can both have a checkpoint-500."""
    forms = formats_for(expected)
    looked: Dict[str, Folder] = {top: _look(top)}
    found: List[_Candidate] = []
    for below in {(), *(below for form in forms for below in form.below)}:
        # A format that has no folders below is not looked for there.
        here = tuple(form for form in forms if below == () or below in form.below)
        for folder in _folders_below(looked, looked[top], below):
            if len(found) < _MAX_ENTRIES:
                found += _in_folder(folder, here, expected)
    return sorted(_merged(found), key=lambda c: (c.step, c.modified, c.path), reverse=True)


def _merged(found: Iterable[_Candidate]) -> List[_Candidate]:
    """One candidate a path and step: different places to look may meet, each for other formats."""
    merged: Dict[Tuple[str, int], _Candidate] = {}
    for candidate in found:
        key = (candidate.path, candidate.step)
        known = merged.get(key)
        formats = {*candidate.formats, *(known.formats if known else ())}
        ordered = tuple(form for form in FORMATS if form in formats)
        merged[key] = replace(candidate, formats=ordered)
    return list(merged.values())


def _folders_below(
    looked: Dict[str, Folder], folder: Folder, below: Tuple[str, ...]
) -> Iterator[Folder]:
    if not below:
        yield folder
        return
    for name in folder.folders:
        if re.fullmatch(below[0], name):
            path = f"{folder.path}/{name}"
            if path not in looked:
                looked[path] = _look(path)
            yield from _folders_below(looked, looked[path], below[1:])


def _in_folder(
    folder: Folder, forms: Tuple[Format, ...], expected: Expected
) -> Iterator[_Candidate]:
    finders: Dict[Tuple[str, int], List[Format]] = {}
    for form in forms:
        for name, step in form.find(folder, expected):
            if 0 <= step <= _MAX_STEP:
                finders.setdefault((name, step), []).append(form)
    for (name, step), finding in finders.items():
        path = f"{folder.path}/{name}"
        try:
            modified = os.lstat(path).st_mtime
        except OSError:  # a rotation has just removed it
            continue
        yield _Candidate(path, step, modified, tuple(finding))


def _look(path: str) -> Folder:
    """List a folder's real folders and files: a link is a hint, and may lead anywhere."""
    folders: List[str] = []
    files: List[str] = []
    try:
        with os.scandir(path) as entries:
            for number, entry in enumerate(entries):
                if number >= _MAX_ENTRIES:
                    break
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    files.append(entry.name)
    except (FileNotFoundError, NotADirectoryError):
        pass
    return Folder(path, tuple(sorted(folders)), tuple(sorted(files)))
