"""``begin``: what an attempt settles before it trains, on its first node."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import List, Optional, Tuple

from slurmswift.atomic import write_json
from slurmswift.checkpoints import Checkpoint, ResumePoint, find_resume_point
from slurmswift.domain.hostlist import expand
from slurmswift.domain.records import PassedOver, Rendezvous, StartRecord
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
    resume = find_resume_point(options.checkpoint_dir)
    if resume.checkpoint is not None and resume.checkpoint.finished:
        # Resumed, it would train one step too many.
        return _end(attempt, 0, None, f"already finished: {resume.checkpoint.path}")
    nodes = expand(os.environ.get("SLURM_JOB_NODELIST", "")) or (start.batch_host,)
    others = [node for node in nodes if node != start.batch_host]
    try:
        address, port = address_of(options.interface, others), free_port()
    except (NoAddressError, NoPortError) as error:
        return _end(attempt, 1, "preflight", f"{start.batch_host}: {error}")
    passed_over = tuple(_move_aside(item, attempt.number) for item in resume.passed_over)
    settled = _settle(start, resume, passed_over, nodes, options.interface)
    settled = replace(settled, rendezvous=Rendezvous(start.batch_host, address, port))
    write_json(attempt.start_file, settled.to_json())
    _tell(settled)
    return 0


def _parse(arguments: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="node.pyz begin", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--attempt-dir", type=Path, required=True)
    parser.add_argument("--checkpoint-dir", type=Path, required=True)
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


def _move_aside(checkpoint: Checkpoint, attempt: int) -> PassedOver:
    """Rename what is not whole, so that no trainer counts it, nor saves over its left-overs.

    Hugging Face's rotation takes every ``checkpoint-*`` for one to keep, and removes a good one
    for it. Nothing is lost: the folder keeps its files under a name of its own.
    """
    path = Path(checkpoint.path)
    aside = path.with_name(f".bad-{path.name}-{attempt:03d}")
    try:
        path.rename(aside)
    except OSError as error:
        _say(f"{path} cannot be moved aside: {error.strerror}")
        return PassedOver(checkpoint.path, _why(checkpoint))
    return PassedOver(checkpoint.path, _why(checkpoint), str(aside))


def _why(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.state.value}: " + "; ".join(checkpoint.problems[:5])


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
