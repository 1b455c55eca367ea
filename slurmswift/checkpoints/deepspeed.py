"""What DeepSpeed saves: a folder named by its tag, alone or in a ``checkpoint-N`` of Trainer.

Every rank writes its part of the optimizer (ZeRO), and with ZeRO-3 of the weights, in its own time;
``latest`` is written by rank 0 without waiting for the others. So a save cut short may be named by
``latest`` and look whole: how many parts there must be is told by the pickle of a model's part.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from typing import Iterator, Optional, Tuple

from slurmswift.checkpoints import hf_trainer
from slurmswift.checkpoints.checkpoint import Problem
from slurmswift.checkpoints.contents import DamagedError, opened
from slurmswift.checkpoints.dcp import CHECKPOINTS_FOLDER, STEP_FOLDER
from slurmswift.checkpoints.files import Files, damaged, missing
from slurmswift.checkpoints.format import Expected, Findings, Format, named
from slurmswift.checkpoints.stub_pickle import item_of
from slurmswift.checkpoints.torch_items import load_data_pickle

LATEST = "latest"
_MODEL = r"(?:zero_pp_rank_(\d{1,7})_)?mp_rank_(\d{1,7})_model_states\.pt"
# Releases of 2020 had no underscore before the last words.
_OPTIMIZER = r"(?:bf16_|fp16_)?zero_pp_rank_(\d{1,7})_mp_rank_(\d{1,7})_?optim_states\.pt"
# Experts and the layers of a pipeline have files of their own.
_ANY = r"(?:[^/]*_|layer_\d+-model_\d+-)(?:model|optim)_states\.pt"
_OF_ACCELERATE = r"random_states_\d+\.pkl"
_DEFAULT_TAG = re.compile(r"global_step(\d{1,18})")

_MAX_TAG_BYTES = 4096
_MAX_PARTS = 1_000_000
_MOST_SHOWN = 20
_MOST_TRIED = 4


@dataclass(frozen=True)
class _Saved:
    """What a model's part says of the save."""

    dp: int  # ranks that share an optimizer
    mp: int  # parts of the model
    sharded: bool  # ZeRO, or bf16: the optimizer is in files of its own
    has_optimizer: bool
    has_schedule: bool  # DeepSpeed's own, in this file


@dataclass(frozen=True)
class _Part:
    """A file of one rank, by its name."""

    name: str
    dp: Optional[int]  # None: all ranks of its group have the same
    mp: int


@dataclass(frozen=True)
class _Kind:
    """Files of which each rank leaves one, and those that are there."""

    name: str  # {} for the rank among those that share an optimizer, and for the model's part
    parts: Tuple[_Part, ...]

    def missing(self, dp: int, mp: int, prefix: str) -> Iterator[Problem]:
        if all(part.dp is None for part in self.parts) and self.parts:
            dp = 1
        seen = {(part.dp or 0, part.mp) for part in self.parts}
        wanted = ((d, m) for d, m in itertools.product(range(dp), range(mp)) if (d, m) not in seen)
        for d, m in itertools.islice(wanted, _MOST_SHOWN):
            name = prefix + self.name.format(dp=d, mp=m)
            yield missing(name, f"missing: there were {dp * mp} of these")


def judge_tag(
    files: Files, prefix: str, expected: Expected
) -> Tuple[Optional[_Saved], Tuple[Problem, ...], str]:
    """Judge one tag's folder, whose files go by names relative to it.

    Returns what it says of the save, what is missing, and why it does not fit the run.
    """
    models, optimizers = _parts(files, _MODEL), _parts(files, _OPTIMIZER)
    if not models:
        return None, (missing(f"{prefix}mp_rank_00_model_states.pt", "no file of weights"),), ""
    try:
        saved = _read(files, models)
    except DamagedError as error:
        return None, (damaged(f"{prefix}{models[0].name}", str(error)),), ""
    # A part that is there shows that those before it were; a made-up one shows nothing.
    mp = max(saved.mp, *(part.mp + 1 for part in models if part.mp <= len(models) + _MOST_SHOWN))
    if saved.dp * mp > _MAX_PARTS:
        return saved, (damaged(f"{prefix}{models[0].name}", f"says {saved.dp * mp} ranks"),), ""
    problems = list(_Kind(_model_name(models), models).missing(saved.dp, mp, prefix))
    sharded = saved.sharded or bool(optimizers)
    if expected.weights_only:
        pass
    elif sharded:
        problems += _Kind(_optimizer_name(optimizers), optimizers).missing(saved.dp, mp, prefix)
    elif not saved.has_optimizer:
        problems.append(missing(f"{prefix}optimizer", "no file of the optimizer's state"))
    return saved, tuple(problems), _unfit(saved.dp * mp, expected) if sharded else ""


def _parts(files: Files, pattern: str) -> Tuple[_Part, ...]:
    whole = re.compile(pattern)
    found = []
    for match in filter(None, map(whole.fullmatch, sorted(files.names))):
        dp, mp = match.group(1), int(match.group(2))
        found.append(_Part(match.group(0), None if dp is None else int(dp), mp))
    return tuple(found)


def _model_name(parts: Tuple[_Part, ...]) -> str:
    shared = all(part.dp is None for part in parts)
    return ("" if shared else "zero_pp_rank_{dp}_") + "mp_rank_{mp:02d}_model_states.pt"


def _optimizer_name(parts: Tuple[_Part, ...]) -> str:
    start = next((part.name.partition("zero_pp")[0] for part in parts), "")
    return start + "zero_pp_rank_{dp}_mp_rank_{mp:02d}_optim_states.pt"


