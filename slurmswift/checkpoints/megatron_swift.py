"""``checkpoint-N/`` of ms-swift's Megatron trainings: Megatron's iteration in a folder of its own.

Beside it lie safetensors, written after the tracker; a resume reads them only where the iteration
holds no data (--no_save_optim with --save_safetensors).
"""

from __future__ import annotations

from dataclasses import replace
from typing import List, Tuple

from slurmswift.checkpoints.checkpoint import Problem
from slurmswift.checkpoints.files import Files, damaged, missing
from slurmswift.checkpoints.format import Expected, Findings, Format, named
from slurmswift.checkpoints.hf_trainer import CHECKPOINT_N, VERSION_FOLDER
from slurmswift.checkpoints.megatron import (
    COMMON,
    DESCRIPTION,
    ITERATION,
    TRACKER,
    common_state,
    is_distributed,
    judge_distributed,
    max_steps_of,
    read_tracker,
)
from slurmswift.checkpoints.shards import missing_shards

_ARGUMENTS = "args.json"


def _judge(files: Files, step: int, expected: Expected) -> Findings:
    folder = f"iter_{step:07d}"
    inside = files.below(folder)
    if not inside.names:
        return Findings((missing(folder, "missing: the save did not finish"),), unfinished=True)
    if expected.weights_only and inside.names <= {COMMON, DESCRIPTION}:
        findings = _weights_alone(files, inside, step, expected)
    else:
        findings = judge_distributed(inside, step, expected)
        moved = (replace(problem, file=f"{folder}/{problem.file}") for problem in findings.problems)
        findings = replace(findings, problems=tuple(moved))
    return replace(
        findings,
        problems=(*findings.problems, *_tracker_problems(files, step)),
        last=TRACKER,
        # With --async_save the data comes after the tracker; the safetensors always do.
        late=frozenset(name for name in files.names if name != TRACKER),
    )


def _weights_alone(files: Files, inside: Files, step: int, expected: Expected) -> Findings:
    state, problems = common_state(inside, step)
    weights = files.matching(r"[^/]*\.safetensors")
    if not weights:
        problems.append(missing("model", "no file of weights"))
    problems += missing_shards(files.path, {n for n in files.names if "/" not in n})
    problems += files.damage((*weights, *files.matching(r"[^/]*\.index\.json")), deep=expected.deep)
    return Findings(tuple(problems), max_steps=max_steps_of(state))


def _tracker_problems(files: Files, step: int) -> Tuple[Problem, ...]:
    """A resume asks the tracker which iteration to read: it must name the one there is."""
    found: List[Problem] = []
    if TRACKER not in files.names:
        found.append(missing(TRACKER, "missing: the save did not finish"))
    elif read_tracker(files.path / TRACKER) != step:
        found.append(damaged(TRACKER, f"it does not say {step}"))
    if _ARGUMENTS in files.names:
        found += files.damage([_ARGUMENTS])
    else:
        found.append(missing(_ARGUMENTS))
    return tuple(found)


def _recognise(files: Files) -> bool:
    if TRACKER in files.names:
        return True
    iterations = files.matching(ITERATION + "/.*")
    return bool(iterations) and is_distributed(files.below(iterations[0].partition("/")[0]))


FORMAT = Format(
    name="megatron-swift",
    title="Megatron-SWIFT",
    find=named(CHECKPOINT_N),
    recognise=_recognise,
    judge=_judge,
    below=(VERSION_FOLDER,),
    layout=f"`checkpoint-N/` with `args.json`, `{TRACKER}` and `iter_%07d/`",
    last=f"`{TRACKER}`; with `--async_save` the data of `iter_%07d/` comes after it",
    in_progress=f"no `{TRACKER}`, or no `.metadata` in `iter_%07d/`",
    only_deep=("changed bytes in the middle of a `.distcp` or of `common.pt`",),
    ignored=("`*.safetensors`, `config.json`, tokenizer (where `iter_%07d/` has the data)",),
)
