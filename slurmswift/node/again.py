"""A launch that failed for its port alone is made again, in the same attempt."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, Optional, Tuple

from slurmswift.domain.diagnosis import AttemptFacts, LogText, diagnose
from slurmswift.domain.records import NodeRecord
from slurmswift.node.attempt import Attempt
from slurmswift.node.peers import forget_failure
from slurmswift.node.ports import meet_elsewhere

MOST_CYCLES = 3
_FIRST_SECONDS = 60.0
_LOG_BYTES = 4 << 20


def launch_again(attempt: Attempt, records: Dict[str, NodeRecord], cycle: int) -> Optional[str]:
    """Prepare the next launch and return why; None where this attempt is over.

    The ranks meet at another port, and the nodes' records of this launch go into a folder of
    their own: an agent that starts must not find its own end.
    """
    if cycle >= MOST_CYCLES or not _ended_early(records) or not _port_was_taken(attempt, records):
        return None
    start = attempt.start()
    if start.rendezvous is None:
        return None
    folder = attempt.path / f"cycle-{cycle}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for node in records:
        attempt.node_file(node).replace(folder / f"{node}.json")
    forget_failure(attempt)
    _, meeting = meet_elsewhere(attempt, start, start.rendezvous)
    taken = start.rendezvous.port
    return f"port {taken} was taken; the ranks meet at port {meeting.port} (cycle {cycle + 1})"


def _ended_early(records: Dict[str, NodeRecord]) -> bool:
    return bool(records) and all(
        record.ended_at - record.started_at < _FIRST_SECONDS for record in records.values()
    )


def _port_was_taken(attempt: Attempt, records: Dict[str, NodeRecord]) -> bool:
    facts = AttemptFacts(slurm_state="FAILED", node_records=tuple(records.values()), nodes=())
    return diagnose(_log(attempt.path / "job.log"), facts).cause == "config-port-in-use"


def _log(path: Path) -> Tuple[LogText, ...]:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _LOG_BYTES))
            return (LogText(path.name, file.read(_LOG_BYTES)),)
    except OSError:
        return ()
