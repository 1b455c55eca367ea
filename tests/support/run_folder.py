"""Builds run directories as submit and the script leave them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from slurmswift.atomic import write_json
from slurmswift.domain.records import (
    End,
    ExitRecord,
    Grant,
    NodeRecord,
    Rendezvous,
    SlurmLog,
    StartRecord,
)
from slurmswift.node.attempt import Attempt, RunFolder


def make_run(path: Path, *, epoch: int = 1, job_id: str | None = None) -> RunFolder:
    for folder in ("attempts", "claims", "output"):
        (path / folder).mkdir(parents=True)
    write_json(path / "run.json", {"schema": 1, "run_id": path.name, "status": "RUNNING"})
    grant_to(path, epoch=epoch, job_id=job_id)
    return RunFolder(path)


def grant_to(path: Path, *, epoch: int, job_id: str | None = None, last_attempt: int = 50) -> None:
    grant = Grant(epoch, "testcluster", job_id, last_attempt, "submit", 1.0)
    write_json(path / "grant.json", grant.to_json())


def make_attempt(
    run: RunFolder,
    number: int,
    *,
    epoch: int = 1,
    nodes: Sequence[str] = ("n1",),
    interface: str | None = None,
) -> Attempt:
    (run.attempts_folder / f".claim-{number:03d}").mkdir()
    attempt = Attempt(run.attempts_folder / f"{number:03d}-7", number)
    attempt.nodes.mkdir(parents=True)
    start = StartRecord(
        attempt=number,
        epoch=epoch,
        cluster="testcluster",
        job_id="7",
        restart_count=0,
        nodes=tuple(nodes),
        batch_host=nodes[0],
        started_at=time.time(),
        slurm_log=SlurmLog(str(run.path / "slurm-7.out"), 0),
        resume_from=None,
        resume_step=None,
        passed_over=(),
        rendezvous=Rendezvous(nodes[0], "127.0.0.1", 20001),
        interface=interface,
    )
    write_json(attempt.start_file, start.to_json())
    return attempt


def leave_record(
    attempt: Attempt,
    node: str,
    *,
    status: int | None = 0,
    signal: int | None = None,
    fenced: str | None = None,
    ended_at: float = 2.0,
) -> None:
    record = NodeRecord(node, 0, End(status, signal), (), None, fenced, None, 1.0, ended_at)
    write_json(attempt.node_file(node), record.to_json())


def leave_exit(attempt: Attempt, *, status: int = 1) -> None:
    record = ExitRecord(status, status, 1, 1, (), "training", None, 3.0)
    write_json(attempt.exit_file, record.to_json())


def age(path: Path, seconds: float) -> None:
    """Make a file, or a folder, look last changed so long ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))
