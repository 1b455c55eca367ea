"""The environment that every sbatch call of a run gets, frozen when the run is submitted.

Cron has neither HOME nor the user's PATH, and sbatch hands its own environment on to the job: a
resubmission from there would start the training in another world than the first attempt had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Mapping, Sequence, Tuple, Union

# What an enclosing job or the user's shell tells Slurm's clients: never handed on.
SLURM_PREFIXES = (
    "SLURM_",
    "SBATCH_",
    "SQUEUE_",
    "SACCT_",
    "SALLOC_",
    "SRUN_",
    "SLURMD_",
    "PMI_",
    "PMIX_",
)
# A shell's own bookkeeping, and what belongs to the terminal that happened to submit.
# These change how bash reads our script, before its first line can see to it.
_SHELL_SWITCHES = frozenset(
    {
        *("BASHOPTS", "BASH_COMPAT", "BASH_ENV", "BASH_XTRACEFD", "CDPATH", "ENV", "GLOBIGNORE"),
        *("IFS", "POSIXLY_CORRECT", "PS4", "SHELLOPTS"),
    }
)
# Exported functions go on (`module` and `ml` are), except under the names of what the script calls.
_KEPT_FUNCTIONS = ("module", "ml", "_module_raw", "_moduleraw", "switchml", "scl", "which")
_SHELLS_OWN = frozenset({"_", "OLDPWD", "PWD", "SHLVL", "TERM", "TERMCAP", "SLURMSWIFT_STATE"})

Inherit = Union[str, Tuple[str, ...]]  # "all", "none", or names


@dataclass(frozen=True)
class Account:
    """Who the user is, by the password database."""

    name: str
    home: str
    shell: str


def freeze(
    environ: Mapping[str, str], account: Account, inherit: Inherit = "all"
) -> Dict[str, str]:
    """Return the job's environment, without SLURM_CONF: that one belongs to the host."""
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith(SLURM_PREFIXES)
        and name not in _SHELLS_OWN
        and name not in _SHELL_SWITCHES
        and _is_harmless_function(name)
        and _inherited(name, inherit)
    }
    always = {
        "HOME": environ.get("HOME") or account.home,
        "USER": account.name,
        "LOGNAME": account.name,
        "SHELL": account.shell or "/bin/sh",
        "PATH": environ.get("PATH") or "/usr/local/bin:/usr/bin:/bin",
        "LANG": environ.get("LANG") or "C.UTF-8",
        # Scripts that call `clear` or `tput` under `set -e` die where TERM is unset.
        "TERM": "dumb",
    }
    return {**kept, **always}


def _is_harmless_function(name: str) -> bool:
    if not name.startswith("BASH_FUNC_"):
        return True
    return name[len("BASH_FUNC_") :].rstrip("%()") in _KEPT_FUNCTIONS


def _inherited(name: str, inherit: Inherit) -> bool:
    if isinstance(inherit, str):
        return inherit == "all"
    return name in inherit


def requested_of_slurm(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the sbatch options that the user's shell asked for by variables.

    They are written into the plan, since the frozen environment carries none of them.
    """
    return {
        option: environ[name] for name, option in _SBATCH_VARIABLES if environ.get(name, "").strip()
    }


_SBATCH_VARIABLES: Sequence[Tuple[str, str]] = (
    ("SBATCH_ACCOUNT", "account"),
    ("SBATCH_PARTITION", "partition"),
    ("SBATCH_QOS", "qos"),
    ("SLURM_CLUSTERS", "clusters"),
)
