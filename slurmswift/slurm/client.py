"""Slurm as the rest of slurmswift sees it: a few questions and a few acts, in values."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from slurmswift.domain.job import QueueRow
from slurmswift.domain.observation import Look, Unknown
from slurmswift.errors import SlurmRefusedError, SlurmUnavailableError
from slurmswift.slurm import answers, commands
from slurmswift.slurm.runner import CommandResult, Runner

# slurmctld away: squeue itself gives up after 18 s, sbatch retries for 120 s; a shorter limit
# around sbatch would make the doubt it is meant to end.
QUERY_SECONDS = 60.0
SUBMIT_SECONDS = 180.0

# Slurm could not be asked, or its answer got lost: everything else that sbatch says is a refusal.
_NO_ANSWER = re.compile(
    r"Unable to contact slurm controller|Socket timed out|Connection (refused|timed out|reset)"
    r"|Zero Bytes were transmitted|[Tt]ransport endpoint|Resource temporarily unavailable"
    r"|Unexpected message received|backup controller in standby|temporarily unable to accept job"
    r"|Communication connection failure|Could not establish a configuration source"
    r"|Message (send|receive) failure|slurm_receive_msg|Protocol authentication error"
    r"|Munge|Slurm controller not responding|Unspecified error|Insane message length",
)
_NO_ACCOUNTING = re.compile(r"accounting storage is disabled", re.IGNORECASE)
_LATER = re.compile(r"try again later|is not yet available|Job is (in the process|pending)")


def user_name() -> str:
    """Who we are to Slurm: by our uid. USER and LOGNAME may be anything, or unset in cron."""
    return pwd.getpwuid(os.getuid()).pw_name


class ActResult(Enum):
    """What became of an act upon a job."""

    DONE = "done"
    LATER = "later"  # Slurm says: not now
    REFUSED = "refused"  # never, for this job: purged, not allowed, altered


@dataclass(frozen=True, slots=True)
class Act:
    """An act and Slurm's words about it."""

    result: ActResult
    words: str


@dataclass(frozen=True, slots=True)
class JobStory:
    """How a job ended and where its log is; "" for what Slurm does not tell."""

    job_id: str
    state: str
    exit_code: str
    stdout: str
    stderr: str


