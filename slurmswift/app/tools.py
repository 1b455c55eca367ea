"""What every use case works with: Slurm, the user's state folder, and the clock, passed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slurmswift.files.state_folder import StateFolder
from slurmswift.slurm.client import Slurm


@dataclass(frozen=True, slots=True)
class Tools:
    """The edges of the world. Tests pass their own."""

    slurm: Slurm
    state: StateFolder
    environ: Mapping[str, str]
    now: Callable[[], float]
    sleep: Callable[[float], None]
    umask: int = -1  # of the user's shell; -1: not known
