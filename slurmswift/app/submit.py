"""Submits a recipe: checked, rendered, written down, and only then given to Slurm."""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from slurmswift.app import restart
from slurmswift.app.chronicle import Chronicle
from slurmswift.app.tools import Tools
from slurmswift.domain.environment import Account, freeze, requested_of_slurm
from slurmswift.domain.lifecycle import RunStatus
from slurmswift.domain.plan import Plan
from slurmswift.domain.planning import make_plan
from slurmswift.domain.records import SCHEMA
from slurmswift.domain.run import RunState
from slurmswift.domain.setup_script import setup_script
from slurmswift.errors import Problem, SlurmRefusedError, SlurmUnavailableError
from slurmswift.files import run_directory
from slurmswift.files.bundle import node_bundle
from slurmswift.files.recipe_file import read_recipe
from slurmswift.files.run_directory import RunDirectory
from slurmswift.files.state_folder import IndexEntry
from slurmswift.files.templates import Script, render_script, template_folders

_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that a run would consist of; nothing is written or submitted yet."""

    plan: Plan
    script: Script
    recipe_path: Path
    files: dict[str, bytes]
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Submitted:
    """A run that Slurm took."""

    run_id: str
    run_dir: Path
    job_id: str
    script: Path
    watcher: str | None  # who is watching, None where nobody is
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for."""

    recipe: Path
    sets: Sequence[str] = ()
    profile: Path | None = None


def prepare(request: Request, tools: Tools, *, cluster: str) -> Prepared:
    """Read, check, plan and render. RecipeError carries every problem at once."""
    profile_path = request.profile
    if profile_path is None and tools.environ.get("SLURMSWIFT_PROFILE"):
        profile_path = Path(tools.environ["SLURMSWIFT_PROFILE"])
    loaded = read_recipe(request.recipe, sets=tuple(request.sets), profile=profile_path)
    recipe, profile = loaded.recipe, loaded.profile
    recipe_dir = request.recipe.resolve().parent
    run_id = new_run_id(recipe.name, tools.now())
    runs = _runs_folder(recipe.runs or profile.runs, recipe_dir, tools)
    plan = make_plan(
        recipe,
        profile,
        run_id=run_id,
        run_dir=str(runs / run_id),
        recipe_dir=str(recipe_dir),
        cluster=cluster,
        asked_by_shell=requested_of_slurm(tools.environ),
    )
    script = render_script(plan, template_folders(recipe_dir))
    account = pwd.getpwuid(os.getuid())
    environment = freeze(
        tools.environ,
        Account(account.pw_name, account.pw_dir, account.pw_shell),
        recipe.environment.inherit,
    )
    files = {
        "README": run_directory.ABOUT.format(run_id=run_id).encode(),
        "recipe.yaml": request.recipe.read_bytes(),
        "plan.json": _json(plan.to_json()),
        "job.sbatch": script.text.encode(),
        "setup.sh": setup_script(plan).encode(),
        "environment.json": _json(
            {"schema": SCHEMA, "variables": environment, "umask": tools.umask}
        ),
        "node.pyz": node_bundle(),
    }
    return Prepared(plan, script, request.recipe, files, loaded.warnings)


def submit(request: Request, tools: Tools) -> Submitted:
    """Submit a recipe as a new run.

    RecipeError, or SlurmUnavailableError before anything is written: nothing was done.
    SlurmRefusedError: Slurm said no; the run is taken back. SlurmUnavailableError with the run's
    id in it: the run is kept, and the next pass finds out whether its job is in.
    """
    cluster = tools.slurm.cluster_name()
    prepared = prepare(request, tools, cluster=cluster)
    plan = prepared.plan
    run = run_directory.create(Path(plan.run_dir), prepared.files)
    now = tools.now()
    state = RunState(
        run_id=plan.run_id,
        status=RunStatus.PLANNED,
        name=plan.name,
        cluster=cluster,
        epoch=0,
        job_id=None,
        restart_count=0,
        attempt=0,
        job_state=None,
        reason="being submitted",
        submitted_at=now,
    )
    chronicle = Chronicle(run, state, "submit")
    run.write_state(state)
    chronicle.note("planned", now, script=prepared.script.digest, recipe=str(request.recipe))
    # Only a run that can tell its own story enters the index.
    tools.state.add(IndexEntry(plan.run_id, run.path, cluster))
    tools.state.remember_shell(tools.environ)
    try:
        job_id = restart.submit_epoch(chronicle, tools, (), now)
    except SlurmRefusedError:
        tools.state.remove(plan.run_id)
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    except SlurmUnavailableError as error:
        raise SlurmUnavailableError(
            f"{error}\nthe submission of {plan.run_id} is in doubt: the next pass of the watcher"
            " finds out whether the job is in, and submits it if not"
        ) from error
    return Submitted(
        run_id=plan.run_id,
        run_dir=run.path,
        job_id=job_id,
        script=run.script,
        watcher=_watcher(tools.state.watch_folder(cluster)),
        warnings=prepared.warnings,
    )


def _watcher(folder: Path) -> str | None:
    """Return who is watching. Where nobody ever was, filelock need not be imported to tell."""
    if not folder.is_dir():
        return None
    from slurmswift.files.lease import Lease  # noqa: PLC0415

    return Lease(folder).holder()


def write_rendered(prepared: Prepared, folder: Path) -> RunDirectory:
    """Write what would travel with the run into a new folder, for a person to read."""
    return run_directory.create(folder, prepared.files)


def new_run_id(name: str, now: float) -> str:
    """``<name>-<yymmdd>-<5 base32>``: readable, sortable by day, and never the same twice."""
    day = datetime.fromtimestamp(now).astimezone().strftime("%y%m%d")
    return f"{name}-{day}-{''.join(secrets.choice(_BASE32) for _ in range(5))}"


def _runs_folder(chosen: str | None, recipe_dir: Path, tools: Tools) -> Path:
    runs = chosen or tools.environ.get("SLURMSWIFT_RUNS") or "slurmswift-runs"
    return (recipe_dir / Path(runs).expanduser()).absolute()


def _json(body: object) -> bytes:
    return json.dumps(body, indent=1, sort_keys=False).encode() + b"\n"
