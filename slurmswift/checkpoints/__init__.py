"""Judges checkpoint directories with the standard library alone: nothing in them is ever loaded."""

from slurmswift.checkpoints.checkpoint import Checkpoint, State
from slurmswift.checkpoints.format import Expected, Pattern
from slurmswift.checkpoints.search import (
    ResumePoint,
    find_resume_point,
    judge,
    list_checkpoints,
    newest_whole,
    resume_point_of,
)

__all__ = [
    "Checkpoint",
    "Expected",
    "Pattern",
    "ResumePoint",
    "State",
    "find_resume_point",
    "judge",
    "list_checkpoints",
    "newest_whole",
    "resume_point_of",
]
