"""Gathers what an attempt left behind, and has it diagnosed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slurmswift.checkpoints import find_resume_point
from slurmswift.domain.diagnosis import AttemptFacts, Diagnosis, LogText, diagnose
from slurmswift.domain.phase import Over
from slurmswift.domain.records import ExitRecord, StartRecord
from slurmswift.domain.run import KnownCheckpoint
from slurmswift.domain.steps import last_step
from slurmswift.files.fast_literals import fast_finder
from slurmswift.files.log_bytes import read_log
from slurmswift.files.run_directory import AttemptDirectory, RunDirectory

_STEP_BYTES = 1 << 20  # the last step stands near a log's end


@dataclass(frozen=True, slots=True)
class AttemptStory:
    """One attempt that is over, with everything that tells why."""

    directory: AttemptDirectory | None
    start: StartRecord | None
    exit: ExitRecord | None
    diagnosis: Diagnosis
    missing: tuple[str, ...]  # records that should be there and are not
    last_step: int | None = None  # that the training's log speaks of

    @property
    def succeeded(self) -> bool:
        """Success needs the job's own witness: COMPLETED in Slurm's words alone is none."""
        return self.exit is not None and self.exit.status == 0

    @property
    def seconds(self) -> float | None:
        if self.start is None or self.exit is None:
            return None
        return self.exit.ended_at - self.start.started_at


def attempt_story(run: RunDirectory, job_id: str, restart_count: int, over: Over) -> AttemptStory:
    """Read the records and logs of one attempt, and name the first cause of its end."""
    directory = run.attempt_of(job_id, restart_count)
    start = directory.start() if directory else None
    facts = attempt_facts(
        directory,
        slurm_state="OUT_OF_MEMORY" if over.out_of_memory else over.state.value,
        exit_code=over.exit_code,
    )
    logs = attempt_logs(run, directory, start, job_id)
    diagnosis = diagnose(logs, facts, finder_of=fast_finder)
    ended = facts.exit_record
    missing = [] if ended else ["exit.json"]
    reported = {record.node for record in facts.node_records}
    missing += [f"nodes/{node}.json" for node in facts.nodes if node not in reported]
    return AttemptStory(
        directory,
        start,
        ended,
        diagnosis,
        tuple(missing if directory else ()),
        last_step(logs[0].data[-_STEP_BYTES:]) if directory and logs else None,
    )


def attempt_facts(
    directory: AttemptDirectory | None,
    *,
    slurm_state: str | None,
    exit_code: tuple[int, int] | None,
) -> AttemptFacts:
    """Return what is known of an attempt besides its logs: Slurm's word, and its own records."""
    if directory is None:
        return AttemptFacts(slurm_state, exit_code, left_no_attempt=True)
    start, ending = directory.start(), directory.ending()
    return AttemptFacts(
        slurm_state=slurm_state,
        exit_code=exit_code,
        exit_record=directory.exit(),
        node_records=directory.node_records(),
        nodes=start.nodes if start else (),
        ending_signal=ending.signal if ending else None,
        preflight=directory.preflight(),
    )


def attempt_logs(
    run: RunDirectory, directory: AttemptDirectory | None, start: StartRecord | None, job_id: str
) -> tuple[LogText, ...]:
    """This attempt's own bytes: its job.log, and Slurm's log from where it stood at the start."""
    logs = []
    if directory is not None:
        relative = f"attempts/{directory.path.name}/job.log"
        logs += _log_text(relative, directory.log, 0)
    slurm_log = run.slurm_log(job_id)
    logs += _log_text(slurm_log.name, slurm_log, start.slurm_log.offset if start else 0)
    return tuple(logs)


def newest_checkpoint(folder: Path) -> KnownCheckpoint | None:
    """Return the newest whole checkpoint below the folder, None where there is none."""
    if not folder.is_dir():
        return None
    found = find_resume_point(str(folder)).checkpoint
    return None if found is None else KnownCheckpoint(str(found.path), found.step)


def _log_text(name: str, path: Path, offset: int) -> list[LogText]:
    """Read a log that a job wrote: a regular file only, bounded, and never through a link."""
    try:
        kept = read_log(path, offset=offset)
    except OSError:
        return []
    return [kept.as_text(name)]
