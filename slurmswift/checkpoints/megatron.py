"""``iter_0000500/`` of Megatron-LM: torch_dist, or the older one with a folder a model part.

The tracker beside it, latest_checkpointed_iteration.txt, is a hint only: it may name a newer one
that is not whole, and an asynchronous save may write it before the data.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple

from slurmswift.checkpoints.checkpoint import Problem
from slurmswift.checkpoints.contents import DamagedError
from slurmswift.checkpoints.dcp import DATA, METADATA, folder_problems, has_optimizer
from slurmswift.checkpoints.files import Files, damaged, missing
from slurmswift.checkpoints.format import Expected, Findings, Format, named
from slurmswift.checkpoints.json_file import load_object
from slurmswift.checkpoints.stub_pickle import Stub, item_of
from slurmswift.checkpoints.torch_items import load_data_pickle

ITERATION = r"iter_(\d{7,18})"
TRACKER = "latest_checkpointed_iteration.txt"
COMMON, DESCRIPTION = "common.pt", "metadata.json"
_KNOWN_BACKENDS = ("torch_dist", "fully_parallel", "torch_dcp", "fsdp_dtensor")
_RANK_FILE = r"mp_rank_\d{2,}(?:_\d{3,}){0,2}/(?:model_optim_rng|distrib_optim|model_rng|optim)\.pt"
_MODEL, _OPTIMIZER = "model_optim_rng.pt", "distrib_optim.pt"
_MOST_PARTS = 100_000


def judge_distributed(files: Files, step: int, expected: Expected) -> Findings:
    """Judge the folder of an iteration in the format torch_dist."""
    metadata, data_problems = folder_problems(files, deep=expected.deep)
    problems: List[Problem] = list(data_problems)
    common: object = None
    # Megatron-FSDP writes plain torch.distributed.checkpoint, without these two.
    if {COMMON, DESCRIPTION} & files.names or METADATA not in files.names:
        problems += (missing(name) for name in (COMMON, DESCRIPTION) if name not in files.names)
        problems += files.damage(sorted({COMMON, DESCRIPTION} & files.names), deep=expected.deep)
        common, more = common_state(files, step)
        problems += more
        problems += _foreign_backend(files)
    if (
        metadata is not None
        and not expected.weights_only
        and not has_optimizer(metadata)
        and item_of(common, "optimizer") is None
    ):
        problems.append(missing("optimizer", f"{METADATA} lists no state of an optimizer"))
    return Findings(
        problems=tuple(dict.fromkeys(problems)),
        max_steps=max_steps_of(common),
        unfinished=METADATA not in files.names,
        last=METADATA,
        late=frozenset({DESCRIPTION}),
    )


def common_state(files: Files, step: int) -> Tuple[object, List[Problem]]:
    """Return what common.pt holds, and whether it is of this step."""
    if COMMON not in files.names:
        return None, []
    return _state(files, COMMON, step)


def _state(files: Files, name: str, step: int) -> Tuple[object, List[Problem]]:
    try:
        body = load_data_pickle(files.path / name)
    except DamagedError as error:
        return None, [damaged(name, str(error))]
    at = item_of(body, "iteration")
    if type(at) is int and at != step:
        return body, [damaged(name, f"iteration is {at}, the folder's name says {step}")]
    return body, []


def max_steps_of(state: object) -> int:
    """Return where the training is to end, 0 where its arguments do not count iterations."""
    return _argument(state, "train_iters") or 0


def _argument(state: object, name: str) -> Optional[int]:
    arguments = item_of(state, "args")
    value = arguments.get(name) if isinstance(arguments, Stub) else None
    return value if type(value) is int else None


def _foreign_backend(files: Files) -> Iterator[Problem]:
    try:
        backend = load_object(files.path / DESCRIPTION).get("sharded_backend")
    except DamagedError:  # said where every file is judged
        return
    if backend not in _KNOWN_BACKENDS:
        yield damaged(DESCRIPTION, f"a backend that is not known: {backend!r:.40}")


def read_tracker(path: Path) -> Optional[int]:
    """Return the iteration that a tracker file names, None for anything else."""
    try:
        text = path.read_text(encoding="ascii") if path.stat().st_size < 100 else ""  # noqa: PLR2004
    except (OSError, ValueError):
        return None
    return int(text) if text.strip().isdigit() else None


def _judge_legacy(files: Files, step: int, expected: Expected) -> Findings:
    parts: Dict[str, List[str]] = {}
    for name in files.matching(_RANK_FILE):
        folder, _, file = name.partition("/")
        parts.setdefault(folder, []).append(file)
    problems: List[Problem] = []
    state: object = None
    for name in sorted(name for name in files.names if name.endswith(f"/{_MODEL}")):
        state, found_wrong = _state(files, name, step)
        if state is not None:  # each part holds the same arguments
            problems += found_wrong
            break
    wanted = _parts_wanted(state) or tuple(parts)
    distributed = any(_OPTIMIZER in found for found in parts.values()) or _uses(state)
    for part in wanted:
        found = parts.get(part, [])
        if _MODEL not in found:
            problems.append(missing(f"{part}/{_MODEL}"))
        if distributed and not expected.weights_only and _OPTIMIZER not in found:
            problems.append(missing(f"{part}/{_OPTIMIZER}"))
    if not (expected.weights_only or distributed or state is None) and (
        item_of(state, "optimizer") is None
    ):
        problems.append(missing("optimizer", f"no state of it in {_MODEL}"))
    problems += files.damage(sorted(files.names), deep=expected.deep)
    return Findings(problems=tuple(dict.fromkeys(problems)), max_steps=max_steps_of(state))


def _uses(state: object) -> bool:
    arguments = item_of(state, "args")
    return isinstance(arguments, Stub) and arguments.get("use_distributed_optimizer") is True


def _parts_wanted(state: object) -> Tuple[str, ...]:
    """Return the folders by the sizes of the model's parallelism, as Megatron-LM names them."""
    sizes = [
        _argument(state, f"{kind}_model_parallel_size") or 1
        for kind in ("tensor", "pipeline", "expert")
    ]
    if _argument(state, "tensor_model_parallel_size") is None:
        return ()
    tensor, pipeline, expert = sizes
    if min(sizes) < 1 or tensor * pipeline * expert > _MOST_PARTS:
        return ()
    names = []
    for t, p, e in product(range(tensor), range(pipeline), range(expert)):
        name = f"mp_rank_{t:02d}"
        name += f"_{p:03d}" if pipeline > 1 else ""
        name += f"_{e:03d}" if expert > 1 else ""
        names.append(name)
    return tuple(names)


