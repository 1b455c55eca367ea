"""The directory ``checkpoint-N`` as Hugging Face's Trainer writes it, and trainings like it.

Its files are written straight into the folder, trainer_state.json last; a save that was cut off
therefore leaves a folder of the right name. What the format cannot show is not claimed: a change
in the middle of a safetensors file, and another rank's absent file where nobody says how many.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Iterator, List, Tuple

from slurmswift.checkpoints.checkpoint import Problem
from slurmswift.checkpoints.contents import DamagedError, opened
from slurmswift.checkpoints.files import Files, damaged, missing
from slurmswift.checkpoints.format import Expected, Findings, Format, named
from slurmswift.checkpoints.json_file import load_object
from slurmswift.checkpoints.shards import missing_shards

# Only the bare name: checkpoint-10-merged, checkpoint-10.bad and the like are no resume points.
CHECKPOINT_N = r"checkpoint-(\d{1,18})"
# ms-swift puts each start's checkpoints into a folder of its own, v0-20250101-120000.
VERSION_FOLDER = (r"v\d+-.*",)

STATE_FILE = "trainer_state.json"
_SAVE_IN_PROGRESS = "checkpoint-is-incomplete.txt"  # transformers' just-in-time checkpoint
_TRAINER_MARK = "training_args.bin"
_ARGUMENTS = "args.json"  # ms-swift's own
_TAG_FILE = "latest"
_MAX_TAG_BYTES = 4096
_MAX_RANKS = 1_000_000
_MOST_SHOWN = 20

_WEIGHTS = re.compile(
    r"^(model|pytorch_model|adapter_model|adapter).*\.(safetensors|bin|pt|pth)$"
    r"|.*_model_states\.pt$"  # DeepSpeed, below global_stepN/
)
_OPTIMIZER = re.compile(r"^optimizer.*\.(pt|pth|bin)$|.*_optim_states\.pt$")


def judge(files: Files, step: int, expected: Expected) -> Findings:
    """Look at every file that a resume reads."""
    max_steps, problems = _max_steps(files, step)
    problems += _missing_parts(files)
    problems += _missing_of_ranks(files, expected)
    problems += _stale_tag(files)
    problems += missing_shards(files.path, set(files.names))
    problems += files.damage(sorted(files.names - {STATE_FILE}), deep=expected.deep)
    return Findings(
        problems=tuple(problems),
        max_steps=max_steps,
        unfinished=STATE_FILE not in files.names,
        last=STATE_FILE,
        late=frozenset(files.matching(r"rng_state_\d+\.pth")),
    )


def _max_steps(files: Files, step: int) -> Tuple[int, List[Problem]]:
    """Where the training is to end, 0 where its state file does not say."""
    if STATE_FILE not in files.names:
        return 0, [missing(STATE_FILE, "missing: the save did not finish")]
    try:
        body = load_object(files.path / STATE_FILE)
    except DamagedError as error:
        return 0, [damaged(STATE_FILE, str(error))]
    at, most = body.get("global_step"), body.get("max_steps")
    if type(at) is not int or at != step:
        message = f"global_step is {at!r:.40}, the folder's name says {step}"
        return 0, [damaged(STATE_FILE, message)]
    return most if type(most) is int else 0, []


def _missing_parts(files: Files) -> Iterator[Problem]:
    paths = [PurePath(name) for name in files.names]
    names = {path.name for path in paths}
    if _SAVE_IN_PROGRESS in names:
        yield missing(_SAVE_IN_PROGRESS, "the save did not finish")
    if not any(map(_WEIGHTS.match, names)):
        yield missing("model", "no file of weights")
    # A resume without it goes on silently with a fresh optimizer: a worse model, and no message.
    if not any(map(_OPTIMIZER.match, names)) and not any(
        "optimizer" in str(path.parent) for path in paths
    ):
        yield missing("optimizer", "no file of the optimizer's state")
    # Trainer writes the two together, and takes a fresh schedule as silently.
    if {"optimizer.pt", _TRAINER_MARK} <= names and "scheduler.pt" not in names:
        yield missing("scheduler.pt")


def _missing_of_ranks(files: Files, expected: Expected) -> Iterator[Problem]:
    """Each rank of a distributed run leaves its random state; one alone leaves rng_state.pth."""
    ranks = _saved_by(files) or expected.world_size or 0
    if ranks <= 1 or expected.weights_only or _TRAINER_MARK not in files.names:
        return
    wanted = [f"rng_state_{rank}.pth" for rank in range(ranks)]
    lacking = [name for name in wanted if name not in files.names]
    for name in lacking[:_MOST_SHOWN]:
        yield missing(name, f"missing: {ranks} ranks saved, and each leaves its own")


def _saved_by(files: Files) -> int:
    """How many ranks ms-swift says that it had; 0 where it does not say."""
    if _ARGUMENTS not in files.names:
        return 0
    try:
        ranks = load_object(files.path / _ARGUMENTS).get("global_world_size")
    except DamagedError:  # reported where every file is judged
        return 0
    return ranks if type(ranks) is int and 0 < ranks <= _MAX_RANKS else 0


def _stale_tag(files: Files) -> Iterator[Problem]:
    """DeepSpeed's ``latest`` names the folder that a load goes to."""
    if _TAG_FILE not in files.names:
        return
    try:
        with opened(files.path / _TAG_FILE) as file:
            tag = file.read(0, min(file.size, _MAX_TAG_BYTES)).decode("utf-8", "replace").strip()
    except DamagedError as error:
        yield damaged(_TAG_FILE, str(error))
        return
    if tag not in files.folders():
        yield damaged(_TAG_FILE, f"names {tag!r:.60}, and there is nothing of that name")


FORMAT = Format(
    name="hf-trainer",
    title="Hugging Face Trainer, ms-swift",
    find=named(CHECKPOINT_N),
    recognise=lambda _files: True,  # every checkpoint-N that no other format claims
    judge=judge,
    below=(VERSION_FOLDER,),
    layout="`checkpoint-N/`",
    last="`trainer_state.json`",
)
