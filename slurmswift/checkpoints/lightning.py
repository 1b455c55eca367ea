"""Lightning's ``.ckpt``: one file, moved to its name when whole; sharded, a folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

from slurmswift.checkpoints.checkpoint import Problem
from slurmswift.checkpoints.contents import DamagedError
from slurmswift.checkpoints.dcp import (
    CHECKPOINTS_FOLDER,
    DATA,
    METADATA,
    folder_problems,
    has_optimizer,
)
from slurmswift.checkpoints.files import Files, damaged, missing
from slurmswift.checkpoints.format import Expected, Findings, Folder, Format
from slurmswift.checkpoints.stub_pickle import item_of
from slurmswift.checkpoints.torch_items import load_data_pickle

_ENDING = ".ckpt"
# ModelCheckpoint's own names: epoch=0-step=500.ckpt; a second one of the name gets -v1.
_STEP_IN_NAME = re.compile(r"(?:.*[-_/ ])?step=(\d{1,18})(?:[-_ ].*)?\.ckpt")
_LOGGED = (r"lightning_logs", r"version_\d+", "checkpoints")
_META = "meta.pt"  # of a sharded one: what is no tensor of model or optimizer
_MARK = "pytorch-lightning_version"
_OPTIMIZER = "optimizer_states"
_MOST_OPENED = 50  # files whose name tells no step: last.ckpt, hpc_ckpt_1.ckpt, a few of one's own


def _find(folder: Folder, _expected: Expected) -> Iterator[Tuple[str, int]]:
    """Names that tell the step; of a few others, what is in them."""
    opened = 0
    files = set(folder.files)
    for name in (*folder.files, *folder.folders):
        if not name.endswith(_ENDING):
            continue
        match = _STEP_IN_NAME.fullmatch(name)
        if match:
            yield name, int(match.group(1))
        elif opened < _MOST_OPENED:
            opened += 1
            path = Path(folder.path, name)
            step = _step_inside(path if name in files else path / _META)
            if step is not None:
                yield name, step


def _step_inside(path: Path) -> Optional[int]:
    try:
        step = item_of(load_data_pickle(path), "global_step")
    except DamagedError:
        return None
    return step if type(step) is int else None


def _judge(files: Files, _step: int, expected: Expected) -> Findings:
    if METADATA in files.names or _META in files.names or files.matching(DATA):
        return _judge_folder(files, expected)
    (name,) = files.names  # recognised as one
    problems = list(files.damage([name], deep=expected.deep))
    if not problems:
        problems += _state_problems(files, name, expected, sharded=False)
    return Findings(tuple(problems), last=name)


def _judge_folder(files: Files, expected: Expected) -> Findings:
    metadata, found = folder_problems(files, deep=expected.deep)
    problems = list(found)
    if metadata is not None and not expected.weights_only and not has_optimizer(metadata):
        problems.append(missing("optimizer", f"{METADATA} lists no state of an optimizer"))
    if _META in files.names:
        torn = list(files.damage([_META], deep=expected.deep))
        problems += torn or _state_problems(files, _META, expected, sharded=True)
    else:
        problems.append(missing(_META))
    return Findings(tuple(problems), unfinished=not {METADATA, _META} <= files.names, last=_META)


def _state_problems(files: Files, name: str, expected: Expected, *, sharded: bool) -> List[Problem]:
    try:
        state = load_data_pickle(files.path / name)
    except DamagedError as error:
        return [damaged(name, str(error))]
    if item_of(state, _MARK) is None:
        return [damaged(name, "not of Lightning: it has no version of it")]
    if not (sharded or expected.weights_only) and item_of(state, _OPTIMIZER) is None:
        return [missing("optimizer", f"no {_OPTIMIZER} in {name}: saved with the weights only")]
    return []


def _recognise(files: Files) -> bool:
    if len(files.names) == 1 and next(iter(files.names)).endswith(_ENDING):
        return True
    return {METADATA, _META} & files.names != set() or bool(files.matching(DATA))


FORMAT = Format(
    name="lightning",
    title="Lightning",
    find=_find,
    recognise=_recognise,
    judge=_judge,
    below=(CHECKPOINTS_FOLDER, _LOGGED),
    layout="`epoch=E-step=N.ckpt`, also below `checkpoints/` and"
    " `lightning_logs/version_V/checkpoints/`: a file, or a folder with `meta.pt`, `.metadata` and"
    " `__R_K.distcp`. Where the name tells no step (`last.ckpt`), the file does",
    last="the whole file at once; of a folder, `meta.pt`",
    in_progress="a folder without `.metadata` or `meta.pt`",
    only_deep=("changed bytes in the middle of a file",),
    never=("a damaged file whose name tells no step is not listed",),
)
