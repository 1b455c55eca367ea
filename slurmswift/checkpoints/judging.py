"""Judges one checkpoint by its format, and adds what holds for every format."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Iterable, List, Optional, Tuple

from slurmswift.checkpoints.checkpoint import Checkpoint, Problem, State
from slurmswift.checkpoints.contents import DamagedError
from slurmswift.checkpoints.files import Files
from slurmswift.checkpoints.format import Expected, Findings, Format

# A save is under way while its files change. Network file systems show a change late: a minute.
QUIET_SECONDS = 120.0

IN_QUARANTINE = "in quarantine: the run failed at the same step each time it went on from it"


def judge_candidate(
    path: Path, step: int, forms: Iterable[Format], expected: Expected
) -> Optional[Checkpoint]:
    """Judge by the first format that recognises it; None where none does, or it is gone."""
    try:
        files = Files.of(path)
    except DamagedError:
        return None
    form = next((form for form in forms if form.recognise(files)), None)
    if form is None:
        return None
    judged = judge_as(form, path, files, step, expected)
    # A rotation that removes it meanwhile makes it look torn: then it is none.
    return judged if judged.whole or os.path.lexists(path) else None


def judge_as(form: Format, path: Path, files: Files, step: int, expected: Expected) -> Checkpoint:
    findings = _findings(form, files, step, expected)
    problems = (*files.problems, *findings.problems)
    checkpoint = Checkpoint(
        path=str(path),
        step=step,
        format=form.name,
        state=_state(problems, unfinished=findings.unfinished),
        problems=tuple(map(str, problems)),
        max_steps=findings.max_steps,
        unfit=_unfit(path, findings, expected),
    )
    return checkpoint if expected.now is None else _with_age(checkpoint, files, findings, expected)


def _findings(form: Format, files: Files, step: int, expected: Expected) -> Findings:
    try:
        return form.judge(files, step, expected)
    except DamagedError as error:
        return Findings((Problem(".", str(error), State.CORRUPT),))
    except Exception as error:  # noqa: BLE001 - one checkpoint must not hide the older ones
        message = f"cannot be judged ({type(error).__name__}: {error!s:.200})"
        return Findings((Problem(".", message, State.CORRUPT),))


def _state(problems: Tuple[Problem, ...], *, unfinished: bool) -> State:
    if not problems:
        return State.COMPLETE
    # The last file of a save is not there: a torn file beside it is what a cut-off save leaves.
    if unfinished or all(problem.state is State.INCOMPLETE for problem in problems):
        return State.INCOMPLETE
    return State.CORRUPT


def _unfit(path: Path, findings: Findings, expected: Expected) -> str:
    kept_out = {os.path.realpath(item) for item in expected.quarantine}
    return IN_QUARANTINE if os.path.realpath(path) in kept_out else findings.unfit


def _with_age(
    checkpoint: Checkpoint, files: Files, findings: Findings, expected: Expected
) -> Checkpoint:
    """Add age and size, and tell a save under way by them."""
    assert expected.now is not None  # noqa: S101 - for the type checker; the caller looked
    stats = files.stats()
    newest = max((status.st_mtime for status in stats.values()), default=0.0)
    size = sum(status.st_size for status in stats.values())
    checkpoint = replace(checkpoint, changed=newest, bytes=size)
    if abs(expected.now - newest) > QUIET_SECONDS:
        return checkpoint
    if not checkpoint.whole:
        return replace(checkpoint, state=State.WRITING)
    # Saved over an older one of the same name: all is there, and only the times tell.
    last = stats.get(findings.last)
    over: List[str] = []
    if last is not None:
        over = sorted(
            name
            for name, status in stats.items()
            if status.st_mtime > last.st_mtime and name not in findings.late
        )
    if not over:
        return checkpoint
    message = f"{over[0]}: newer than {findings.last}, which a save writes last"
    return replace(checkpoint, state=State.WRITING, problems=(message,))
