"""A run's directory on the shared file system: every path in it, and who may write what."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from slurmswift.atomic import create_once, fill_directory, read_json, read_regular, write_json
from slurmswift.domain.plan import Plan
from slurmswift.domain.preflight import PreflightRecord
from slurmswift.domain.records import (
    SCHEMA,
    Ending,
    ExitRecord,
    Grant,
    NodeRecord,
    StartRecord,
)
from slurmswift.domain.run import RunState
from slurmswift.errors import StateError

LARGEST_UMASK = 0o777
_ATTEMPT_NAME = re.compile(r"^(\d{3,})-(\d+)$")
_EPOCH_NAME = re.compile(r"^EPOCH-(\d{4,})$")

T = TypeVar("T")

ABOUT = """\
This is the directory of one run of slurmswift.
`slurmswift status {run_id}` tells how it stands, `slurmswift why {run_id}` how it came to that.

recipe.yaml plan.json job.sbatch setup.sh environment.json node.pyz   asked, decided, submitted
run.json journal.jsonl grant.json stop                                kept by slurmswift
slurm-JOBID.out                                                       Slurm's own words
attempts/NNN-JOBID/                                                   one execution: log and records
output/                                                               the training's output

Do not edit anything here while the run is not over.
"""


@dataclass(frozen=True, slots=True)
class AttemptDirectory:
    """What one execution of a run left behind."""

    path: Path
    number: int
    job_id: str

    def start(self) -> StartRecord | None:
        return _read_record(self.path / "start.json", StartRecord.parse)

    def exit(self) -> ExitRecord | None:
        return _read_record(self.path / "exit.json", ExitRecord.parse)

    def preflight(self) -> PreflightRecord | None:
        return _read_record(self.path / "preflight.json", PreflightRecord.parse)

    def ending(self) -> Ending | None:
        return _read_record(self.path / "ending.json", Ending.parse)

    def node_records(self) -> tuple[NodeRecord, ...]:
        """The nodes' own records, in the order of their rank."""
        records = []
        for path in sorted((self.path / "nodes").glob("*.json")):
            record = _read_record(path, NodeRecord.parse)
            if record is not None:
                records.append(record)
        return tuple(sorted(records, key=lambda record: record.node_rank))

    @property
    def log(self) -> Path:
        return self.path / "job.log"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """One run's directory. Reading a damaged file raises StateError; nothing is guessed."""

    path: Path

    @property
    def script(self) -> Path:
        return self.path / "job.sbatch"

    @property
    def recipe(self) -> Path:
        return self.path / "recipe.yaml"

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def state_file(self) -> Path:
        return self.path / "run.json"

    @property
    def stop_file(self) -> Path:
        return self.path / "stop"

    def slurm_log(self, job_id: str) -> Path:
        return self.path / f"slurm-{job_id}.out"

    def was_turned_away(self, job_id: str) -> bool:
        """Whether the gate said so to that job, of another epoch than the granted one."""
        try:
            log = read_regular(self.slurm_log(job_id))
        except (OSError, StateError):
            return False
        return b"was granted, this is epoch " in log

    def read_state(self) -> RunState:
        state = _read_record(self.state_file, RunState.parse)
        if state is None:
            raise StateError(f"{self.state_file}: missing: this is not a run, or it is damaged")
        return state

    def write_state(self, state: RunState) -> None:
        write_json(self.state_file, state.to_json())

    def read_plan(self) -> Plan:
        plan = _read_record(self.path / "plan.json", Plan.from_json)
        if plan is None:
            raise StateError(f"{self.path / 'plan.json'}: missing: the run directory is damaged")
        return plan

    def read_umask(self) -> int:
        """The umask that the user's shell had: sbatch hands it on to the job."""
        body = _load(self.path / "environment.json")
        umask = body.get("umask") if isinstance(body, dict) else None
        return umask if isinstance(umask, int) and 0 <= umask <= LARGEST_UMASK else -1

    def read_environment(self) -> dict[str, str]:
        path = self.path / "environment.json"
        body = _load(path)
        variables = body.get("variables") if isinstance(body, dict) else None
        if not isinstance(variables, dict) or not all(
            isinstance(value, str) for value in variables.values()
        ):
            raise StateError(f"{path}: missing or damaged: the run cannot be submitted again")
        return dict(variables)

    def read_grant(self) -> Grant | None:
        return _read_record(self.path / "grant.json", Grant.parse)

    def write_grant(self, grant: Grant) -> None:
        write_json(self.path / "grant.json", grant.to_json())

    def claim_epoch(self) -> int:
        """Take the next epoch number: whoever makes its directory has it, nobody else ever will."""
        claims = self.path / "claims"
        claims.mkdir(mode=0o700, exist_ok=True)
        taken = [int(m.group(1)) for p in claims.iterdir() if (m := _EPOCH_NAME.match(p.name))]
        epoch = max(taken, default=0) + 1
        while True:
            try:
                (claims / f"EPOCH-{epoch:04d}").mkdir(mode=0o700)
            except FileExistsError:
                epoch += 1
            else:
                return epoch

    def stop_requested(self) -> bool:
        return self.stop_file.exists()

    def request_stop(self, *, by: str, at: float) -> None:
        """Leave the word that ends the run for good; it stays as first said."""
        word = {"schema": SCHEMA, "by": by, "at": at}
        create_once(self.stop_file, json.dumps(word).encode() + b"\n")

    def attempts(self) -> tuple[AttemptDirectory, ...]:
        """Every attempt, oldest first."""
        folder = self.path / "attempts"
        found = []
        for path in folder.iterdir() if folder.is_dir() else ():
            match = _ATTEMPT_NAME.match(path.name)
            if match and stat.S_ISDIR(path.lstat().st_mode):
                found.append(AttemptDirectory(path, int(match.group(1)), match.group(2)))
        return tuple(sorted(found, key=lambda attempt: (attempt.number, attempt.job_id)))

    def attempt_of(self, job_id: str, restart_count: int) -> AttemptDirectory | None:
        """The directory of one attempt: by its record, for a job's restarts share their id."""
        for attempt in reversed(self.attempts()):
            if attempt.job_id != job_id:
                continue
            start = attempt.start()
            if start is not None and start.restart_count == restart_count:
                return attempt
        return None

    def jobs_past_the_gate(self, epoch: int) -> list[str]:
        """The jobs that began an attempt under an epoch, in the order of their attempts."""
        found = []
        for attempt in self.attempts():
            start = attempt.start()
            if start is not None and start.epoch == epoch:
                found.append(attempt.job_id)
        return found


def create(path: Path, files: dict[str, bytes]) -> RunDirectory:
    """Make a run's directory with everything that is never rewritten, private to its owner."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError as error:
        raise StateError(f"{path}: exists already; nothing was written") from error
    for folder in ("attempts", "claims", "output"):
        (path / folder).mkdir(mode=0o700)
    fill_directory(path, files)
    return RunDirectory(path)


def _load(path: Path) -> object:
    try:
        return read_json(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror or error}") from error


def _read_record(path: Path, parse: Callable[[object, str], T]) -> T | None:
    body = _load(path)
    return None if body is None else parse(body, str(path))
