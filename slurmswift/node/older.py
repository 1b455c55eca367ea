"""Whether an earlier attempt is provably over: none of its ranks can still write."""

from __future__ import annotations

import time
from typing import Callable, List, Optional

from slurmswift.ages import file_server_now, modified
from slurmswift.errors import StateError
from slurmswift.node.attempt import Attempt, RunFolder

# An agent that could not touch its .alive for 20 s has killed its ranks (agent.py); the rest is
# for the kill itself and for the time stamps' grain.
SILENT_SECONDS = 30.0


def what_may_still_run(attempt: Attempt, silent_seconds: float = SILENT_SECONDS) -> Optional[str]:
    """Name what of an older attempt may still write; None where it is provably over."""
    folder_age = _folder_age(attempt)
    now = file_server_now(attempt.nodes) if attempt.nodes.is_dir() else 0.0
    for node in attempt.nodes_with_agents():
        if _has_record(attempt, node):
            continue
        touched = modified(attempt.alive_file(node))
        if touched is not None and now - touched <= silent_seconds:
            return f"{node} of attempt {attempt.number}, heard of {now - touched:.0f} s ago"
    # Its script may be about to start agents; they will see that they are too late.
    if not _has_exit(attempt) and folder_age <= silent_seconds:
        return f"attempt {attempt.number} without an end, changed {folder_age:.0f} s ago"
    return None


def wait_until_over(
    run: RunFolder,
    before: int,
    *,
    patience: float,
    say: Callable[[str], None],
    why_closed: Callable[[], Optional[str]],
    poll: float = 1.0,
) -> Optional[str]:
    """Wait for every attempt before this number; return what is still alive after ``patience``.

    Ends early, with None, where this attempt has itself become too late: the caller looks again.
    """
    waiting = _earlier(run, before)
    said: Optional[str] = None
    deadline = time.monotonic() + patience
    while True:
        alive = _first_alive(waiting)
        if alive is None or why_closed() is not None:
            return None
        if time.monotonic() >= deadline:
            return alive
        if alive.split(",")[0] != said:
            said = alive.split(",")[0]
            say(f"waiting until it is over: {alive}")
        time.sleep(poll)


def _earlier(run: RunFolder, before: int) -> List[Attempt]:
    """Newest first: the last one is the one that may be alive."""
    return [attempt for attempt in reversed(run.attempts()) if attempt.number < before]


def _first_alive(attempts: List[Attempt]) -> Optional[str]:
    while attempts:
        alive = what_may_still_run(attempts[0])
        if alive is not None:
            return alive
        del attempts[0]  # over is over: it is not asked again
    return None


def _folder_age(attempt: Attempt) -> float:
    """Asked before our own probe below it could change it."""
    changed = modified(attempt.path)
    now = file_server_now(attempt.path.parent)
    return 0.0 if changed is None else now - changed


def _has_record(attempt: Attempt, node: str) -> bool:
    try:
        return attempt.node_record(node) is not None
    except StateError:
        return False  # damaged: only silence can prove anything


def _has_exit(attempt: Attempt) -> bool:
    try:
        return attempt.exit() is not None
    except StateError:
        return False
