"""The only module that starts a process on the login node."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slurmswift.errors import SlurmUnavailableError

# Slurm's clients read these as options: an enclosing job, or a user's shell start-up file,
# would silently reshape what we ask and what we submit.
SLURM_PREFIXES = ("SLURM_", "SBATCH_", "SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_", "SALLOC_")
KEPT = ("SLURM_CONF",)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A finished command, kept whole so that errors can show all of it."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str

    def __str__(self) -> str:
        said = (self.stderr.strip() or self.stdout.strip() or "nothing")[:2000]
        return f"{' '.join(self.argv)} (exit status {self.returncode}) said: {said}"


class Runner(Protocol):
    """Runs one command to its end. Tests pass a scripted or a faulty one."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
        umask: int = -1,
    ) -> CommandResult: ...


def query_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Slurm prints the same text for everybody.

    sacct prints local time without a zone, and the user's own formats and locale change columns.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if name in KEPT or not name.startswith(SLURM_PREFIXES)
    }
    return kept | {"LC_ALL": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}


def run_command(
    argv: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    umask: int = -1,
) -> CommandResult:
    """Run argv without a shell. A nonzero status is a result; no answer is an error.

    ``env`` is the whole environment of the command; without it the command gets this process's,
    made fit for queries. ``umask`` is the command's (sbatch hands its own on to the job); -1 keeps
    this process's.
    """
    environment = query_environment(os.environ) if env is None else dict(env)
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=timeout,
            check=False,
            env=environment,
            umask=umask,
        )
    except subprocess.TimeoutExpired as error:
        message = f"{argv[0]} gave no answer within {timeout:g} s"
        raise SlurmUnavailableError(message) from error
    except FileNotFoundError as error:
        message = (
            f"{argv[0]} is not on PATH: slurmswift runs on a login node of a Slurm cluster"
            " (bin/devcluster makes one to try it on)"
        )
        raise SlurmUnavailableError(message) from error
    except OSError as error:
        message = f"cannot run {argv[0]}: {error.strerror}"
        raise SlurmUnavailableError(message) from error
    return CommandResult(tuple(argv), done.returncode, done.stdout, done.stderr)
