"""How long Slurm leaves a job between its TERM and its KILL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Mapping

_DEFAULT_SECONDS = 30  # slurm.conf(5)
_SETTING = re.compile(r"^\s*KillWait\s*=\s*(\d+)", re.IGNORECASE | re.MULTILINE)
_MAX_BYTES = 4 << 20


def kill_wait(environment: Mapping[str, str]) -> int:
    """Read KillWait where slurm.conf can be read; asking slurmctld now would take too long."""
    path = Path(environment.get("SLURM_CONF") or "/etc/slurm/slurm.conf")
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            match = _SETTING.search(file.read(_MAX_BYTES))
    except OSError:
        match = None
    return int(match.group(1)) if match else _DEFAULT_SECONDS


def grace_after_term(environment: Mapping[str, str]) -> float:
    """What ranks get to end by themselves, so that the records are written before the KILL."""
    seconds = kill_wait(environment)
    return max(1.0, seconds - max(2.0, seconds / 6))
