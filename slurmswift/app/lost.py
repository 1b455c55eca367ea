"""Sees a node that is gone before Slurm does, by the records of the others.

Slurm needs SlurmdTimeout (300 s by default) to declare a node down, and keeps the job until then.
This is the one case in which a run goes on before its old job is over: the fence ends whatever of
it still lives, and the new attempt waits until the silent node must have ended its ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

from slurmswift.ages import file_server_now, modified
from slurmswift.app.facts import AttemptStory
from slurmswift.domain.causes import CAUSES
from slurmswift.domain.diagnosis import Diagnosis, Evidence
from slurmswift.files.run_directory import AttemptDirectory

# An agent that cannot touch its .alive for 20 s has killed its ranks; the rest is for the kill.
SILENT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Lost:
    """Nodes of an attempt that fell silent while others failed."""

    attempt: AttemptDirectory
    nodes: tuple[str, ...]
    story: AttemptStory


def find_lost(attempt: AttemptDirectory | None) -> Lost | None:
    """Return what was lost of an attempt that Slurm still believes in, None where nothing was."""
    if attempt is None or not (attempt.path / "failure.json").exists():
        return None
    start = attempt.start()
    if start is None or attempt.exit() is not None:
        return None
    records = attempt.node_records()
    if not any(record.launcher.status != 0 for record in records):
        return None
    now = file_server_now(attempt.path / "nodes")
    silent: dict[str, float] = {}
    for node in start.nodes:
        touched = modified(attempt.path / "nodes" / f"{node}.alive")
        if node not in {record.node for record in records} and touched is not None:
            silent[node] = now - touched
    lost = {node: age for node, age in silent.items() if age > SILENT_SECONDS}
    # A node that is still alive and at work will bring the better evidence.
    if not lost or len(lost) < len(silent):
        return None
    words = {
        f"attempts/{attempt.path.name}/nodes/{node}.alive": f"silent for {age:.0f} s"
        for node, age in lost.items()
    }
    diagnosis = node_failure(tuple(lost), words, rule="node-silent")
    missing = ("exit.json", *(f"nodes/{node}.json" for node in lost))
    return Lost(attempt, tuple(lost), AttemptStory(attempt, start, None, diagnosis, missing))


def node_failure(nodes: tuple[str, ...], words: dict[str, str], *, rule: str) -> Diagnosis:
    """Return the diagnosis that these nodes failed; ``words``: source -> what it said."""
    cause = CAUSES["hw-node-failure"]
    return Diagnosis(
        cause=cause.name,
        category=cause.category,
        transient=cause.transient,
        rank=None,
        node=nodes[0],
        evidence=tuple(Evidence(source, 1, text) for source, text in words.items()),
        remedy=cause.remedy,
        rule=rule,
    )
