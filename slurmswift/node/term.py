"""Slurm's TERM: whom it reached, who has to be told, and how much time is left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Mapping, Optional

from slurmswift.node.kill_wait import grace_after_term
from slurmswift.node.launcher import Launcher


class TermRelay:
    """Passes Slurm's TERM on to the launcher, where Slurm has not done so itself.

    proctrack/cgroup signals only the processes that slurmstepd started (its
    SignalChildrenProcesses is off by default), proctrack/linuxproc all of a job's: seen on 22.05.
    A child that does nothing tells which. To send a second TERM on suspicion would be wrong:
    torchrun gives up the care for its ranks on it.
    """

    def __init__(self, environment: Mapping[str, str], *, delay: float) -> None:
        self._environment = environment
        self._delay = delay  # for the signal to arrive everywhere
        self._canary: Optional[subprocess.Popen[bytes]] = None
        self._canary_was_told = False
        self._at: Optional[float] = None
        self._sent = False

    def start(self) -> None:
        try:
            self._canary = subprocess.Popen(
                ["sleep", "infinity"],  # noqa: S607 - without it the launcher is told in any case
                env={"PATH": os.defpath},  # not ours: it must not look like a rank
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            self._canary = None

    def on_term(self, *_: object) -> None:
        """Take the signal: a handler."""
        if self._at is None:
            self._at = time.monotonic()

    def collected(self, pid: int, wait_status: int) -> bool:
        """Return whether this child was ours; the caller has waited for it."""
        if self._canary is None or pid != self._canary.pid:
            return False
        self._canary_was_told = os.WIFSIGNALED(wait_status) and (
            os.WTERMSIG(wait_status) == signal.SIGTERM
        )
        self._canary.returncode = -1
        return True

    def out_of_time(self, launcher: Launcher) -> bool:
        """Return whether Slurm's KILL is near; until then see that the launcher knows."""
        if self._at is None:
            return False
        since = time.monotonic() - self._at
        if since >= self._delay and not self._sent:
            self._sent = True
            if not self._canary_was_told:
                launcher.terminate(signal.SIGTERM)
        return since > grace_after_term(self._environment)
