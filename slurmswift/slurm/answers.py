"""Text printed by Slurm's commands -> values. Pure; tested on recorded output."""

from __future__ import annotations

import re

from slurmswift.domain.job import (
    AccountRow,
    ExitCode,
    Printer,
    QueueRow,
    parse_canceller,
    parse_state,
)
from slurmswift.slurm.commands import ACCOUNT_FIELDS, DELIMITER, QUEUE_FIELDS

_SUBMITTED = re.compile(r"^(\d+)(?:;[^;\s]+)?$")
_CLUSTER_NAME = re.compile(r"^ClusterName\s*=\s*(\S+)\s*$", re.MULTILINE)
_CONFIG_SECONDS = r"^{key}\s*=\s*(\d+) sec"
_FIELD_OF_JOB = r"(?:^|\s){key}=(\S*)"


def has_rows_or_nothing(stdout: str) -> bool:
    """False for text without one line of columns: an error page is not "no jobs"."""
    return DELIMITER in stdout or not stdout.strip()


def parse_queue(stdout: str) -> tuple[QueueRow, ...]:
    """Rows of commands.queue_of_user. A line that is not a row is passed over (site banners)."""
    rows = []
    for line in stdout.splitlines():
        columns = [column.strip() for column in line.split(DELIMITER)]
        if len(columns) < len(QUEUE_FIELDS) or not columns[0].isdigit():
            continue
        job_id, state, restarts, nodes, name, reason, command = columns[: len(QUEUE_FIELDS)]
        rows.append(
            QueueRow(
                job_id=job_id,
                state=parse_state(state, Printer.SQUEUE),
                restart_count=int(restarts) if restarts.isdigit() else 0,
                reason=reason,
                nodes=nodes,
                name=name,
                command=command,
            )
        )
    return tuple(rows)


def parse_accounts(stdout: str) -> tuple[AccountRow, ...]:
    """Rows of commands.accounts_of_user, in sacct's order."""
    rows = []
    for line in stdout.splitlines():
        columns = line.split(DELIMITER)
        if len(columns) < len(ACCOUNT_FIELDS):
            continue
        raw_id, state, exit_code, submit, start, end, nodes = columns[:7]
        job_id, _, step = raw_id.partition(".")
        if not job_id.isdigit():  # an array range or a het component: never ours
            continue
        rows.append(
            AccountRow(
                job_id=job_id,
                step=step,
                state=parse_state(state, Printer.SACCT),
                cancelled_by=parse_canceller(state),
                exit_code=ExitCode.parse(exit_code),
                submit=submit,
                start=start,
                end=end,
                nodes=nodes,
                name=DELIMITER.join(columns[7:]),
            )
        )
    return tuple(rows)


def parse_submitted(stdout: str) -> str | None:
    """Return the job id out of sbatch --parsable's answer, None where there is none.

    Sites add banners and Lua messages to stdout: the last line that is an id counts.
    """
    for line in reversed(stdout.splitlines()):
        match = _SUBMITTED.match(line.strip())
        if match:
            return match.group(1)
    return None


def parse_cluster_name(stdout: str) -> str | None:
    match = _CLUSTER_NAME.search(stdout)
    return match.group(1) if match else None


def parse_config_seconds(stdout: str, key: str) -> int | None:
    """Return a time out of ``scontrol show config`` such as MinJobAge or KillWait."""
    match = re.search(_CONFIG_SECONDS.format(key=re.escape(key)), stdout, re.MULTILINE)
    return int(match.group(1)) if match else None


def parse_job_field(stdout: str, key: str) -> str | None:
    """Return one field of ``scontrol show job --oneliner`` that holds no blanks."""
    match = re.search(_FIELD_OF_JOB.format(key=re.escape(key)), stdout)
    return match.group(1) if match else None


def parse_job_path(stdout: str, key: str) -> str:
    """Return a path of ``scontrol show job --oneliner``, blanks and all; "" where there is none.

    The line is a list of KEY=VALUE between blanks: a path ends where the next key begins.
    """
    match = re.search(rf"(?:^|\s){re.escape(key)}=(/.*?)(?:\s+[A-Z]\w*=|\s*$)", stdout)
    return match.group(1) if match else ""


def parse_lost_nodes(stdout: str) -> dict[str, str]:
    """Return node -> state of those that are down or do not respond, from states_of_nodes."""
    found = {}
    for line in stdout.splitlines():
        columns = [column.strip() for column in line.split(DELIMITER)]
        node, state = (*columns, "", "")[:2]
        if node and (state.startswith("down") or state.endswith("*")):
            found[node] = state
    return found


# States in which a node takes no job soon; "*" behind one means that it does not respond.
_OUT_OF_USE = ("down", "drain", "drained", "draining", "fail", "failing", "maint", "error")


def parse_usable_nodes(stdout: str, partitions: tuple[str, ...]) -> frozenset[str]:
    """Return the nodes in use of these partitions, of the default one without any named.

    sinfo puts a ``*`` behind the default partition's name.
    """
    usable = set()
    for line in stdout.splitlines():
        columns = [column.strip() for column in line.split(DELIMITER)]
        node, partition, state = (*columns, "", "", "")[:3]
        wanted = partition.rstrip("*") in partitions if partitions else partition.endswith("*")
        if (
            node
            and wanted
            and not state.endswith("*")
            and state.rstrip("$@+~#!%^-") not in _OUT_OF_USE
        ):
            usable.add(node)
    return frozenset(usable)