class Slurm:
    """The Slurm that the commands on PATH (and SLURM_CONF) reach."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def cluster_name(self) -> str:
        """Return ClusterName; SlurmUnavailableError where slurmctld does not answer."""
        result = self._run(commands.configuration(), timeout=QUERY_SECONDS)
        if "Could not establish a configuration source" in result.stderr:
            raise SlurmUnavailableError(
                "this machine belongs to no Slurm cluster: run this on a login node"
                " (bin/devcluster up makes a cluster to try things on)"
            )
        if result.returncode != 0:
            raise SlurmUnavailableError(str(result))
        name = answers.parse_cluster_name(result.stdout)
        if name is None:
            raise SlurmUnavailableError(f"no ClusterName in the answer of {' '.join(result.argv)}")
        return name

    def look(self, *, since: float) -> Look:
        """Ask once for all my jobs: one squeue, one sacct, whatever the number of runs."""
        has_accounting = True
        queue = self._look_at_queue()
        result = self._ask(commands.accounts_of_user(user_name(), since=since))
        if isinstance(result, Unknown):
            return Look(queue, result)
        if _NO_ACCOUNTING.search(result.stderr):
            return Look(queue, (), has_accounting=False)
        # slurmdbd away: exit 0, nothing on stdout, errors on stderr. Silence is not "no jobs".
        silent = result.stderr.strip() and not result.stdout.strip()
        if result.returncode != 0 or silent or not answers.has_rows_or_nothing(result.stdout):
            return Look(queue, Unknown(str(result)), has_accounting)
        return Look(queue, answers.parse_accounts(result.stdout), has_accounting)

    def _look_at_queue(self) -> tuple[QueueRow, ...] | Unknown:
        result = self._ask(commands.queue_of_user())
        if isinstance(result, Unknown):
            return result
        silent = result.stderr.strip() and not result.stdout.strip()
        if result.returncode != 0 or silent or not answers.has_rows_or_nothing(result.stdout):
            return Unknown(str(result))
        return answers.parse_queue(result.stdout)

    def submit(
        self,
        script: str,
        epoch: int,
        *,
        exclude: str,
        env: Mapping[str, str],
        umask: int = -1,
    ) -> str:
        """Submit and return the job id.

        SlurmRefusedError: Slurm said no, nothing is queued. SlurmUnavailableError: nobody knows;
        the job may be in all the same.
        """
        argv = commands.submit(script, epoch, exclude=exclude)
        result = self._run(argv, timeout=SUBMIT_SECONDS, env=env, umask=umask)
        job_id = answers.parse_submitted(result.stdout)
        if result.returncode == 0 and job_id is not None:
            return job_id
        if result.returncode == 0 or _NO_ANSWER.search(result.stderr) or not result.stderr.strip():
            raise SlurmUnavailableError(str(result))
        raise SlurmRefusedError(self._explain_refusal(result))

    def test_only(self, script: str, *, env: Mapping[str, str]) -> str:
        """Return Slurm's forecast for the script, or raise SlurmRefusedError with its reason."""
        argv = commands.submit(script, 1, test_only=True)
        result = self._run(argv, timeout=QUERY_SECONDS, env=env)
        if result.returncode == 0:
            return (result.stderr or result.stdout).strip()
        if _NO_ANSWER.search(result.stderr):
            raise SlurmUnavailableError(str(result))
        raise SlurmRefusedError(self._explain_refusal(result))

    def job(self, job_id: str) -> QueueRow | None:
        """One job as squeue shows it now, None where squeue does not show it."""
        result = self._run(commands.state_of_job(job_id), timeout=QUERY_SECONDS)
        rows = answers.parse_queue(result.stdout)
        unknown = result.returncode != 0 and "Invalid job id" not in result.stderr
        if not rows and (unknown or not answers.has_rows_or_nothing(result.stdout)):
            raise SlurmUnavailableError(str(result))
        return next((row for row in rows if row.job_id == job_id), None)

    def story(self, job_id: str) -> JobStory | None:
        """How any job ended and where it wrote; None where Slurm knows no such job.

        slurmctld tells the log's path, and forgets the job MinJobAge after its end; the accounting
        of 22.05 remembers the end for good, and no path.
        """
        shown = self._run(commands.show_job(job_id), timeout=QUERY_SECONDS)
        if shown.returncode == 0:
            state = answers.parse_job_field(shown.stdout, "JobState") or ""
            code = answers.parse_job_field(shown.stdout, "ExitCode") or ""
            paths = (answers.parse_job_path(shown.stdout, key) for key in ("StdOut", "StdErr"))
            return JobStory(job_id, state, code, *paths)
        if _NO_ANSWER.search(shown.stderr):
            raise SlurmUnavailableError(str(shown))
        result = self._query(commands.end_of_job(job_id))
        rows = [row for row in answers.parse_accounts(result.stdout) if row.job_id == job_id]
        if not rows:
            return None
        last, ended = rows[-1], rows[-1].exit_code
        return JobStory(job_id, last.state.value, f"{ended.status}:{ended.signal}", "", "")

    def excluded_nodes(self, job_id: str) -> str:
        result = self._query(commands.show_job(job_id))
        listed = answers.parse_job_field(result.stdout, "ExcNodeList")
        return "" if listed in (None, "(null)") else str(listed)

    def requeue(self, job_id: str, *, hold: bool) -> Act:
        return self._act(commands.requeue(job_id, hold=hold))

    def set_excluded(self, job_id: str, hosts: str) -> Act:
        return self._act(commands.set_excluded(job_id, hosts))

    def release(self, job_id: str) -> Act:
        return self._act(commands.release(job_id))

    def start_now(self, job_id: str) -> Act:
        return self._act(commands.start_now(job_id))

    def cancel(self, job_ids: tuple[str, ...], name: str) -> Act:
        return self._act(commands.cancel(job_ids, name))

    def lost_nodes(self, hosts: str) -> dict[str, str]:
        """Return those of these nodes that Slurm cannot reach, with Slurm's word for it."""
        return answers.parse_lost_nodes(self._query(commands.states_of_nodes(hosts)).stdout)

    def usable_nodes(self, partitions: tuple[str, ...]) -> frozenset[str]:
        """Return the nodes in use of these partitions; without any, of the default one."""
        return answers.parse_usable_nodes(self._query(commands.nodes()).stdout, partitions)

    def _ask(self, argv: tuple[str, ...]) -> CommandResult | Unknown:
        try:
            return self._run(argv, timeout=QUERY_SECONDS)
        except SlurmUnavailableError as error:
            return Unknown(str(error))

    def _query(self, argv: tuple[str, ...]) -> CommandResult:
        result = self._run(argv, timeout=QUERY_SECONDS)
        if result.returncode != 0:
            raise SlurmUnavailableError(str(result))
        return result

    def _act(self, argv: tuple[str, ...]) -> Act:
        result = self._run(argv, timeout=QUERY_SECONDS)
        words = (result.stderr.strip() or result.stdout.strip())[:500]
        if result.returncode == 0:
            return Act(ActResult.DONE, words)
        if _NO_ANSWER.search(words):
            raise SlurmUnavailableError(str(result))
        return Act(ActResult.LATER if _LATER.search(words) else ActResult.REFUSED, words)

    def _explain_refusal(self, result: CommandResult) -> str:
        lines = [
            line.removeprefix("sbatch: error: ").removeprefix("Batch job submission failed: ")
            for line in result.stderr.splitlines()
            if line.startswith("sbatch: error: ")
        ]
        said = "; ".join(lines) or result.stderr.strip()
        message = f"sbatch refused the job: {said}"
        if "partition" in said.lower():
            known = self._ask(commands.partitions())
            if not isinstance(known, Unknown) and known.returncode == 0:
                names = sorted(set(known.stdout.split()))
                message += f"; this cluster has the partitions: {', '.join(names)}"
        return message
