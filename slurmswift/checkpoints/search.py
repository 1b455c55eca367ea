"""Finds checkpoints below a directory, newest first, and the one to resume from."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterable, List, Optional, Tuple, Union

from slurmswift.checkpoints import hf_trainer
from slurmswift.checkpoints.checkpoint import Checkpoint

AnyPath = Union[str, "os.PathLike[str]"]

# Only the bare name: checkpoint-10-merged, checkpoint-10.bad and the like are no resume points.
_NAME = re.compile(r"^checkpoint-(\d{1,18})$")
# ms-swift puts each start's checkpoints into a folder of its own, v0-20250101-120000.
_VERSION_FOLDER = re.compile(r"^v\d+-")


@dataclass(frozen=True)
class Format:
    """How one framework's checkpoints are recognised and judged."""

    recognise: Callable[[Path], bool]
    judge: Callable[[Path, int], Checkpoint]


# The first that recognises a directory judges it.
FORMATS: Tuple[Format, ...] = (Format(hf_trainer.recognise, hf_trainer.judge),)


@dataclass(frozen=True)
class ResumePoint:
    """Where to go on: the newest whole checkpoint, and the newer ones that are not whole."""

    checkpoint: Optional[Checkpoint]
    passed_over: Tuple[Checkpoint, ...]


def judge(path: AnyPath) -> Checkpoint:
    """Judge one directory named checkpoint-N."""
    folder = Path(path).absolute()
    match = _NAME.match(folder.name)
    if match is None:
        raise ValueError(f"{folder}: not named checkpoint-N")
    for form in FORMATS:
        if form.recognise(folder):
            return form.judge(folder, int(match.group(1)))
    raise ValueError(f"{folder}: not a directory")


def list_checkpoints(directory: AnyPath) -> Tuple[Checkpoint, ...]:
    """Judge every checkpoint below ``directory``, newest first."""
    return tuple(map(judge, _newest_first(directory)))


def newest_whole(checkpoints: Iterable[Checkpoint]) -> Optional[Checkpoint]:
    """Return the first that is whole, of checkpoints newest first."""
    return next((checkpoint for checkpoint in checkpoints if checkpoint.whole), None)


def find_resume_point(directory: AnyPath) -> ResumePoint:
    """Judge from the newest on, and no further than to the first whole one."""
    passed_over: List[Checkpoint] = []
    for path in _newest_first(directory):
        checkpoint = judge(path)
        if checkpoint.whole:
            return ResumePoint(checkpoint, tuple(passed_over))
        passed_over.append(checkpoint)
    return ResumePoint(None, tuple(passed_over))


def _newest_first(directory: AnyPath) -> List[str]:
    """By step, then by time: two starts of ms-swift can both have a checkpoint-500."""
    found: List[Tuple[int, float, str]] = []
    top = str(Path(directory).absolute())
    for folder in [top, *_version_folders(top)]:
        for entry in _real_folders(folder):
            match = _NAME.match(entry.name)
            if match:
                modified = entry.stat(follow_symlinks=False).st_mtime
                found.append((int(match.group(1)), modified, entry.path))
    return [path for _, _, path in sorted(found, reverse=True)]


def _version_folders(top: str) -> List[str]:
    return [entry.path for entry in _real_folders(top) if _VERSION_FOLDER.match(entry.name)]


def _real_folders(folder: str) -> List[os.DirEntry[str]]:
    """Folders, not links to any: ``last-checkpoint`` and its kind are hints, and may lead out."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
