"""Every error slurmswift raises on purpose, and the exit status each one ends in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Tuple


class ExitStatus(IntEnum):
    """What the caller should do next, as a process exit status."""

    OK = 0
    RUN_FAILED = 1  # the run failed, or a check found errors in what it judged
    USAGE = 2  # fix the command line (typer's own number)
    INPUT = 3  # fix the recipe, the profile or the template
    SLURM_REFUSED = 4  # change the request: partition, account, QOS, limits
    SLURM_UNAVAILABLE = 5  # try again later; nothing was changed
    STATE = 6  # the run is missing, locked or its directory is damaged
    BUG = 70  # report it (EX_SOFTWARE)
    INTERRUPTED = 130


class SlurmswiftError(Exception):
    """Base of all expected errors: its text is shown to the user as it stands."""

    exit_status: ClassVar[ExitStatus] = ExitStatus.BUG


@dataclass(frozen=True)
class Problem:
    """One thing wrong in an input file, located for the reader.

    ``where`` is ``file:line`` (with the key where there is one), ``fix`` what to write instead.
    """

    where: str
    message: str
    fix: str = ""
    rule: str = "recipe"
    severity: str = "error"

    def __str__(self) -> str:
        # Among errors a warning must not look like one.
        kind = "warning: " if self.severity == "warning" else ""
        return f"{self.where}: {kind}{self.message}" + (f"; {self.fix}" if self.fix else "")

    def to_json(self) -> dict[str, str]:
        return {
            "rule": self.rule,
            "severity": self.severity,
            "where": self.where,
            "message": self.message,
            "fix": self.fix,
        }


class RecipeError(SlurmswiftError):
    """A recipe, profile or template is not valid. Carries every problem, not only the first."""

    exit_status = ExitStatus.INPUT

    def __init__(self, problems: Tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class SlurmUnavailableError(SlurmswiftError):
    """Slurm gave no answer, so nothing is known. Always safe to retry."""

    exit_status = ExitStatus.SLURM_UNAVAILABLE


class SlurmRefusedError(SlurmswiftError):
    """Slurm answered no. Retrying the same request cannot help."""

    exit_status = ExitStatus.SLURM_REFUSED


class StateError(SlurmswiftError):
    """A run, or a file of one, is missing, locked or damaged. Nothing is guessed over it."""

    exit_status = ExitStatus.STATE


class UsageError(SlurmswiftError):
    """The command line asks for something that does not exist."""

    exit_status = ExitStatus.USAGE
