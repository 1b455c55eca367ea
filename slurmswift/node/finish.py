"""``finish``: the attempt's verdict from its nodes' records, on its first node."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from slurmswift.ages import modified
from slurmswift.checkpoints import find_resume_point
from slurmswift.domain.records import NodeRecord
from slurmswift.errors import StateError
from slurmswift.node.again import launch_again
from slurmswift.node.attempt import Attempt
from slurmswift.node.ending import write_exit

MAX_STATUS = 120


@dataclass(frozen=True)
class Verdict:
    """What the attempt's exit record says of the training."""

    status: int
    cause_hint: Optional[str]
    message: Optional[str]


def finish(arguments: List[str]) -> int:
    """Write exit.json and print its status: the script ends with it. Or print "again"."""
    options = _parse(arguments)
    attempt = Attempt.at(options.attempt_dir)
    nodes = attempt.start().nodes
    records, damaged = _read_records(attempt, nodes)
    silent = _silent(attempt, nodes, records)
    verdict = judge(nodes, records, silent, options.srun_status)
    verdict = _own_bug(attempt, verdict) or verdict
    if verdict.cause_hint in (None, "training"):
        verdict = _left_when_asked(attempt, verdict, options.checkpoint_dir) or verdict
    if verdict.cause_hint == "training" and _asked(attempt)[0] is None:
        again = launch_again(attempt, records, options.cycle)
        if again is not None:
            sys.stderr.write(f"slurmswift: {again}\n")
            sys.stdout.write("again\n")
            return 0
    message = "; ".join(filter(None, [verdict.message, *damaged])) or None
    write_exit(
        attempt,
        status=verdict.status,
        cause_hint=verdict.cause_hint,
        message=message,
        srun_status=options.srun_status,
        nodes_expected=len(nodes),
        nodes_reported=len(records),
        nodes_silent=silent,
    )
    sys.stderr.write(f"slurmswift: ended with status {verdict.status}")
    sys.stderr.write(f": {message}\n" if message else "\n")
    sys.stdout.write(f"{verdict.status}\n")
    return 0


def judge(
    nodes: Tuple[str, ...],
    records: Dict[str, NodeRecord],
    silent: Tuple[str, ...],
    srun_status: int,
) -> Verdict:
    """Success needs a witness on every node: srun says 0 where a node never started its part."""
    failed = [record for record in records.values() if not _succeeded(record)]
    status = _worst(srun_status, failed)
    fenced = next((record for record in failed if record.fenced is not None), None)
    if fenced is not None:
        return Verdict(status, "fenced", f"{fenced.node}: {fenced.fenced}")
    if silent:
        return Verdict(status, "node-lost", f"no record from {', '.join(silent)}")
    if not nodes:
        return Verdict(status, "preflight", "the nodes of this attempt are not known")
    if failed:
        first = min(failed, key=lambda record: record.ended_at)
        return Verdict(status, "training", f"{first.node}: {_how(first)}")
    if len(records) < len(nodes):
        return Verdict(status, "node-lost", "a node left no record")
    return Verdict(0, None, None)


def _parse(arguments: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="node.pyz finish", description=__doc__)
    parser.add_argument("--attempt-dir", type=Path, required=True)
    parser.add_argument("--checkpoint-dir", type=Path, required=True)
    parser.add_argument("--srun-status", type=int, required=True)
    parser.add_argument("--cycle", type=int, default=1)
    return parser.parse_args(arguments)


def _read_records(
    attempt: Attempt, nodes: Tuple[str, ...]
) -> Tuple[Dict[str, NodeRecord], List[str]]:
    records: Dict[str, NodeRecord] = {}
    damaged = []
    for node in nodes:
        try:
            record = attempt.node_record(node)
        except StateError as error:
            damaged.append(str(error))
            continue
        if record is not None:
            records[node] = record
    return records, damaged


def _silent(
    attempt: Attempt, nodes: Tuple[str, ...], records: Dict[str, NodeRecord]
) -> Tuple[str, ...]:
    """Nodes that owe a record. Where some never showed life, it is those.

    When a node does not answer the launch, srun kills the agents of the others: they leave no
    record either, but they were there.
    """
    owing = tuple(node for node in nodes if node not in records)
    agents = attempt.nodes_with_agents()
    never_there = tuple(node for node in owing if node not in agents)
    return never_there or owing


def _succeeded(record: NodeRecord) -> bool:
    return record.launcher.status == 0 and record.fenced is None


def _worst(srun_status: int, failed: List[NodeRecord]) -> int:
    """A status for the script to end with: a launcher's own before srun's, never 0 or above 120."""
    for record in sorted(failed, key=lambda record: record.ended_at):
        if record.launcher.status:
            return min(record.launcher.status, MAX_STATUS)
    return min(srun_status, MAX_STATUS) or 1


def _how(record: NodeRecord) -> str:
    end = record.launcher
    if end.signal is not None:
        return f"the launcher was ended by signal {end.signal}"
    if end.status is None:
        return "the launcher's end was not seen"
    return f"the launcher ended with status {end.status}"


def _left_when_asked(attempt: Attempt, verdict: Verdict, checkpoint_dir: Path) -> Optional[Verdict]:
    """A training that saved and left when asked to is not done, though every rank said 0.

    And one that saved, and then did not leave in good order, has not failed: torchrun ends with
    1 on every TERM.
    """
    hint, asked_at = _asked(attempt)
    if hint is None:
        return None
    newest = find_resume_point(checkpoint_dir).checkpoint
    if newest is None or newest.finished:
        return None
    if verdict.status != 0 and (modified(Path(newest.path)) or 0.0) < asked_at:
        return None
    of = f" of {newest.max_steps}" if newest.max_steps else ""
    how = f" ({verdict.message})" if verdict.message else ""
    return Verdict(1, hint, f"left when asked to, at step {newest.step}{of}{how}")


def _own_bug(attempt: Attempt, verdict: Verdict) -> Optional[Verdict]:
    """What broke in slurmswift's own part on a node (see __main__.py) is not the training's."""
    files = sorted(path.name for path in attempt.path.glob("bug-*.txt"))
    if not files or verdict.status == 0:
        return None
    return Verdict(verdict.status, "bug", f"a bug in slurmswift itself: see {', '.join(files)}")


def _asked(attempt: Attempt) -> Tuple[Optional[str], float]:
    """Return who asked first and when, by the file server's clock: Slurm's warning, or its TERM."""
    for hint, name in ("time-limit", "save-request"), ("ended", "ending.json"):
        at = modified(attempt.path / name)
        if at is not None:
            return hint, at
    return None, 0.0
