"""How a run's attempts began, by their own records: what `why` shows before each decision."""

from __future__ import annotations

from pathlib import Path

from slurmswift.domain.records import StartRecord
from slurmswift.errors import StateError
from slurmswift.files.run_directory import RunDirectory


class Starts:
    """The starts of a run's attempts, each given out once, in order.

    The clocks of hosts are not compared: a start is asked for when its own end is shown.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._left: list[StartRecord] = []
        for attempt in run.attempts():
            try:
                start = attempt.start()
            except StateError:  # it is reported where the attempt is judged
                continue
            if start is not None and start.rendezvous is not None:
                self._left.append(start)

    def up_to(self, attempt: object) -> list[dict[str, object]]:
        """Return the starts not given out yet of this attempt and those before it."""
        due = [s for s in self._left if isinstance(attempt, int) and s.attempt <= attempt]
        self._left = [start for start in self._left if start not in due]
        return [_shown(start) for start in due]

    def rest(self) -> list[dict[str, object]]:
        return [_shown(start) for start in self._left]


def _shown(start: StartRecord) -> dict[str, object]:
    begun = "starts from the beginning"
    if start.resume_from is not None:
        begun = f"resumes from {start.resume_from} (step {start.resume_step})"
    parts = [f"attempt {start.attempt} {begun}"]
    for item in start.passed_over:
        moved = f" (now {Path(item.moved_to).name})" if item.moved_to else " (left as it is)"
        parts.append(f"passed over {Path(item.path).name}{moved}: {item.why}")
    return {
        "time": start.started_at,
        "attempt": start.attempt,
        "observation": None,
        "diagnosis": None,
        "decision": "start",
        "reason": "; ".join(parts),
    }
