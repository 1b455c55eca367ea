"""Starts the framework's launcher on a node, and tells how it ended."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Dict, Mapping, Optional

from slurmswift.domain.records import StartRecord

# What another launcher around us may have left: ranks are told apart by these.
_RANK_VARIABLES = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "ROLE_RANK",
)


def launch_environment(
    inherited: Mapping[str, str],
    start: StartRecord,
    *,
    node: str,
    node_rank: int,
    run_dir: Path,
    attempt_dir: Path,
) -> Dict[str, str]:
    """What the script's launch block finds in its environment."""
    environment = {name: value for name, value in inherited.items() if name not in _RANK_VARIABLES}
    meeting = start.rendezvous
    environment.update(
        {
            "NODE_RANK": str(node_rank),
            "NNODES": str(max(1, len(start.nodes))),
            "MASTER_ADDR": meeting.address if meeting else "",
            "MASTER_PORT": str(meeting.port) if meeting else "",
            "RESUME_FROM": start.resume_from or "",
            "ATTEMPT_DIR": str(attempt_dir),
            "SLURMSWIFT_RUN_DIR": str(run_dir),
            "SLURMSWIFT_ATTEMPT": str(start.attempt),
            "SLURMSWIFT_NODE": node,
        }
    )
    return environment


class Launcher:
    """``bash job.sbatch launch`` in a session of its own."""

    def __init__(self, script: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", str(script), "launch"],  # noqa: S607 - the one that PATH has, as in the script
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.wait_status: Optional[int] = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self, wait_status: int) -> None:
        self.wait_status = wait_status
        # The agent collects every child itself: subprocess must not look for this one.
        self._process.returncode = os.WEXITSTATUS(wait_status)

    def terminate(self, signal_number: int) -> None:
        """Signal the launcher alone; what it does to its ranks is its own business."""
        if self.wait_status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal_number)
