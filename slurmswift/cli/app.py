"""The commands (DESIGN.md, section 4): parse, call the use case, print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from slurmswift import __version__
from slurmswift.cli import output
from slurmswift.cli.tools import make_tools
from slurmswift.errors import UsageError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Keeps training runs alive on clusters run by Slurm.",
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, stable and documented.")]
Set = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe.")
]
Profile = Annotated[
    Path | None,
    typer.Option("--profile", help="The cluster's profile (else $SLURMSWIFT_PROFILE)."),
]
Recipe = Annotated[Path, typer.Argument(metavar="RECIPE", help="The recipe, a YAML file.")]
Run = Annotated[
    str, typer.Argument(metavar="RUN", help="A run: its id, the beginning of it, or its name.")
]


@app.callback(invoke_without_command=True)
def root(
    *, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    if version:
        output.say(f"slurmswift {__version__}")
        raise typer.Exit


@app.command()
def submit(
    recipe: Recipe,
    *,
    sets: Set = [],  # noqa: B006 - typer reads the default, nobody writes it
    profile: Profile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and render only.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and watch until it is over.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a recipe, render its script, and submit it as a new run."""
    from slurmswift.cli.submitting import submit_recipe  # noqa: PLC0415 - jinja2 and yaml with it

    status = submit_recipe(
        recipe, sets=sets, profile=profile, dry_run=dry_run, watch=watch, as_json=as_json
    )
    raise typer.Exit(status)


@app.command()
def render(
    recipe: Recipe,
    *,
    folder: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="A new folder for all of it."),
    ] = None,
    sets: Set = [],  # noqa: B006
    profile: Profile = None,
    as_json: Json = False,
) -> None:
    """Print a recipe's script, or write all that would travel with it; nothing is submitted."""
    from slurmswift.cli.submitting import render_recipe  # noqa: PLC0415

    status = render_recipe(recipe, folder=folder, sets=sets, profile=profile, as_json=as_json)
    raise typer.Exit(status)


@app.command()
def check(
    recipe: Recipe,
    *,
    sets: Set = [],  # noqa: B006
    profile: Profile = None,
    as_json: Json = False,
) -> None:
    """Tell everything that is wrong with a recipe at once, and ask sbatch whether it would run."""
    from slurmswift.cli.show_check import show_check  # noqa: PLC0415

    raise typer.Exit(show_check(make_tools(), recipe, tuple(sets), profile, as_json=as_json))


