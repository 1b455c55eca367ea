"""`submit` and `render`: their arguments read already, by typer or without it (cli/direct.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from slurmswift.app import submit as use
from slurmswift.cli import output
from slurmswift.cli.tools import make_tools
from slurmswift.errors import Problem


def submit_recipe(
    recipe: Path,
    *,
    sets: Sequence[str] = (),
    profile: Path | None = None,
    dry_run: bool = False,
    watch: bool = False,
    as_json: bool = False,
) -> int:
    """Submit a recipe and say how to go on; return the exit status."""
    tools = make_tools()
    request = use.Request(recipe, tuple(sets), profile)
    if dry_run:
        prepared = use.prepare(request, tools, cluster=tools.slurm.cluster_name())
        _warn_all(prepared.warnings)
        output.say(prepared.script.text.rstrip("\n"))
        return 0
    done = use.submit(request, tools)
    _warn_all(done.warnings)
    _tell(done, as_json=as_json)
    if watch:
        from slurmswift.cli import watching  # noqa: PLC0415 - the rules of the diagnosis with it

        return watching.watch_until_over(tools, done.run_id)
    if done.watcher is None:
        output.warn(
            "nobody is watching: a failure will not be acted upon. Start `slurmswift watch`, or put"
            " `slurmswift watch --once` into cron or scrontab (README, What happens at night)"
        )
    elif not as_json:
        output.say(f"  watched by {done.watcher}")
    return 0


def _tell(done: use.Submitted, *, as_json: bool) -> None:
    if as_json:
        output.say_json(
            {
                "run_id": done.run_id,
                "run_dir": str(done.run_dir),
                "job_id": done.job_id,
                "attempt": 1,
                "script": str(done.script),
                "watched_by": done.watcher,
            }
        )
        return
    output.say(f"run {done.run_id}, job {done.job_id}")
    output.say(f"  directory  {done.run_dir}")
    output.say(f"  log        slurmswift logs -f {done.run_id}")
    output.say(f"  state      slurmswift status {done.run_id}")
    output.say(f"  stop       slurmswift stop {done.run_id}")


def render_recipe(
    recipe: Path,
    *,
    folder: Path | None = None,
    sets: Sequence[str] = (),
    profile: Path | None = None,
    as_json: bool = False,
) -> int:
    """Print a recipe's script, or write it with all that goes with it; return the exit status."""
    tools = make_tools()
    prepared = use.prepare(use.Request(recipe, tuple(sets), profile), tools, cluster="unsubmitted")
    _warn_all(prepared.warnings)
    if folder is not None:
        use.write_rendered(prepared, folder)
    if as_json:
        body = {"script": prepared.script.text, "digest": prepared.script.digest}
        output.say_json({**body, "folder": None if folder is None else str(folder)})
    elif folder is not None:
        output.say(f"wrote {folder}: {', '.join(sorted(prepared.files))}")
    else:
        output.say(prepared.script.text.rstrip("\n"))
    return 0


def _warn_all(warnings: Iterable[Problem]) -> None:
    for warning in warnings:
        output.warn(str(warning))