def _read(files: Files, models: Tuple[_Part, ...]) -> _Saved:
    """Ask the first model's part that tells it."""
    wrong = None
    for part in models[:_MOST_TRIED]:
        try:
            state = load_data_pickle(files.path / part.name)
        except DamagedError as error:
            wrong = wrong or error
            continue
        dp, mp = item_of(state, "dp_world_size"), item_of(state, "mp_world_size")
        if type(dp) is int and type(mp) is int and dp > 0 and mp > 0:
            optimizer = item_of(state, "optimizer")
            return _Saved(
                dp,
                mp,
                sharded=optimizer is None and item_of(state, "param_shapes") is not None,
                has_optimizer=optimizer is not None,
                has_schedule=item_of(state, "lr_scheduler") is not None,
            )
        wrong = wrong or DamagedError("does not say how many ranks saved")
    raise wrong or DamagedError("cannot be read")


def _unfit(ranks: int, expected: Expected) -> str:
    if expected.world_size in (None, ranks):
        return ""
    return (
        f"{ranks} ranks saved and this run has {expected.world_size}: ZeRO's parts are for as many"
        " ranks as saved them, unless DeepSpeed's ds_to_universal.py has converted them"
    )


def _judge_alone(files: Files, _step: int, expected: Expected) -> Findings:
    _, problems, unfit = judge_tag(files, "", expected)
    problems += tuple(files.damage(sorted(files.names), deep=expected.deep))
    return Findings(tuple(dict.fromkeys(problems)), unfit=unfit)


def _judge_in_trainer(files: Files, step: int, expected: Expected) -> Findings:
    rest = hf_trainer.judge_all_but_the_parts(files, step, expected)
    try:
        tag = _tag(files)
    except DamagedError as error:
        return replace(rest, problems=(damaged(LATEST, str(error)), *rest.problems))
    if tag is None:
        problem = missing(LATEST, "missing: it names the folder that a resume loads")
        return replace(rest, problems=(problem, *rest.problems))
    saved, problems, unfit = judge_tag(files.below(tag), f"{tag}/", expected)
    # Trainer writes the schedule unless DeepSpeed has it, and does not look before it loads.
    own = saved is None or saved.has_schedule or expected.weights_only
    if not own and hf_trainer.SCHEDULER not in files.names:
        problems += (missing(hf_trainer.SCHEDULER),)
    return replace(rest, problems=tuple(dict.fromkeys((*problems, *rest.problems))), unfit=unfit)


def _tag(files: Files) -> Optional[str]:
    """Return the folder that ``latest`` names, None where there is no ``latest``."""
    if LATEST not in files.names:
        return None
    with opened(files.path / LATEST) as file:
        tag = file.read(0, min(file.size, _MAX_TAG_BYTES)).decode("utf-8", "replace").strip()
    if not tag or not any(name.startswith(f"{tag}/") for name in files.names):
        raise DamagedError(f"names {tag[:60]!r}, and there is nothing of that name: stale")
    step = _DEFAULT_TAG.fullmatch(tag)
    others = filter(None, map(_DEFAULT_TAG.fullmatch, files.folders()))
    newest = max((int(other.group(1)) for other in others), default=0)
    if step and newest > int(step.group(1)):
        raise DamagedError(f"names {tag!r}, and there is a global_step{newest}: stale")
    return tag


def _is_alone(files: Files) -> bool:
    return hf_trainer.STATE_FILE not in files.names and bool(files.matching(_ANY))


def _is_in_trainer(files: Files) -> bool:
    """A torn one too: by any file that Trainer does not write without DeepSpeed."""
    if files.matching(_OF_ACCELERATE):
        return False
    return LATEST in files.names or bool(files.matching(f"[^/]+/{_ANY}"))


_ONLY_DEEP = ("changed bytes in the middle of a file of torch",)

FORMAT = Format(
    name="deepspeed",
    title="DeepSpeed",
    find=named(STEP_FOLDER),
    recognise=_is_alone,
    judge=_judge_alone,
    below=(CHECKPOINTS_FOLDER,),
    layout="`global_stepN/` (or another tag that ends in its step) with `*_model_states.pt`, and"
    " with ZeRO `*_optim_states.pt` of every rank; `latest` beside it is not trusted",
    last="nothing: every rank writes in its own time",
    in_progress="a rank's file that is cut or missing",
    only_deep=_ONLY_DEEP,
    never=("a file of an expert (MoE) or of a pipeline's layer removed",),
    ignored=("`latest`, `zero_to_fp32.py`, `zero_to_torch.py`",),
)

IN_TRAINER = Format(
    name="hf-deepspeed",
    title="Hugging Face Trainer, ms-swift with DeepSpeed",
    find=named(hf_trainer.CHECKPOINT_N),
    recognise=_is_in_trainer,
    judge=_judge_in_trainer,
    below=(hf_trainer.VERSION_FOLDER,),
    layout="`checkpoint-N/` with `latest` and the folder that it names, one of DeepSpeed's",
    last=hf_trainer.FORMAT.last,
    in_progress=hf_trainer.FORMAT.in_progress,
    only_deep=_ONLY_DEEP,
    never=(*hf_trainer.FORMAT.never, *FORMAT.never),
    ignored=(
        "`model.safetensors` removed: the weights are in DeepSpeed's folder",
        *hf_trainer.FORMAT.ignored,
        "`zero_to_fp32.py`, `zero_to_torch.py`",
    ),
)
