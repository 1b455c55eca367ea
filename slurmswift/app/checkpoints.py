"""What checkpoints a folder or a run has, which are whole, and where a resume would start."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurmswift.ages import file_server_now
from slurmswift.app.chronicle import Chronicle
from slurmswift.app.runs import find_run
from slurmswift.app.tools import Tools
from slurmswift.checkpoints import (
    Checkpoint,
    Expected,
    ResumePoint,
    judge,
    list_checkpoints,
    newest_whole,
    resume_point_of,
)
from slurmswift.checkpoints.aside import Aside, list_aside, restore
from slurmswift.checkpoints.contents import DamagedError, opened
from slurmswift.checkpoints.files import Files
from slurmswift.domain.lifecycle import AT_REST
from slurmswift.domain.plan import Plan
from slurmswift.domain.recipe import ONE_A_NODE
from slurmswift.errors import StateError
from slurmswift.files.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything that was found, newest first, and judged."""

    folder: Path
    now: float  # by the clock that the files' times are from, as far as it can be asked
    checkpoints: tuple[Checkpoint, ...]
    aside: tuple[Aside, ...]

    @property
    def resume_point(self) -> ResumePoint:
        return resume_point_of(self.checkpoints)

    @property
    def resume_from(self) -> Checkpoint | None:
        """Where a resume would start; None also where the training is finished."""
        found = self.resume_point.checkpoint
        return None if found is None or found.finished else found

    @property
    def nothing_whole(self) -> bool:
        """There are checkpoints, and none is whole."""
        return bool(self.checkpoints) and newest_whole(self.checkpoints) is None

    def to_json(self) -> dict[str, object]:
        start = self.resume_from
        return {
            "resume_from": None if start is None else start.path,
            "checkpoints": [
                item.to_json() | {"bytes": item.bytes, "changed": item.changed}
                for item in self.checkpoints
            ],
            "aside": [{"path": str(item.path), "home": str(item.home)} for item in self.aside],
        }


@dataclass(frozen=True, slots=True)
class Restored:
    """Checkpoints that lay aside: those that have their names back, and those that cannot."""

    back: tuple[Aside, ...]
    taken: tuple[Aside, ...]  # something else has the name by now


def survey(wanted: str, tools: Tools, *, deep: bool) -> Survey:
    """Judge what ``wanted`` is: a folder of checkpoints, one checkpoint, or a run.

    A path that exists goes before a run of that name. StateError where there is neither.
    """
    run, folder = _place(wanted, tools)
    now = tools.now() if run is None else _clock_of(run.path, tools)
    known = Expected(deep=deep, now=now)
    if run is not None:
        known = expected_of(run, deep=deep, now=now)
    if folder.is_dir():
        found = list_checkpoints(folder, known)
        if found:
            return Survey(folder, now, found, list_aside(folder))
    try:
        return Survey(folder, now, (judge(folder, known),), ())
    except ValueError:
        if os.path.lexists(folder) and not folder.is_dir():
            raise StateError(f"{wanted}: no folder of checkpoints, and no checkpoint") from None
    return Survey(folder, now, (), list_aside(folder))


def expected_of(run: RunDirectory, *, deep: bool = False, now: float | None = None) -> Expected:
    """Return what a run knows of its checkpoints, by its plan and its history."""
    plan = run.read_plan()
    return Expected(
        format=plan.checkpoint_format,
        world_size=_world_size(plan),
        deep=deep,
        now=now,
        quarantine=frozenset(item.path for item in run.read_state().quarantine),
    )


def restore_all(wanted: str, tools: Tools) -> Restored:
    """Give every checkpoint that lies aside its name back; of a run only while it is at rest."""
    run, folder = _place(wanted, tools)
    found = list_aside(folder)
    if run is not None and found:
        state = run.read_state()
        if state.status not in AT_REST:
            raise StateError(
                f"{run.path.name} is {state.status.value}: a checkpoint gets its name back only"
                " while the run is at rest (slurmswift stop)"
            )
        names = [[str(item.path), str(item.home)] for item in found]
        Chronicle(run, state, "checkpoints").note("restored", tools.now(), restored=names)
    back = tuple(item for item in found if restore(item))
    return Restored(back, tuple(item for item in found if item not in back))


def digests(checkpoints: tuple[Checkpoint, ...]) -> Iterator[str]:
    """Return a line for each file of each whole checkpoint, as ``sha256sum --check`` reads it."""
    for checkpoint in checkpoints:
        if checkpoint.whole:
            files = Files.of(Path(checkpoint.path))
            yield from (_digest(files.path / name) for name in sorted(files.names))


def _digest(path: Path) -> str:
    sha = hashlib.sha256()
    try:
        with opened(path) as file:
            for part in file.parts():
                sha.update(part)
    except DamagedError as error:
        raise StateError(f"{path}: {error}") from error
    name = str(path).replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{'' if name == str(path) else chr(92)}{sha.hexdigest()}  {name}"


def _place(wanted: str, tools: Tools) -> tuple[RunDirectory | None, Path]:
    path = Path(wanted).absolute()
    if os.path.lexists(path):
        if not (path / "run.json").is_file():
            return None, path
        run = RunDirectory(path)
    else:
        try:
            run = RunDirectory(find_run(tools.state, wanted).run_dir)
        except StateError as error:
            raise StateError(f"no file or folder of that name, and {error}") from error
    return run, Path(run.read_plan().checkpoint_directory)


def _clock_of(folder: Path, tools: Tools) -> float:
    """The file server's; where nothing can be written, this machine's."""
    try:
        return file_server_now(folder)
    except OSError:
        return tools.now()


def _world_size(plan: Plan) -> int | None:
    """How many ranks will resume; None where only the allocation or the training knows."""
    nodes = plan.sbatch_value("nodes") or ""
    if plan.framework in ONE_A_NODE or not nodes.isdecimal():
        return None
    return int(nodes) * plan.processes_per_node
