"""The directory ``checkpoint-N`` as Hugging Face's Trainer writes it, and trainings like it.

Its files are written straight into the folder, trainer_state.json last; a save that was cut off
therefore leaves a folder of the right name. What the format cannot show is not claimed: a change
in the middle of a safetensors file, and the absence of another rank's own file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath
from typing import Callable, Iterator, List, Set, Tuple

from slurmswift.checkpoints.checkpoint import Checkpoint, Problem, State
from slurmswift.checkpoints.contents import DamagedError
from slurmswift.checkpoints.json_file import check_json_file, load_object
from slurmswift.checkpoints.safetensors_file import check_safetensors_file
from slurmswift.checkpoints.shards import missing_shards
from slurmswift.checkpoints.torch_file import check_torch_file

NAME = "hf-trainer"

_STATE_FILE = "trainer_state.json"
_SAVE_IN_PROGRESS = "checkpoint-is-incomplete.txt"  # transformers' just-in-time checkpoint
_TRAINER_MARK = "training_args.bin"

# How a file is judged, by the end of its name.
_CHECKS: Tuple[Tuple[Tuple[str, ...], Callable[[Path], None]], ...] = (
    ((".safetensors",), check_safetensors_file),
    ((".pt", ".pth", ".bin"), check_torch_file),
    ((".json",), check_json_file),
)
_WEIGHTS = re.compile(
    r"^(model|pytorch_model|adapter_model|adapter).*\.(safetensors|bin|pt|pth)$"
    r"|.*_model_states\.pt$"  # DeepSpeed, below global_stepN/
)
_OPTIMIZER = re.compile(r"^optimizer.*\.(pt|pth|bin)$|.*_optim_states\.pt$")
# Names that a writer uses until a file is whole: a killed save leaves them behind.
_UNFINISHED = re.compile(r"^\.tmp|\.tmp$|^tmp-|~$")

_MAX_FILES = 100_000  # 8 files a rank for ten thousand ranks, and then some


def recognise(path: Path) -> bool:
    """Every checkpoint-N is judged by this format until another one claims it."""
    return path.is_dir()


def judge(path: Path, step: int) -> Checkpoint:
    """Look at every file that a resume reads."""
    files, problems = _files(path)
    max_steps, found = _max_steps(path, files, step)
    problems += found
    problems += _missing_parts(files)
    problems += missing_shards(path, files)
    for name in sorted(files - {_STATE_FILE}):
        problems += _damage(path, name)
    return Checkpoint(
        path=str(path),
        step=step,
        format=NAME,
        state=_state(files, problems),
        problems=tuple(map(str, problems)),
        max_steps=max_steps,
    )


def _state(files: Set[str], problems: List[Problem]) -> State:
    if not problems:
        return State.COMPLETE
    # The last file of a save is not there: a torn file beside it is what a cut-off save leaves.
    unfinished = _STATE_FILE not in files
    if unfinished or all(problem.state is State.INCOMPLETE for problem in problems):
        return State.INCOMPLETE
    return State.CORRUPT


def _files(path: Path) -> Tuple[Set[str], List[Problem]]:
    """Relative names of the files below ``path``, and of the links that lead out of it."""
    found: Set[str] = set()
    problems: List[Problem] = []

    def unreadable(error: OSError) -> None:
        problems.append(
            Problem(str(error.filename), f"cannot be read: {error.strerror}", State.CORRUPT)
        )

    for folder, _, names in os.walk(path, onerror=unreadable):
        for name in names:
            file = Path(folder, name)
            relative = str(file.relative_to(path))
            if file.is_symlink() and path.resolve() not in file.resolve().parents:
                message = "a link out of the checkpoint, not followed"
                problems.append(Problem(relative, message, State.INCOMPLETE))
            elif not _UNFINISHED.search(name):
                found.add(relative)
        if len(found) > _MAX_FILES:
            problems.append(Problem(".", f"more than {_MAX_FILES} files", State.CORRUPT))
            break
    return found, problems


def _max_steps(path: Path, files: Set[str], step: int) -> Tuple[int, List[Problem]]:
    """Where the training is to end, 0 where its state file does not say."""
    if _STATE_FILE not in files:
        return 0, [Problem(_STATE_FILE, "missing: the save did not finish", State.INCOMPLETE)]
    try:
        body = load_object(path / _STATE_FILE)
    except DamagedError as error:
        return 0, [Problem(_STATE_FILE, str(error), State.CORRUPT)]
    at, most = body.get("global_step"), body.get("max_steps")
    if type(at) is not int or at != step:
        message = f"global_step is {at!r:.40}, the folder's name says {step}"
        return 0, [Problem(_STATE_FILE, message, State.CORRUPT)]
    return most if type(most) is int else 0, []


def _missing_parts(files: Set[str]) -> Iterator[Problem]:
    paths = [PurePath(name) for name in files]
    names = {path.name for path in paths}
    if _SAVE_IN_PROGRESS in names:
        yield Problem(_SAVE_IN_PROGRESS, "the save did not finish", State.INCOMPLETE)
    if not any(map(_WEIGHTS.match, names)):
        yield Problem("model", "no file of weights", State.INCOMPLETE)
    # A resume without it goes on silently with a fresh optimizer: a worse model, and no message.
    if not any(map(_OPTIMIZER.match, names)) and not any(
        "optimizer" in str(path.parent) for path in paths
    ):
        yield Problem("optimizer", "no file of the optimizer's state", State.INCOMPLETE)
    # Trainer writes the two together, and takes a fresh schedule as silently.
    if {"optimizer.pt", _TRAINER_MARK} <= names and "scheduler.pt" not in names:
        yield Problem("scheduler.pt", "missing", State.INCOMPLETE)


def _damage(path: Path, name: str) -> List[Problem]:
    for endings, check in _CHECKS:
        if name.endswith(endings):
            try:
                check(path / name)
            except DamagedError as error:
                return [Problem(name, str(error), State.CORRUPT)]
    return []
