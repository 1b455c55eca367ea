"""The folder that ``accelerator.save_state()`` writes."""

from __future__ import annotations

from typing import Iterator

from slurmswift.checkpoints.checkpoint import Problem
from slurmswift.checkpoints.dcp import CHECKPOINTS_FOLDER
from slurmswift.checkpoints.files import Files, missing
from slurmswift.checkpoints.format import Expected, Findings, Format, named
from slurmswift.checkpoints.hf_fsdp import (
    folders_of_parts,
    is_sharded,
    missing_of_ranks,
    parts_problems,
)
from slurmswift.checkpoints.shards import missing_shards
from slurmswift.checkpoints.torch_file import check_torch_file

# By automatic_checkpoint_naming checkpoint_N; accelerate's examples say step_N and epoch_N.
_FOLDER = r"(?:checkpoint|step|epoch)[-_](\d{1,18})"
_RANDOM = r"random_states_(\d+)\.pkl"
_FIRST = "random_states_0.pkl"
_PICKLES = r"(?:random_states|custom_checkpoint)_\d+\.pkl"
_WEIGHTS = r"(?:model|pytorch_model)(?:_\d+)?(?:-\d{5}-of-\d{5})?\.(?:safetensors|bin)"
# DeepSpeed's tag; its optimizer's state is in there.
_DEEPSPEED = r"pytorch_model(?:_\d+)?/.*_(?:model|optim)_states\.pt"


def _judge(files: Files, _step: int, expected: Expected) -> Findings:
    problems = [
        *_missing_parts(files, expected),
        *missing_shards(files.path, set(files.names)),
        *(parts_problems(files, expected) if is_sharded(files) else ()),
    ]
    pickles = files.matching(_PICKLES)
    parts = folders_of_parts(files)
    rest = (name for name in sorted(files.names) if name.partition("/")[0] not in parts)
    problems += files.damage(rest, deep=expected.deep)
    for name in pickles:
        problem = files.damage_of(name, check_torch_file, deep=expected.deep)
        problems += [problem] if problem is not None else []
    return Findings(
        problems=tuple(dict.fromkeys(problems)),
        unfinished=_FIRST not in files.names,
        last=_FIRST,
        late=frozenset(pickles),
    )


def _missing_parts(files: Files, expected: Expected) -> Iterator[Problem]:
    deepspeed = bool(files.matching(_DEEPSPEED))
    if not deepspeed and not is_sharded(files):
        if not files.matching(_WEIGHTS):
            yield missing("model", "no file of weights")
        if not expected.weights_only and not files.matching(r"optimizer(?:_\d+)?\.bin"):
            yield missing("optimizer", "no file of the optimizer's state")
    if not expected.weights_only:
        yield from missing_of_ranks(files, "random_states_{}.pkl", expected)


def _looks_like_a_state(files: Files) -> bool:
    """A torn one: its files without those of Hugging Face's Trainer."""
    return not files.matching(r"trainer_state\.json|training_args\.bin") and bool(
        files.matching(r"(?:optimizer|scheduler|sampler)(?:_\d+)?\.bin")
    )


_NOT_IN_EVERY_ONE = (
    "`scheduler.bin`, `sampler.bin` or `custom_checkpoint_N.pkl` removed: not every training has"
    " them, and Accelerate ends with an error where it needs one"
)

FORMAT = Format(
    name="accelerate",
    title="Accelerate's save_state",
    find=named(_FOLDER),
    recognise=lambda files: bool(files.matching(_RANDOM)) or _looks_like_a_state(files),
    judge=_judge,
    below=(CHECKPOINTS_FOLDER,),
    layout="`checkpoint_N/` (or `step_N`, `epoch_N`) with `random_states_R.pkl`; below"
    " `checkpoints/` too",
    last="`random_states_0.pkl`",
    in_progress="no `random_states_0.pkl`",
    only_deep=("changed bytes in the middle of a file of torch",),
    never=(
        "changed bytes in the middle of a safetensors file",
        _NOT_IN_EVERY_ONE,
        "the `random_states_R.pkl` of the last ranks removed, where the number of ranks is unknown",
    ),
)