def is_distributed(files: Files) -> bool:
    marks = {COMMON, DESCRIPTION, METADATA}
    return bool(marks & files.names or files.matching(DATA))


FORMAT = Format(
    name="megatron",
    title="Megatron-LM, Megatron-core (torch_dist)",
    find=named(ITERATION),
    recognise=is_distributed,
    judge=judge_distributed,
    layout="`iter_0000500/` with `common.pt`, `metadata.json`, `.metadata` and `__R_K.distcp`;"
    f" `{TRACKER}` beside it is not trusted",
    last="`metadata.json`, right after `.metadata`",
    in_progress="no `.metadata`, or no `metadata.json`",
    only_deep=("changed bytes in the middle of a `.distcp` or of `common.pt`",),
)

LEGACY = Format(
    name="megatron-legacy",
    title="Megatron-LM (legacy)",
    find=named(ITERATION),
    recognise=lambda files: bool(files.matching(_RANK_FILE)),
    judge=_judge_legacy,
    layout="`iter_0000500/mp_rank_TT[_PPP[_EEE]]/` with `model_optim_rng.pt`, and"
    " `distrib_optim.pt` where the optimizer is distributed",
    last=f"`{TRACKER}`, which is not trusted",
    in_progress="a part of the model without its files",
    only_deep=("changed bytes in the middle of a file",),
    never=("the last part removed, where a file does not tell how many there are",),
)
