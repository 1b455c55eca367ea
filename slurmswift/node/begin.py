"""``begin``: what an attempt settles before it trains, on its first node."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import List, Optional, Tuple

from slurmswift.atomic import read_json, write_json
from slurmswift.checkpoints import Checkpoint, Expected, ResumePoint, find_resume_point
from slurmswift.checkpoints.aside import name_aside
from slurmswift.checkpoints.judging import IN_QUARANTINE
from slurmswift.domain.hostlist import expand
from slurmswift.domain.records import PassedOver, Rendezvous, StartRecord
from slurmswift.domain.run import Quarantined, parse_quarantine
from slurmswift.errors import StateError
from slurmswift.node.attempt import Attempt, RunFolder
from slurmswift.node.ending import write_exit
from slurmswift.node.fence import Fence
from slurmswift.node.interface import NoAddressError, address_of
from slurmswift.node.older import wait_until_over
from slurmswift.node.ports import NoPortError, free_port

# For the script: there is nothing to train (any more), and exit.json says why.
OVER = 100

# An agent sees within 10 s that it is superseded, on NFS within a minute more.
_PATIENCE_SECONDS = 300.0


def begin(arguments: List[str]) -> int:
    """Return 0 where the agents may start; OVER or 1 where exit.json is written already."""
    options = _parse(arguments)
    run, attempt = RunFolder(options.run_dir), Attempt.at(options.attempt_dir)
    start = attempt.start()
    fence = Fence(run, attempt.number, start.epoch)
    alive = wait_until_over(
        run,
        attempt.number,
        patience=options.patience,
        say=_say,
        why_closed=fence.why_closed,
    )
    closed = fence.why_closed()
    if closed is not None:
        return _end(attempt, 1, "fenced", f"superseded: {closed}")
    if alive is not None:
        return _end(attempt, 1, "preflight", f"an earlier attempt did not end: {alive}")
    try:
        quarantine = _quarantine(run)
    except StateError as error:
        return _end(attempt, 1, "preflight", str(error))
    nodes = expand(os.environ.get("SLURM_JOB_NODELIST", "")) or (start.batch_host,)
    resume = find_resume_point(
        options.checkpoint_dir,
        Expected(
            world_size=len(nodes) * options.ranks_per_node if options.ranks_per_node else None,
            quarantine=frozenset(item.path for item in quarantine),
        ),
    )
    over = _over_already(attempt, resume)
    if over is not None:
        return over
    others = [node for node in nodes if node != start.batch_host]
    try:
        address, port = address_of(options.interface, others), free_port()
    except (NoAddressError, NoPortError) as error:
        return _end(attempt, 1, "preflight", f"{start.batch_host}: {error}")
    mine = _is_below(options.checkpoint_dir, options.output_dir)
    passed_over = tuple(_passed_over(item, attempt, mine=mine) for item in resume.passed_over)
    settled = _settle(start, resume, passed_over, nodes, options.interface)
    settled = replace(settled, rendezvous=Rendezvous(start.batch_host, address, port))
    # The record first: whatever ends us between the two, the new names stand in it.
    write_json(attempt.start_file, settled.to_json())
    moved = tuple(map(_move_aside, passed_over))
    if moved != passed_over:
        settled = replace(settled, passed_over=moved)
        write_json(attempt.start_file, settled.to_json())
    _tell(settled)
    return 0


def _parse(arguments: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="node.pyz begin", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--attempt-dir", type=Path, required=True)
    parser.add_argument("--checkpoint-dir", type=Path, required=True)
    parser.add_argument("--output-dir", type=Path, required=True)
    parser.add_argument("--ranks-per-node", type=int, default=0)  # 0: not known
    parser.add_argument("--interface", default="")
    parser.add_argument("--patience", type=float, default=_PATIENCE_SECONDS)
    return parser.parse_args(arguments)


def _settle(
    start: StartRecord,
    resume: ResumePoint,
    passed_over: Tuple[PassedOver, ...],
    nodes: Tuple[str, ...],
    interface: str,
) -> StartRecord:
    chosen = resume.checkpoint
    return replace(
        start,
        nodes=nodes,
        resume_from=None if chosen is None else chosen.path,
        resume_step=None if chosen is None else chosen.step,
        passed_over=passed_over,
        interface=interface or None,
    )


def _quarantine(run: RunFolder) -> Tuple[Quarantined, ...]:
    """What the watcher has put there; a script that was only rendered has no watcher."""
    path = run.path / "run.json"
    try:
        return parse_quarantine(read_json(path), str(path))
    except FileNotFoundError:
        return ()


def _over_already(attempt: Attempt, resume: ResumePoint) -> Optional[int]:
    """End an attempt that has nothing to train, or that only a person may begin anew."""
    if resume.checkpoint is not None:
        if not resume.checkpoint.finished:
            return None
        # Resumed, it would train one step too many.
        return _end(attempt, 0, None, f"already finished: {resume.checkpoint.path}")
    for item in resume.passed_over:
        # Only the number of ranks is in the way: all of it would be trained again.
        if item.whole and item.unfit != IN_QUARANTINE:
            message = f"no checkpoint fits this run: {item.path}: {item.unfit}"
            return _end(attempt, 1, "preflight", message)
    return None


def _is_below(folder: Path, top: Path) -> bool:
    inner, outer = os.path.realpath(folder), os.path.realpath(top)
    return inner == outer or inner.startswith(f"{outer}/")


def _passed_over(checkpoint: Checkpoint, attempt: Attempt, *, mine: bool) -> PassedOver:
    """Say why, and where it is to go: what lies outside the run's output stays as it is."""
    aside = name_aside(Path(checkpoint.path), attempt.number) if mine else None
    return PassedOver(checkpoint.path, checkpoint.why_not, None if aside is None else str(aside))


def _move_aside(item: PassedOver) -> PassedOver:
    """Rename what is not gone on from, so that no trainer counts it, nor saves over its files."""
    if item.moved_to is None:
        return item
    try:
        Path(item.path).rename(item.moved_to)
    except OSError as error:
        _say(f"{item.path} cannot be moved aside: {error.strerror}")
        return replace(item, moved_to=None)
    return item


def _tell(start: StartRecord) -> None:
    for item in start.passed_over:
        moved = f"; it is now {Path(item.moved_to).name}" if item.moved_to else ""
        _say(f"passed over {item.path}: {item.why}{moved}")
    _say(
        "starts from the beginning"
        if start.resume_from is None
        else f"resumes from {start.resume_from} (step {start.resume_step})"
    )
    meeting = start.rendezvous
    if meeting is not None:
        _say(f"ranks meet on {meeting.node} at {meeting.address}:{meeting.port}")


def _end(attempt: Attempt, status: int, hint: Optional[str], message: str) -> int:
    write_exit(attempt, status=status, cause_hint=hint, message=message)
    _say(message)
    return OVER if hint in (None, "fenced") else status


def _say(message: str) -> None:
    sys.stdout.write(f"slurmswift: {message}\n")
    sys.stdout.flush()
