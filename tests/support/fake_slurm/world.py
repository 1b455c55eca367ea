"""The fake's memory: its clock, its jobs, what goes wrong next. Standard library only."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

START = 1_750_000_000.0  # 2025-06-15T15:06:40 UTC
MIN_JOB_AGE = 300.0
FINAL = ("COMPLETED", "CANCELLED", "FAILED", "NODE_FAIL", "TIMEOUT")


@dataclass
class Row:
    """One attempt of a job as accounting keeps it."""

    state: str = "PENDING"
    code: str = "0:0"
    submit: float = 0.0
    start: float | None = None
    end: float | None = None
    nodes: str = ""
    canceller: int | None = None


@dataclass
class Job:
    """One job: its present attempt, and the rows of those before."""

    job_id: str
    name: str
    script: str
    arguments: list[str]
    row: Row
    restarts: int = 0
    held: bool = False
    exclude: str = ""
    past: list[Row] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return self.row.state in FINAL

    @property
    def waits(self) -> bool:
        return self.row.state == "PENDING" and not self.held


@dataclass
class World:
    """Everything the fake knows."""

    now: float = START
    next_id: int = 1
    jobs: list[Job] = field(default_factory=list)
    faults: list[list[str]] = field(default_factory=list)  # (beginning of a call, fault)
    late: list[list[Any]] = field(default_factory=list)  # (from when, script, arguments, exclude)
    calls: list[str] = field(default_factory=list)

    def job(self, job_id: str) -> Job | None:
        """The newest job of that id: ids are used again after a loss of state."""
        return next((job for job in reversed(self.jobs) if job.job_id == job_id), None)

    def remembered(self, job: Job) -> bool:
        """Whether slurmctld still knows it."""
        end = job.row.end
        return self.job(job.job_id) is job and (end is None or self.now - end <= MIN_JOB_AGE)

    def add(self, script: str, arguments: list[str], exclude: str, name: str) -> Job:
        row = Row(submit=self.now)
        job = Job(str(self.next_id), name, script, arguments, row, exclude=exclude)
        self.next_id += 1
        self.jobs.append(job)
        return job

    def end(self, job: Job, state: str, code: str = "0:0", canceller: int | None = None) -> None:
        job.row.state, job.row.code, job.row.canceller = state, code, canceller
        job.row.end = self.now

    def requeue(self, job: Job, *, hold: bool) -> None:
        if not job.over:
            self.end(job, "REQUEUED")
        job.past.append(job.row)
        job.row = Row(submit=self.now)
        job.restarts += 1
        job.held = hold

    def fault(self, call: str) -> str:
        """What goes wrong with this call; used up by it, unless it is for good (a `*`)."""
        for fault in self.faults:
            if call.startswith(f"{fault[0]} "):
                if not fault[1].endswith("*"):
                    self.faults.remove(fault)
                return fault[1].rstrip("*")
        return ""


class WorldFile:
    """The world on disk, one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "world.json"

    def create(self) -> None:
        self._file.write_text(json.dumps(asdict(World())))

    @contextlib.contextmanager
    def open(self) -> Iterator[World]:
        """The world, and written back unless an exception leaves the block."""
        with (self.folder / "world.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            body = json.loads(self._file.read_text())
            jobs = [_job(item) for item in body.pop("jobs")]
            world = World(jobs=jobs, **body)
            yield world
            text = json.dumps(asdict(world))
            if text != self._file.read_text():
                beside = self.folder / "world.new"
                beside.write_text(text)
                beside.rename(self._file)

    def now(self) -> float:
        """The fake's time. Reads without the lock: a renamed file is whole."""
        return float(json.loads(self._file.read_text())["now"])


def _job(item: dict[str, Any]) -> Job:
    row, past = Row(**item.pop("row")), [Row(**each) for each in item.pop("past")]
    return Job(row=row, past=past, **item)
