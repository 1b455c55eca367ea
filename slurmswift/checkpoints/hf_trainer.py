"""The directory ``checkpoint-N`` as Hugging Face's Trainer writes it, and trainings like it.

Its files are written straight into the folder, trainer_state.json last; a save that was cut off
therefore leaves a folder of the right name. What the format cannot show is not claimed: a change
in the middle of a safetensors file, and the absence of another rank's own file.
"""

from __future__ import annotations

import os
import re
from typing import Callable, Dict, Iterator, List, Optional, Set, Tuple

from slurmswift.checkpoints.checkpoint import Checkpoint, Problem, State
from slurmswift.checkpoints.contents import DamagedError
from slurmswift.checkpoints.json_file import check_json_file, load_object
from slurmswift.checkpoints.safetensors_file import check_safetensors_file
from slurmswift.checkpoints.torch_file import check_torch_file

NAME = "hf-trainer"

_STATE_FILE = "trainer_state.json"
_SAVE_IN_PROGRESS = "checkpoint-is-incomplete.txt"  # transformers' just-in-time checkpoint
_TRAINER_MARK = "training_args.bin"

# How a file is judged, by the end of its name.
_CHECKS: Tuple[Tuple[Tuple[str, ...], Callable[[str], None]], ...] = (
    ((".safetensors",), check_safetensors_file),
    ((".pt", ".pth", ".bin"), check_torch_file),
    ((".json",), check_json_file),
)
_WEIGHTS = re.compile(
    r"^(model|pytorch_model|adapter_model|adapter).*\.(safetensors|bin|pt|pth)$"
    r"|.*_model_states\.pt$"  # DeepSpeed, below global_stepN/
)
_OPTIMIZER = re.compile(r"^optimizer.*\.(pt|pth|bin)$|.*_optim_states\.pt$")
_SHARD = re.compile(r"^(.+)-\d{5}-of-(\d{5})\.(safetensors|bin)$")
# Names that a writer uses until a file is whole: a killed save leaves them behind.
_UNFINISHED = re.compile(r"^\.tmp|\.tmp$|^tmp-|~$")

_MAX_FILES = 100_000  # 8 files a rank for ten thousand ranks, and then some


def recognise(path: str) -> bool:
    """Every checkpoint-N is judged by this format until another one claims it."""
    return os.path.isdir(path)


def judge(path: str, step: int) -> Checkpoint:
    """Look at every file that a resume reads."""
    files, problems = _files(path)
    max_steps, found = _max_steps(path, files, step)
    problems += found
    problems += _missing_parts(files)
    problems += _missing_shards(path, files)
    for name in sorted(files):
        problem = _check(path, name)
        if problem is not None and name != _STATE_FILE:
            problems.append(problem)
    return Checkpoint(
        path=path,
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


def _files(path: str) -> Tuple[Set[str], List[Problem]]:
    """Relative names of the regular files below ``path``; links that lead out are not followed."""
    found: Set[str] = set()
    problems: List[Problem] = []
    inside = os.path.realpath(path) + os.sep

    def unreadable(error: OSError) -> None:
        problems.append(
            Problem(str(error.filename), f"cannot be read: {error.strerror}", State.CORRUPT)
        )

    for folder, _, names in os.walk(path, onerror=unreadable):
        for name in names:
            full = os.path.join(folder, name)
            relative = os.path.relpath(full, path)
            if os.path.islink(full) and not os.path.realpath(full).startswith(inside):
                problems.append(
                    Problem(
                        relative, "a link out of the checkpoint, not followed", State.INCOMPLETE
                    )
                )
            elif not _UNFINISHED.search(name):
                found.add(relative)
        if len(found) > _MAX_FILES:
            problems.append(Problem(".", f"more than {_MAX_FILES} files", State.CORRUPT))
            break
    return found, problems


def _max_steps(path: str, files: Set[str], step: int) -> Tuple[int, List[Problem]]:
    """Where the training is to end, 0 where its state file does not say."""
    if _STATE_FILE not in files:
        return 0, [Problem(_STATE_FILE, "missing: the save did not finish", State.INCOMPLETE)]
    try:
        body = load_object(os.path.join(path, _STATE_FILE))
    except DamagedError as error:
        return 0, [Problem(_STATE_FILE, str(error), State.CORRUPT)]
    at, most = body.get("global_step"), body.get("max_steps")
    if type(at) is not int or at != step:
        message = f"global_step is {at!r:.40}, the folder's name says {step}"
        return 0, [Problem(_STATE_FILE, message, State.CORRUPT)]
    return most if type(most) is int else 0, []


def _missing_parts(files: Set[str]) -> Iterator[Problem]:
    names = {os.path.basename(name) for name in files}
    if _SAVE_IN_PROGRESS in names:
        yield Problem(_SAVE_IN_PROGRESS, "the save did not finish", State.INCOMPLETE)
    if not any(map(_WEIGHTS.match, names)):
        yield Problem("model", "no file of weights", State.INCOMPLETE)
    optimizers = {name for name in names if _OPTIMIZER.match(name)}
    # A resume without it goes on silently with a fresh optimizer: a worse model, and no message.
    if not optimizers and not any("optimizer" in os.path.dirname(name) for name in files):
        yield Problem("optimizer", "no file of the optimizer's state", State.INCOMPLETE)
    # Trainer writes the two together, and takes a fresh schedule as silently.
    if "optimizer.pt" in names and _TRAINER_MARK in names and "scheduler.pt" not in names:
        yield Problem("scheduler.pt", "missing", State.INCOMPLETE)


def _missing_shards(path: str, files: Set[str]) -> Iterator[Problem]:
    """Of weights in several files: each one, and the index that a load starts from."""
    series: Dict[Tuple[str, str, str], int] = {}
    for name in files:
        match = _SHARD.match(name)
        if match:
            stem, total, ending = match.groups()
            series[(stem, total, ending)] = int(total)
    for (stem, total, ending), count in sorted(series.items()):
        for number in range(1, min(count, _MAX_FILES) + 1):
            shard = f"{stem}-{number:05d}-of-{total}.{ending}"
            if shard not in files:
                yield Problem(shard, "missing", State.INCOMPLETE)
        if f"{stem}.{ending}.index.json" not in files:
            yield Problem(f"{stem}.{ending}.index.json", "missing", State.INCOMPLETE)
    for index in sorted(name for name in files if name.endswith(".index.json")):
        for shard in _listed(os.path.join(path, index)):
            if shard not in files:
                yield Problem(shard, f"missing; {index} lists it", State.INCOMPLETE)


def _listed(index: str) -> List[str]:
    try:
        weights = load_object(index).get("weight_map")
    except DamagedError:  # reported where every file is judged
        return []
    values = weights.values() if isinstance(weights, dict) else ()
    return sorted({value for value in values if isinstance(value, str)})


def _check(path: str, name: str) -> Optional[Problem]:
    for endings, check in _CHECKS:
        if name.endswith(endings):
            try:
                check(os.path.join(path, name))
            except DamagedError as error:
                return Problem(name, str(error), State.CORRUPT)
            return None
    return None
