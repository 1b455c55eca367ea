"""What we ask Slurm: argv builders. Pure; each one's answer is read in slurm/answers.py."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

# A delimiter that cannot occur in a name or a reason; free text stands last all the same.
DELIMITER = "\x1f"

QUEUE_FIELDS = ("JobID", "State", "RestartCnt", "NodeList", "Name", "Reason", "Command")
# All of these are in every release from 20.11 on; one unknown field fails the whole call.
ACCOUNT_FIELDS = (
    "JobIDRaw",
    "State",
    "ExitCode",
    "Submit",
    "Start",
    "End",
    "NodeList",
    "JobName",
)


def queue_of_user() -> tuple[str, ...]:
    """All my jobs, ended ones too as long as slurmctld remembers them."""
    columns = ",".join(f"{field}:{DELIMITER}" for field in QUEUE_FIELDS)
    return ("squeue", "--me", "--states=all", "--array", "--noheader", f"--Format={columns}")


def accounts_of_user(user: str, *, since: float) -> tuple[str, ...]:
    """All my jobs and their steps since a time, each attempt of a requeued job by itself."""
    return (
        "sacct",
        f"--user={user}",
        f"--starttime={slurm_time(since)}",
        "--duplicates",
        "--noheader",
        "--parsable2",
        f"--delimiter={DELIMITER}",
        f"--format={','.join(ACCOUNT_FIELDS)}",
    )


def slurm_time(epoch_seconds: float) -> str:
    """Write a time as sacct reads it; our commands run with TZ=UTC."""
    moment = datetime.fromtimestamp(max(0.0, epoch_seconds), tz=timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def configuration() -> tuple[str, ...]:
    return ("scontrol", "show", "config")


def show_job(job_id: str) -> tuple[str, ...]:
    return ("scontrol", "show", "job", "--oneliner", job_id)


def end_of_job(job_id: str) -> tuple[str, ...]:
    """How one job ended, its newest attempt alone; no steps."""
    return (
        "sacct",
        f"--jobs={job_id}",
        "--allocations",
        "--noheader",
        "--parsable2",
        f"--delimiter={DELIMITER}",
        f"--format={','.join(ACCOUNT_FIELDS)}",
    )


def state_of_job(job_id: str) -> tuple[str, ...]:
    """One job, for the seconds between a requeue and the moment it is pending."""
    return ("squeue", f"--jobs={job_id}", *queue_of_user()[2:])


def submit(
    script: str, epoch: int, *, exclude: str = "", test_only: bool = False
) -> tuple[str, ...]:
    options = ["--parsable"]
    if test_only:
        options.append("--test-only")
    if exclude:
        # On the command line it beats the script's own line: pass the user's list in it too.
        options.append(f"--exclude={exclude}")
    return ("sbatch", *options, script, str(epoch))


def requeue(job_id: str, *, hold: bool) -> tuple[str, ...]:
    return ("scontrol", "requeuehold" if hold else "requeue", job_id)


def set_excluded(job_id: str, hosts: str) -> tuple[str, ...]:
    """Replace the job's list of excluded nodes. Only while it is pending."""
    return ("scontrol", "update", f"JobId={job_id}", f"ExcNodeList={hosts}")


def start_now(job_id: str) -> tuple[str, ...]:
    return ("scontrol", "update", f"JobId={job_id}", "StartTime=now")


def release(job_id: str) -> tuple[str, ...]:
    return ("scontrol", "release", job_id)


def cancel(job_ids: Sequence[str], name: str) -> tuple[str, ...]:
    """End these jobs if they have that name: an id may have become another job's."""
    return ("scancel", f"--name={name}", *job_ids)


def nodes() -> tuple[str, ...]:
    """Every node of every partition with its state, a line each."""
    columns = f"NodeList:{DELIMITER},Partition:{DELIMITER},StateLong:{DELIMITER}"
    return ("sinfo", "--noheader", "--Node", f"--Format={columns}")


def states_of_nodes(hosts: str) -> tuple[str, ...]:
    """Each of these nodes with its state, ``*`` behind it where it does not respond."""
    columns = f"NodeList:{DELIMITER},StateLong:{DELIMITER}"
    return ("sinfo", "--noheader", "--Node", f"--nodes={hosts}", f"--Format={columns}")


def partitions() -> tuple[str, ...]:
    return ("sinfo", "--noheader", "--format=%R")
