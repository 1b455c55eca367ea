"""Flash checkpoints of DLRover: saved from memory later, so that only its tracker tells the last.

``dlrover_latest.txt`` beside the folders names the newest step of which every rank's files are
written. What Trainer writes last, trainer_state.json, is written first here.
"""

from __future__ import annotations

import re
from typing import Iterator, List, Tuple

from slurmswift.checkpoints import deepspeed, hf_fsdp, hf_trainer
from slurmswift.checkpoints.checkpoint import Problem
from slurmswift.checkpoints.dcp import DATA, METADATA, folder_problems
from slurmswift.checkpoints.files import Files, missing
from slurmswift.checkpoints.format import Expected, Findings, Folder, Format
from slurmswift.checkpoints.hf_fsdp import missing_of_ranks
from slurmswift.checkpoints.megatron import read_tracker

_TRACKER = "dlrover_latest.txt"
_FOLDER = re.compile(r"(?:checkpoint-)?(\d{1,18})")
_RANK = r"rank_\d+\.pt"
# Whose files these can be: the first that recognises them.
_TRAINERS = (deepspeed.IN_TRAINER, hf_fsdp.FORMAT, hf_trainer.FORMAT)


def _find(folder: Folder, _expected: Expected) -> Iterator[Tuple[str, int]]:
    if _TRACKER in folder.files:
        for name in folder.folders:
            match = _FOLDER.fullmatch(name)
            if match:
                yield name, int(match.group(1))


def _judge(files: Files, step: int, expected: Expected) -> Findings:
    if files.path.name.isdigit():
        inside = Findings(tuple(_of_ranks(files, expected)))
    else:
        form = next(form for form in _TRAINERS if form.recognise(files))
        inside = form.judge(files, step, expected)
    newest = read_tracker(files.path.parent / _TRACKER)
    if newest is not None and step <= newest:
        return Findings(inside.problems, max_steps=inside.max_steps, unfit=inside.unfit)
    said = "no step" if newest is None else str(newest)
    late = missing(_TRACKER, f"says {said}: not every rank had written this one")
    return Findings((late, *inside.problems), max_steps=inside.max_steps, unfinished=True)


def _of_ranks(files: Files, expected: Expected) -> Iterator[Problem]:
    if METADATA in files.names or files.matching(DATA):
        yield from folder_problems(files, deep=expected.deep)[1]
        return
    names: List[str] = [*files.matching(_RANK)]
    if not names:
        yield missing("rank_0.pt")
    # Without sharding the first rank writes alone.
    elif names != ["rank_0.pt"]:
        yield from missing_of_ranks(files, "rank_{}.pt", expected)
    yield from files.damage(sorted(files.names), deep=expected.deep)


FORMAT = Format(
    name="flash",
    title="Flash checkpoints (DLRover; ms-swift's --use_flash_ckpt)",
    find=_find,
    recognise=lambda _files: True,  # the tracker beside it told
    judge=_judge,
    below=(hf_trainer.VERSION_FOLDER,),
    layout=f"`checkpoint-N/` or `N/` (with `rank_R.pt`, or as a DCP folder) beside `{_TRACKER}`",
    last=f"`{_TRACKER}`",
    in_progress=f"`{_TRACKER}` names an older step",
    only_deep=("changed bytes in the middle of a file of torch",),
)
