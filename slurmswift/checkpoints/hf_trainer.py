"""The directory ``checkpoint-N`` as Hugging Face's Trainer writes it, and trainings like it.

Its files are written straight into the folder, trainer_state.json last; a save that was cut off
therefore leaves a folder of the right name. What the format cannot show is not claimed: a change
in the middle of a safetensors file, and another rank's absent file where nobody says how many.

How many ranks saved is told by ms-swift's args.json, or by training_args.bin. The ranks of the run
that is to resume tell nothing of it: without shards a training may go on with more or fewer.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath
from typing import Iterator, List, Tuple

from slurmswift.checkpoints.checkpoint import Problem
from slurmswift.checkpoints.contents import DamagedError
from slurmswift.checkpoints.files import Files, damaged, missing
from slurmswift.checkpoints.format import Expected, Findings, Format, named
from slurmswift.checkpoints.json_file import load_numbers, load_object
from slurmswift.checkpoints.shards import missing_shards
from slurmswift.checkpoints.stub_pickle import Stub
from slurmswift.checkpoints.torch_items import load_data_pickle

# Only the bare name: checkpoint-10-merged, checkpoint-10.bad and the like are no resume points.
CHECKPOINT_N = r"checkpoint-(\d{1,18})"
# ms-swift puts each start's checkpoints into a folder of its own, v0-20250101-120000.
VERSION_FOLDER = (r"v\d+-.*",)

STATE_FILE = "trainer_state.json"
SCHEDULER = "scheduler.pt"
_SAVE_IN_PROGRESS = "checkpoint-is-incomplete.txt"  # transformers' just-in-time checkpoint
_TRAINER_ARGUMENTS = "training_args.bin"
_SWIFT_ARGUMENTS = "args.json"
_MAX_RANKS = 1_000_000
_MOST_SHOWN = 20

_RANDOM = re.compile(r"rng_state_(\d{1,7})\.pth")
_WEIGHTS = re.compile(r"^(model|pytorch_model|adapter_model|adapter).*\.(safetensors|bin|pt|pth)$")
_ADAPTER = re.compile(r"^adapter_model\.(safetensors|bin)$")
_ADAPTER_SETTINGS = "adapter_config.json"
_OPTIMIZER = re.compile(r"^optimizer.*\.(pt|pth|bin)$")


def judge(files: Files, step: int, expected: Expected) -> Findings:
    """Look at every file that a resume reads."""
    rest = judge_all_but_the_parts(files, step, expected)
    return replace(rest, problems=(*_missing_parts(files, expected), *rest.problems))


def judge_all_but_the_parts(files: Files, step: int, expected: Expected) -> Findings:
    """Judge by Trainer's rules, but do not ask for weights, optimizer and schedule.

    Those have other names where DeepSpeed or FSDP saves them.
    """
    max_steps, problems = _max_steps(files, step)
    if _SAVE_IN_PROGRESS in files.names:
        problems.append(missing(_SAVE_IN_PROGRESS, "the save did not finish"))
    if not expected.weights_only:
        problems += _missing_of_ranks(files)
    problems += missing_shards(files.path, set(files.names))
    problems += files.damage(sorted(files.names - {STATE_FILE}), deep=expected.deep)
    return Findings(
        problems=tuple(problems),
        max_steps=max_steps,
        unfinished=STATE_FILE not in files.names,
        last=STATE_FILE,
        late=frozenset(filter(_RANDOM.fullmatch, files.names)),
    )


def saved_by(files: Files) -> int:
    """How many ranks wrote it, by its own words; 0 where it does not say."""
    if _SWIFT_ARGUMENTS in files.names:
        try:
            return _as_ranks(load_object(files.path / _SWIFT_ARGUMENTS).get("global_world_size"))
        except DamagedError:  # reported where every file is judged
            pass
    if _TRAINER_ARGUMENTS in files.names:
        try:
            arguments = load_data_pickle(files.path / _TRAINER_ARGUMENTS)
        except DamagedError:
            return 0
        state = arguments.get("distributed_state") if isinstance(arguments, Stub) else None
        return _as_ranks(state.get("num_processes") if isinstance(state, Stub) else None)
    return 0


def _as_ranks(value: object) -> int:
    return value if type(value) is int and 0 < value <= _MAX_RANKS else 0


def _max_steps(files: Files, step: int) -> Tuple[int, List[Problem]]:
    """Where the training is to end, 0 where its state file does not say."""
    if STATE_FILE not in files.names:
        return 0, [missing(STATE_FILE, "missing: the save did not finish")]
    try:
        body = load_numbers(files.path / STATE_FILE, ("global_step", "max_steps"))
    except DamagedError as error:
        return 0, [damaged(STATE_FILE, str(error))]
    at, most = body.get("global_step"), body.get("max_steps")
    if type(at) is not int or at != step:
        message = f"global_step is {at!r:.40}, the folder's name says {step}"
        return 0, [damaged(STATE_FILE, message)]
    return most if type(most) is int else 0, []


def _missing_parts(files: Files, expected: Expected) -> Iterator[Problem]:
    paths = [PurePath(name) for name in files.names]
    names = {path.name for path in paths}
    if not any(map(_WEIGHTS.match, names)):
        yield missing("model", "no file of weights")
    # Peft loads no adapter without its settings.
    for path in paths:
        settings = str(path.with_name(_ADAPTER_SETTINGS))
        if _ADAPTER.match(path.name) and settings not in files.names:
            yield missing(settings)
    if expected.weights_only:
        return
    # A resume without it goes on silently with a fresh optimizer: a worse model, and no message.
    if not any(map(_OPTIMIZER.match, names)) and not any(
        "optimizer" in str(path.parent) for path in paths
    ):
        yield missing("optimizer", "no file of the optimizer's state")
    # Trainer writes the two together, and takes a fresh schedule as silently.
    by_trainer = {_TRAINER_ARGUMENTS, _SWIFT_ARGUMENTS} & names
    if by_trainer and "optimizer.pt" in names and SCHEDULER not in names:
        yield missing(SCHEDULER)


def _missing_of_ranks(files: Files) -> Iterator[Problem]:
    """Each rank of a distributed run leaves its random state; one alone leaves rng_state.pth."""
    ranks = saved_by(files)
    if ranks == 1 and "rng_state.pth" not in files.names:
        yield missing("rng_state.pth")
    if ranks == 1:
        return
    seen = {int(match.group(1)) for match in map(_RANDOM.fullmatch, files.names) if match}
    # One that is there shows that those before it were; a made-up one shows nothing.
    most = max([ranks, *(rank + 1 for rank in seen if rank < len(seen) + _MOST_SHOWN)])
    lacking = [rank for rank in range(most) if rank not in seen]
    for rank in lacking[:_MOST_SHOWN]:
        yield missing(f"rng_state_{rank}.pth", f"missing: {most} ranks saved, each leaves its own")


_LAST_RANKS = (
    "an `rng_state_R.pth` of the last ranks removed, where neither `args.json` nor"
    " `training_args.bin` tells how many there were"
)

_SETTINGS = (
    "`config.json`, `generation_config.json`, `training_args.bin`, `args.json`, the tokenizer:"
    " removed"
)

FORMAT = Format(
    name="hf-trainer",
    title="Hugging Face Trainer, ms-swift",
    find=named(CHECKPOINT_N),
    recognise=lambda _files: True,  # every checkpoint-N that no other format claims
    judge=judge,
    below=(VERSION_FOLDER,),
    layout="`checkpoint-N/` with `model.safetensors` (or shards and their index, or"
    " `adapter_model.safetensors`), `optimizer.pt`, `scheduler.pt`, `rng_state*.pth`; below"
    " ms-swift's `vN-.../` too",
    last=f"`{STATE_FILE}`, but for the other ranks' `rng_state_R.pth`",
    in_progress=f"no `{STATE_FILE}`, or a `{_SAVE_IN_PROGRESS}`",
    only_deep=("changed bytes in the middle of a file of torch",),
    never=(
        "changed bytes in the middle of a safetensors file",
        "`scaler.pt` removed, which only some trainings have",
        _LAST_RANKS,
    ),
    ignored=(_SETTINGS, "`README.md`"),
)
