"""``checkpoint-N`` of Hugging Face's Trainer with FSDP: folders of DCP, or two whole files."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import FrozenSet, Iterator, List

from slurmswift.checkpoints import hf_trainer
from slurmswift.checkpoints.checkpoint import Problem
from slurmswift.checkpoints.dcp import METADATA, folder_problems
from slurmswift.checkpoints.files import Files, missing
from slurmswift.checkpoints.format import Expected, Findings, Format, named

_MOST_RANKS, _MOST_NAMED = 100_000, 20
_MODEL = "pytorch_model_fsdp"
_OPTIMIZER = "optimizer"
# One part a model and optimizer: mostly only the first. A local state is a file a rank.
_PART = re.compile(r"(?:pytorch_model_fsdp|optimizer)_\d+/.*")


def parts_problems(files: Files, expected: Expected) -> List[Problem]:
    """Judge the parts that accelerate writes for FSDP, in whichever of its kinds."""
    problems: List[Problem] = []
    for part in sorted(folders_of_parts(files)):
        problems += folder_problems(files, part, deep=expected.deep)[1]
    problems += _missing_parts(files, expected)
    return problems


def folders_of_parts(files: Files) -> FrozenSet[str]:
    """Return the folders of a model or an optimizer that ``.metadata`` describes."""
    return frozenset(name.partition("/")[0] for name in files.names if _PART.fullmatch(name))


def is_sharded(files: Files) -> bool:
    """Whether accelerate's FSDP wrote it."""
    return any(name.startswith(f"{_MODEL}") or _PART.fullmatch(name) for name in files.names)


def _missing_parts(files: Files, expected: Expected) -> Iterator[Problem]:
    model = [name for name in files.names if name.startswith(_MODEL)]
    if not model:
        yield missing(_MODEL, "no weights of FSDP")
    if not expected.weights_only and not any(
        re.fullmatch(r"optimizer(_\d+)?\.bin|optimizer_\d+/.*", name) for name in files.names
    ):
        yield missing(_OPTIMIZER, "no file of the optimizer's state")


def missing_of_ranks(files: Files, name: str, expected: Expected) -> Iterator[Problem]:
    """Name what of the files that each rank writes is not there; ``name`` has {} for the rank."""
    if expected.weights_only:
        return
    before, after = map(re.escape, name.split("{}"))
    matches = (re.fullmatch(f"{before}(\\d+){after}", each) for each in files.names)
    ranks = {int(match.group(1)) for match in matches if match}
    wanted = max([*ranks, (expected.world_size or 1) - 1]) + 1
    # Every rank but the last shows that those before it were there; a made-up one shows nothing.
    absent = sorted(set(range(min(wanted, len(ranks) + _MOST_RANKS))) - ranks)
    for rank in absent[:_MOST_NAMED]:
        yield missing(name.format(rank))


def _judge(files: Files, step: int, expected: Expected) -> Findings:
    parts = folders_of_parts(files)
    inside = frozenset(name for name in files.names if name.partition("/")[0] in parts)
    # Trainer's own files, by Trainer's rules; of the parts it knows nothing.
    own = Files(files.path, files.names - inside)
    rest = hf_trainer.judge_all_but_the_parts(own, step, expected)
    problems = (*rest.problems, *parts_problems(files, expected))
    if not expected.weights_only and hf_trainer.SCHEDULER not in files.names:
        problems += (missing(hf_trainer.SCHEDULER),)
    return replace(rest, problems=tuple(dict.fromkeys(problems)))


def _recognise(files: Files) -> bool:
    # Without FSDP Trainer calls it optimizer.pt.
    whole_optimizer = {"optimizer.bin", hf_trainer.STATE_FILE} <= files.names
    return is_sharded(files) or whole_optimizer


FORMAT = Format(
    name="hf-fsdp",
    title="Hugging Face Trainer, ms-swift with FSDP",
    find=named(hf_trainer.CHECKPOINT_N),
    recognise=_recognise,
    judge=_judge,
    below=(hf_trainer.VERSION_FOLDER,),
    layout="`checkpoint-N/` with `pytorch_model_fsdp_0/` and `optimizer_0/` (folders of"
    " torch.distributed.checkpoint), or `pytorch_model_fsdp.bin` and `optimizer.bin`",
    last="`trainer_state.json`",
    in_progress=f"no `trainer_state.json`, or a part without `{METADATA}`",
    only_deep=("changed bytes in the middle of a file of torch",),
    ignored=("`training_args.bin`",),
)