@app.command()
def watch(
    *,
    once: Annotated[bool, typer.Option("--once", help="One pass, for cron and scrontab.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=5.0, help="Seconds between two looks at Slurm.")
    ] = 60.0,
    observe: Annotated[bool, typer.Option("--observe", help="Decide, and do nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Watch over my runs on this cluster: find out why they end, resume what can go on."""
    if observe:
        raise UsageError("watch --observe is not in this version")
    from slurmswift.cli import watching  # noqa: PLC0415 - all rules of the diagnosis come with it

    tools = make_tools()
    status = watching.once(tools, as_json=as_json) if once else watching.loop(tools, interval)
    raise typer.Exit(status)


@app.command()
def status(
    runs: Annotated[
        list[str], typer.Argument(metavar="[RUN]...", help="Default: all my runs.")
    ] = [],  # noqa: B006
    *,
    live: Annotated[bool, typer.Option("--live", help="Ask Slurm now, too.")] = False,
    as_json: Json = False,
) -> None:
    """Show how my runs stand: all of them in a line each, or those named in full."""
    from slurmswift.cli.show import show_status  # noqa: PLC0415

    raise typer.Exit(show_status(make_tools(), tuple(runs), live=live, as_json=as_json))


@app.command()
def why(run: Run, *, as_json: Json = False) -> None:
    """Show the evidence and the rule behind each decision about a run, and what comes next."""
    from slurmswift.cli.show import show_why  # noqa: PLC0415

    show_why(make_tools(), run, as_json=as_json)


@app.command()
def logs(
    run: Run,
    *,
    attempt: Annotated[int | None, typer.Option("--attempt", help="Default: the newest.")] = None,
    rank: Annotated[int | None, typer.Option("--rank", help="One rank's own log.")] = None,
    following: Annotated[bool, typer.Option("-f", "--follow", help="Go on as it grows.")] = False,
    as_json: Json = False,
) -> None:
    """Print the log of a run's newest attempt, or of another one."""
    from slurmswift.app.logs import log_files  # noqa: PLC0415
    from slurmswift.app.runs import find_run  # noqa: PLC0415

    tools = make_tools()
    entry = find_run(tools.state, run)
    files = log_files(entry, attempt=attempt, rank=rank)
    if as_json:
        output.say_json({"run_id": entry.run_id, "files": [str(path) for path in files]})
    else:
        from slurmswift.cli import follow  # noqa: PLC0415

        follow.print_logs(files, entry, following=following, sleep=tools.sleep)


@app.command()
def diagnose(
    what: Annotated[
        str,
        typer.Argument(
            metavar="LOG|RUN|JOBID",
            help="A log (also .gz), a folder of logs, - for standard input, a run, or a job's id.",
        ),
    ],
    *,
    state: Annotated[
        str, typer.Option("--state", metavar="S", help="Slurm's word for the end, as sacct has it.")
    ] = "",
    exit_code: Annotated[
        str, typer.Option("--exit-code", metavar="C", help="sacct's ExitCode: STATUS:SIGNAL.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Name the first cause of a failure, who failed first, and what to do; of any job."""
    from slurmswift.cli.show_diagnosis import show_diagnosis  # noqa: PLC0415 - all rules with it

    show_diagnosis(make_tools(), what, state=state, exit_code=exit_code, as_json=as_json)


@app.command()
def checkpoints(
    what: Annotated[
        str, typer.Argument(metavar="DIR|RUN", help="A folder of checkpoints, or a run.")
    ],
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Read every byte.")] = False,
    digests: Annotated[
        Path | None,
        typer.Option(
            "--digests", metavar="FILE", help="Write sha256sum's lines of all whole ones; --deep."
        ),
    ] = None,
    restore: Annotated[
        bool, typer.Option("--restore", help="Give those that lie aside their names back.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what checkpoints are there, which are whole, and where a resume would start."""
    from slurmswift.cli import show_checkpoints as show  # noqa: PLC0415 - all formats with it

    if restore and (deep or digests):
        raise UsageError("--restore only renames: leave out --deep and --digests")
    if restore:
        raise typer.Exit(show.show_restored(make_tools(), what, as_json=as_json))
    status = show.show_checkpoints(make_tools(), what, deep=deep, record=digests, as_json=as_json)
    raise typer.Exit(status)


@app.command()
def stop(run: Run, *, as_json: Json = False) -> None:
    """Cancel a run for good: it is never resumed by itself."""
    from slurmswift.app.runs import find_run  # noqa: PLC0415
    from slurmswift.app.stop import stop as use  # noqa: PLC0415

    tools = make_tools()
    done = use(find_run(tools.state, run), tools)
    if as_json:
        body = {"run_id": done.run_id, "job_id": done.job_id, "status": done.status}
        output.say_json({**body, "message": done.message})
    else:
        output.say(f"{done.run_id}: {done.message}")


@app.command()
def resume(
    run: Run,
    *,
    start_from: Annotated[
        Path | None,
        typer.Option("--from", metavar="PATH", help="One of its checkpoints."),
    ] = None,
    exclude: Annotated[str, typer.Option("--exclude", metavar="NODES", help="A host list.")] = "",
    as_json: Json = False,
) -> None:
    """Submit a run again that FAILED, is HELD, or was CANCELLED: your decision, budgets anew."""
    from slurmswift.app.resume import resume as use  # noqa: PLC0415
    from slurmswift.app.runs import find_run  # noqa: PLC0415

    tools = make_tools()
    done = use(find_run(tools.state, run), tools, start_from=start_from, exclude=exclude)
    if as_json:
        body = {"run_id": done.run_id, "job_id": done.job_id, "set_aside": list(done.set_aside)}
        output.say_json(body)
        return
    output.say(f"run {done.run_id}, job {done.job_id}")
    for path in done.set_aside:
        output.say(f"  set aside  {path}")


@app.command()
def wait(
    run: Run,
    *,
    interval: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds.")] = 5.0,
    as_json: Json = False,
) -> None:
    """Wait until a run is over; exit 0 if it is complete, else 1. It does not watch."""
    from slurmswift.cli import watching  # noqa: PLC0415

    raise typer.Exit(watching.wait_until_over(make_tools(), run, interval, as_json=as_json))


@app.command()
def adopt(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run's directory.")],
    *,
    as_json: Json = False,
) -> None:
    """Take a run's directory back into the index."""
    from slurmswift.app.adopt import adopt as use  # noqa: PLC0415

    entry = use(folder, make_tools())
    if as_json:
        body = {"run_id": entry.run_id, "run_dir": str(entry.run_dir), "cluster": entry.cluster}
        output.say_json(body)
    else:
        output.say(f"{entry.run_id}: in the index again; a watcher on {entry.cluster} follows it")


# Commands of the design that later versions bring: refused by name, never "no such command".
NOT_YET = [
    "preflight",
    "nodes",
    "templates",
    "doctor",
    "service",
    "init",
    "replay",
    "gc",
    "report",
]


def _refuse(name: str) -> Callable[[typer.Context], None]:
    def refuse(_context: typer.Context) -> None:
        raise UsageError(f"{name}: not in this version")

    return refuse


for _name in NOT_YET:
    app.command(
        _name,
        hidden=True,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(_refuse(_name))
