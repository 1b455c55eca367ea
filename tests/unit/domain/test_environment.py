"""The frozen environment: the user's own, less Slurm's, whoever submits later."""

from __future__ import annotations

import pytest

from slurmswift.domain.environment import Account, Inherit, freeze, requested_of_slurm

ACCOUNT = Account("ann", "/home/ann", "/bin/zsh")


def test_slurms_variables_and_the_shells_own_stay_behind() -> None:
    shell = {"SLURM_JOB_ID": "7", "SBATCH_EXPORT": "NONE", "SQUEUE_FORMAT": "x", "OLDPWD": "/"}

    frozen = freeze({**shell, "MY_DATA": "/data", "TERM": "xterm"}, ACCOUNT)

    assert frozen["MY_DATA"] == "/data"
    assert not set(shell) & set(frozen)
    assert frozen["TERM"] == "dumb"


def test_crons_empty_environment_still_has_what_jobs_rely_on() -> None:
    assert freeze({}, ACCOUNT) == {
        "HOME": "/home/ann",
        "USER": "ann",
        "LOGNAME": "ann",
        "SHELL": "/bin/zsh",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
    }


@pytest.mark.parametrize(
    ("inherit", "kept"), [("all", {"A", "B"}), ("none", set()), (("A",), {"A"})]
)
def test_the_recipe_says_what_is_inherited(inherit: Inherit, kept: set[str]) -> None:
    assert set(freeze({"A": "1", "B": "2"}, ACCOUNT, inherit)) & {"A", "B"} == kept


def test_what_the_shell_asked_of_sbatch_goes_into_the_plan() -> None:
    shell = {"SBATCH_ACCOUNT": "lab", "SBATCH_PARTITION": "", "SBATCH_DEBUG": "1"}

    assert requested_of_slurm(shell) == {"account": "lab"}
