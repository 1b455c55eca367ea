"""What the nodes of one attempt tell each other through its directory."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Optional, Sequence

from slurmswift.atomic import create_once, read_json
from slurmswift.domain.records import SCHEMA
from slurmswift.errors import StateError
from slurmswift.node.ages import modified
from slurmswift.node.attempt import Attempt

_FAILURE = "failure.json"


def report_failure(attempt: Attempt, node: str, why: str) -> None:
    """Let the other nodes know; the first report stays."""
    body = {"schema": SCHEMA, "node": node, "why": why, "at": time.time()}
    create_once(attempt.path / _FAILURE, json.dumps(body).encode("ascii") + b"\n")


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


def _exists(path: Path) -> bool:
    return modified(path) is not None
