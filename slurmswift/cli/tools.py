"""Makes the real tools that commands work with."""

from __future__ import annotations

import os
import shutil
import time

from slurmswift.app.tools import Tools
from slurmswift.files.state_folder import StateFolder
from slurmswift.slurm.client import Slurm
from slurmswift.slurm.runner import run_command


def make_tools() -> Tools:
    """The tools of this process: its environment, its clock, the Slurm on its PATH.

    A pass from cron starts with next to no environment: where squeue is not on PATH, the PATH and
    SLURM_CONF of the last submission serve.
    """
    state = StateFolder.of_user(os.environ)
    if shutil.which("squeue") is None or "SLURM_CONF" not in os.environ:
        remembered = state.remembered_shell()
        if shutil.which("squeue") is None and "PATH" in remembered:
            os.environ["PATH"] = remembered["PATH"]
        if "SLURM_CONF" in remembered:
            os.environ.setdefault("SLURM_CONF", remembered["SLURM_CONF"])
    return Tools(
        slurm=Slurm(run_command),
        state=state,
        environ=dict(os.environ),
        now=time.time,
        sleep=time.sleep,
        umask=_umask(),
    )


def _umask() -> int:
    """Return the process's umask; the system offers no way to read it but to set it."""
    present = os.umask(0o077)
    os.umask(present)
    return present
