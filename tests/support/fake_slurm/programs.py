"""sbatch, squeue, sacct, scontrol, scancel and sinfo of the fake, as far as slurmswift calls them.

What they print has the shape of Slurm 22.05's own (tests/recorded/slurm-22.05), and a call that
slurmswift is not known to make is an error, never a guess.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from slurmswift.domain import hostlist
from tests.support.fake_slurm.world import Job, Row, World, WorldFile

NODES = ("n1", "n2", "n3", "n4")
CLUSTER = "fakecluster"
SEPARATOR = "\x1f"
OWNER = os.getuid()

CONTACT = "Unable to contact slurm controller (connect failure)"
TIMED_OUT = "Batch job submission failed: Socket timed out on send/recv operation"
NO_PARTITION = "Batch job submission failed: Invalid partition name specified"
SLURMDBD_AWAY = (
    "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection"
)

Answer = tuple[int, str, str]  # exit status, stdout, stderr


def respond(world: World, argv: Sequence[str]) -> Answer:
    """What the program prints, and what it does to the world."""
    program, *arguments = argv
    world.calls.append(" ".join(argv))
    _let_the_late_in(world)
    fault = world.fault(" ".join(argv))
    if fault == "garbage":
        return 0, "<html>Gateway Time-out</html>\n", ""
    if fault == "away":
        return _away(program)
    if fault == "silent":
        return 0, "", ""
    if fault == "disabled":
        return 1, "", "Slurm accounting storage is disabled\n"
    return PROGRAMS[program](world, arguments, fault)


def _away(program: str) -> Answer:
    if program == "sacct":
        return 0, "", f"{SLURMDBD_AWAY} to localhost:6819: Connection refused\n"
    if program == "sbatch":
        return 1, "", f"sbatch: error: Batch job submission failed: {CONTACT}\n"
    return 1, "", f"slurm_load_jobs error: {CONTACT}\n"


def _let_the_late_in(world: World) -> None:
    """What an sbatch whose answer nobody waited for brings in, later."""
    for item in list(world.late):
        at, script, arguments, exclude = item
        if world.now >= at:
            world.late.remove(item)
            world.add(script, arguments, exclude, job_name(script))


def job_name(script: str) -> str:
    found = re.search(r"^#SBATCH --job-name=(\S+)$", Path(script).read_text(), re.MULTILINE)
    assert found, f"{script}: no job name"
    return found.group(1).strip("'\"")


def _sbatch(world: World, arguments: list[str], fault: str) -> Answer:
    options = [word for word in arguments if word.startswith("--")]
    script, *rest = arguments[len(options) :]
    exclude = next((word.split("=", 1)[1] for word in options if "--exclude=" in word), "")
    if fault.startswith("late"):  # late:SECONDS: in only then, and nobody hears of it
        world.late.append([world.now + float(fault.split(":")[1]), script, rest, exclude])
        return 1, "", f"sbatch: error: {TIMED_OUT}\n"
    if fault == "refused":
        return 1, "", f"sbatch: error: invalid partition\nsbatch: error: {NO_PARTITION}\n"
    if fault == "lost":
        return 1, "", f"sbatch: error: {TIMED_OUT}\n"
    job = world.add(script, rest, exclude, job_name(script))
    if fault == "strange":  # in, and an error that nobody has heard of
        return 1, "", "sbatch: error: Batch job submission failed: Strange error\n"
    if fault == "in":  # an error, although the job is in
        return 1, "", f"sbatch: error: {TIMED_OUT}\n"
    return 0, f"{job.job_id}\n", ""


def _squeue(world: World, arguments: list[str], _fault: str) -> Answer:
    wanted = next((word.split("=")[1] for word in arguments if word.startswith("--jobs=")), None)
    columns = arguments[-1].removeprefix("--Format=").split(f":{SEPARATOR},")
    fields = [column.removesuffix(f":{SEPARATOR}") for column in columns]
    jobs = [job for job in world.jobs if world.remembered(job)]
    if wanted is not None:
        jobs = [job for job in jobs if job.job_id == wanted]
        if not jobs:
            return 1, "", "slurm_load_jobs error: Invalid job id specified\n"
    lines = ["".join(_queue_field(job, field) + SEPARATOR for field in fields) for job in jobs]
    return 0, "".join(f"{line}\n" for line in lines), ""


def _queue_field(job: Job, field: str) -> str:
    reason = "JobHeldUser" if job.held else "None"
    if job.held and job.restarts:
        reason = "job requeued in held state"
    if job.row.state == "FAILED":
        reason = "NonZeroExitCode"
    return {
        "JobID": job.job_id,
        "State": job.row.state,
        "RestartCnt": str(job.restarts),
        "NodeList": job.row.nodes,
        "Name": job.name,
        "Reason": reason,
        "Command": " ".join([job.script, *job.arguments]),
    }[field]


def _sacct(world: World, arguments: list[str], fault: str) -> Answer:
    since = midnight(world.now)
    for word in arguments:
        if word.startswith("--starttime="):
            moment = datetime.strptime(word.split("=")[1], "%Y-%m-%dT%H:%M:%S")  # noqa: DTZ007
            since = moment.replace(tzinfo=timezone.utc).timestamp()
    lines = []
    for job in world.jobs:
        for row in (*job.past, job.row):
            lags = fault == "lagging" and row is job.row
            # Held from the first second to its cancel, a job was never eligible, and not accounted.
            lags = lags or (row.end is not None and job.held and not job.restarts)
            if lags or (row.end is not None and row.end < since):
                continue
            lines += _account_lines(job, row)
    return 0, "".join(f"{line}\n" for line in lines), ""


def midnight(now: float) -> float:
    """Where sacct starts without --starttime."""
    return now - now % 86400


def _account_lines(job: Job, row: Row) -> list[str]:
    state = row.state if row.canceller is None else f"CANCELLED by {row.canceller}"
    times = [_time(row.submit), _time(row.start), _time(row.end)]
    lines = [[job.job_id, state, row.code, *times, row.nodes or "None assigned", job.name]]
    if row.start is not None:
        nodes = hostlist.expand(row.nodes)[0]
        lines += [[f"{job.job_id}.batch", row.state, row.code, *times, nodes, "batch"]]
    return [SEPARATOR.join(line) for line in lines]


def _time(at: float | None) -> str:
    if at is None:
        return "Unknown"
    return datetime.fromtimestamp(at, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")


def _scontrol(world: World, arguments: list[str], _fault: str) -> Answer:
    if arguments == ["show", "config"]:
        lines = [f"ClusterName             = {CLUSTER}", "KillWait                = 30 sec"]
        return 0, "\n".join(lines) + "\n", ""
    act, word, *settings = arguments
    job = world.job(word.removeprefix("JobId="))
    if job is None or not world.remembered(job):
        return 1, "", f"Invalid job id specified for job {word}\n"
    if act in ("requeue", "requeuehold"):
        world.requeue(job, hold=act == "requeuehold")
    elif act == "release":
        job.held = False
    elif act == "update":
        name, _, value = settings[0].partition("=")
        assert name in ("ExcNodeList", "StartTime"), settings
        if job.row.state != "PENDING":
            return 1, "", "Job is no longer pending execution for job\n"
        if name == "ExcNodeList":
            job.exclude = value
    else:
        raise AssertionError(arguments)
    return 0, "", ""


def _scancel(world: World, arguments: list[str], _fault: str) -> Answer:
    name = arguments[0].removeprefix("--name=")
    for job_id in arguments[1:]:
        job = world.job(job_id)
        if job is not None and not job.over and job.name == name:
            code = "0:15" if job.row.start is not None else "0:0"
            world.end(job, "CANCELLED", code, OWNER)
    return 0, "", ""


def _sinfo(_world: World, _arguments: list[str], _fault: str) -> Answer:
    lines = [f"{node}{SEPARATOR}all*{SEPARATOR}idle{SEPARATOR}" for node in NODES]
    return 0, "".join(f"{line}\n" for line in lines), ""


PROGRAMS = {
    "sbatch": _sbatch,
    "squeue": _squeue,
    "sacct": _sacct,
    "scontrol": _scontrol,
    "scancel": _scancel,
    "sinfo": _sinfo,
}


def main(program: str, folder: str) -> None:
    """Be one of the programs."""
    with WorldFile(Path(folder)).open() as world:
        status, stdout, stderr = respond(world, [program, *sys.argv[1:]])
    # What was done is done before anybody hears of it, and also where nobody listens any more.
    sys.stdout.write(stdout)
    sys.stderr.write(stderr)
    sys.stdout.flush()
    sys.exit(status)


def install(folder: Path, world: WorldFile) -> None:
    """Put the programs into a folder, for PATH."""
    root = Path(__file__).parents[3]
    for program in PROGRAMS:
        text = (
            f"#!{sys.executable} -IS\nimport sys\nsys.path.insert(0, {str(root)!r})\n"
            "from tests.support.fake_slurm.programs import main\n"
            f"main({program!r}, {str(world.folder)!r})\n"
        )
        (folder / program).write_text(text)
        (folder / program).chmod(0o755)
