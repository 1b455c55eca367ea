"""What the nodes of one attempt tell each other through its directory, and what follows."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from pathlib import Path
from typing import Optional, Sequence

from slurmswift.ages import modified
from slurmswift.atomic import create_once, read_json
from slurmswift.domain.records import SCHEMA
from slurmswift.errors import StateError
from slurmswift.node.attempt import Attempt
from slurmswift.node.launcher import Launcher

_FAILURE = "failure.json"


def report_failure(attempt: Attempt, node: str, why: str) -> None:
    """Let the other nodes know; the first report stays."""
    body = {"schema": SCHEMA, "node": node, "why": why, "at": time.time()}
    create_once(attempt.path / _FAILURE, json.dumps(body).encode("ascii") + b"\n")


def forget_failure(attempt: Attempt) -> None:
    """Clear the way for another launch in the same attempt."""
    with contextlib.suppress(FileNotFoundError):
        (attempt.path / _FAILURE).unlink()


def reported_failure(attempt: Attempt, node: str) -> Optional[str]:
    """Return what another node reported, None where none did."""
    try:
        body = read_json(attempt.path / _FAILURE)
    except (FileNotFoundError, StateError):
        return None
    if not isinstance(body, dict) or body.get("node") == node:
        return None
    return f"{body.get('node')}: {body.get('why')}"


def silent_neighbour(
    attempt: Attempt, nodes: Sequence[str], node: str, *, silent_seconds: float
) -> Optional[str]:
    """Name the next node where it has gone silent: its agent has then ended its ranks, or is dead.

    Each node looks at one other, so that the cost does not grow with their product; all hear of
    it by the report.
    """
    if node not in nodes:
        return None
    other = nodes[(nodes.index(node) + 1) % len(nodes)]
    if other == node:
        return None
    theirs = modified(attempt.alive_file(other))
    ours = modified(attempt.alive_file(node))
    if theirs is None or ours is None or ours - theirs <= silent_seconds:
        return None
    if _exists(attempt.node_file(other)):
        return None
    return f"{other}: silent for {ours - theirs:.0f} s"


class PeerWatch:
    """Ends the launcher here some time after another node has failed: it would hang for long."""

    def __init__(
        self,
        attempt: Attempt,
        nodes: Sequence[str],
        node: str,
        *,
        silence: float,
        grace: float,
        term_grace: float,
    ) -> None:
        self._attempt = attempt
        self._nodes = nodes
        self._node = node
        self._silence = silence
        self._grace = grace
        self._term_grace = term_grace
        self._term_due: Optional[float] = None
        self._term_sent = False

    def look(self) -> Optional[str]:
        """Return the news, once, that another node has failed."""
        if self._term_due is not None:
            return None
        try:
            failure = reported_failure(self._attempt, self._node)
            silent = failure or silent_neighbour(
                self._attempt, self._nodes, self._node, silent_seconds=self._silence
            )
        except OSError:
            return None
        if silent is not None:
            # After a silence the ranks here have had their time to fail by themselves.
            self._term_due = time.monotonic() + (self._grace if failure else 0.0)
        return silent

    def out_of_time(self, launcher: Launcher) -> bool:
        """Send the launcher its TERM when that is due; return whether it did not help."""
        if self._term_due is None:
            return False
        late = time.monotonic() - self._term_due
        if late >= 0 and not self._term_sent:
            self._term_sent = True
            launcher.terminate(signal.SIGTERM)
        return late > self._term_grace


def _exists(path: Path) -> bool:
    return modified(path) is not None
