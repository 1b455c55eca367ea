"""The first cause of a failure, in whatever somebody has: a log, a folder of logs, a job, a run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from slurmswift.app.facts import attempt_facts, attempt_logs
from slurmswift.app.runs import find_run, read_state
from slurmswift.app.tools import Tools
from slurmswift.domain.diagnosis import AttemptFacts, LogText, diagnose, exit_code_of
from slurmswift.domain.long_log import Share
from slurmswift.errors import StateError, UsageError
from slurmswift.files import journal
from slurmswift.files.fast_literals import fast_finder
from slurmswift.files.log_bytes import read_log, read_stream
from slurmswift.files.run_directory import RunDirectory
from slurmswift.files.state_folder import IndexEntry
from slurmswift.slurm.client import JobStory

# Logs in a folder: what trainings and Slurm call them. A checkpoint beside them is not read.
_LOG_NAME = re.compile(r"\.(log|out|err|txt|stdout|stderr)(\.\d+)?(\.gz)?$|^(stdout|stderr)$")
_MAX_FILES = 4096
_LEAST_BYTES = 1 << 20
# Whose log a file of its own is: rank-3.log, rank_3.out, .../node-07.log.
_RANK_NAME = re.compile(r"(?:^|[^a-z])rank[-_.]?(\d{1,6})(?![\d])")
_NODE_NAME = re.compile(
    r"(?:^|[^a-z])(?:(?:node|host)[-_.](?=[A-Za-z0-9])|(?=(?:node|host)-?\d))([A-Za-z0-9-]+)\."
)
_JOB_ID = re.compile(r"^\d{1,10}$")


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody knows of the end besides the log; "" where nothing."""

    state: str = ""
    exit_code: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A diagnosis as --json prints it, what it was made from, and what was lacking."""

    diagnosis: Mapping[str, object]
    read: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())


def diagnose_what(wanted: str, asked: Asked, tools: Tools, stdin: BinaryIO) -> Answer:
    """Diagnose a file, ``-``, a folder, a run, or a job id, whichever ``wanted`` is.

    A path that exists goes before a run of that name, a run before a job id. StateError where
    there is nothing of that name, UsageError for an exit code that is none.
    """
    if asked.exit_code and exit_code_of(asked.exit_code) is None:
        raise UsageError(
            f"--exit-code {asked.exit_code!r}: write it as sacct does, STATUS or STATUS:SIGNAL"
        )
    if wanted == "-":
        kept = read_stream(stdin)
        return _of_logs((kept.as_text("stdin"),), asked)
    path = Path(wanted)
    if path.is_dir():
        if (path / "run.json").is_file():
            return _of_run(RunDirectory(path), asked)
        return _of_logs(_logs_below(path), asked)
    if os.path.lexists(path):
        return _of_logs((_log(path, wanted),), asked)
    if _JOB_ID.match(wanted):
        run = _run_of_job(wanted, tools)
        return _of_job(wanted, asked, tools) if run is None else _of_run(run, asked)
    try:
        entry = find_run(tools.state, wanted)
    except StateError as error:
        raise StateError(f"no file, folder or job of that name, and {error}") from error
    return _of_run(RunDirectory(entry.run_dir), asked)


def _of_logs(logs: tuple[LogText, ...], asked: Asked, *, notes: tuple[str, ...] = ()) -> Answer:
    facts = AttemptFacts(slurm_state=asked.state or None, exit_code=exit_code_of(asked.exit_code))
    return Answer(
        diagnose(logs, facts, finder_of=fast_finder).to_json(),
        tuple(log.name for log in logs),
        notes,
    )


def _answer(logs: tuple[LogText, ...], facts: AttemptFacts, notes: tuple[str, ...]) -> Answer:
    diagnosis = diagnose(logs, facts, finder_of=fast_finder)
    return Answer(diagnosis.to_json(), tuple(log.name for log in logs), notes)


def _log(path: Path, name: str) -> LogText:
    try:
        kept = read_log(path, follow=True)
    except OSError as error:
        raise StateError(f"{name}: {error.strerror or error}") from error
    return kept.as_text(name)


def _logs_below(folder: Path) -> tuple[LogText, ...]:
    """Every log of a folder, none through a link; together no more than one log may hold."""
    paths = sorted(_log_files(folder))
    if not paths:
        raise StateError(f"{folder}: no logs in it (files named *.log, *.out, *.err, *.txt)")
    if len(paths) > _MAX_FILES:
        raise StateError(f"{folder}: {len(paths)} logs; name a folder of at most {_MAX_FILES}")
    logs, share = [], _share_of(len(paths))
    for path in paths:
        name = str(path.relative_to(folder))
        try:
            kept = read_log(path, share=share)
        except OSError:  # a link, a pipe, another user's: not a log of this folder
            continue
        rank, node = _RANK_NAME.search(name.lower()), _NODE_NAME.search(name)
        owner = (int(rank[1]) if rank else None, node[1] if node else None)
        logs.append(kept.as_text(name, *owner))
    if not logs:
        raise StateError(f"{folder}: none of its logs can be read")
    return tuple(logs)


def _share_of(files: int) -> Share:
    """Share among all files what one may hold."""
    one = Share()
    return Share(*(max(_LEAST_BYTES, most // files) for most in (one.head, one.middle, one.tail)))


def _log_files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names if _LOG_NAME.search(name))


def _run_of_job(job_id: str, tools: Tools) -> RunDirectory | None:
    for entry in reversed(tools.state.entries()):
        if _has_job(entry, job_id):
            return RunDirectory(entry.run_dir)
    return None


def _has_job(entry: IndexEntry, job_id: str) -> bool:
    try:
        state = read_state(entry)
    except StateError:
        return False
    return job_id in (state.job_id, *(end.job_id for end in state.ends))


def _of_run(run: RunDirectory, asked: Asked) -> Answer:
    """What was decided upon, as ``why`` shows it; where the end is not judged yet, a look now."""
    attempts = run.attempts()
    if not asked.state and not asked.exit_code:
        decided = [line for line in journal.read(run.journal) if line.get("event") == "decided"]
        last = decided[-1] if decided else None
        newest = max((attempt.number for attempt in attempts), default=0)
        if last is not None and last.get("attempt") in (newest, 0):
            diagnosis = last.get("diagnosis")
            if isinstance(diagnosis, dict):
                return Answer(diagnosis, (str(run.journal),))
    if not attempts:
        raise StateError(f"{run.path.name}: no attempt has started yet, so there is no log")
    attempt = attempts[-1]
    logs = attempt_logs(run, attempt, attempt.start(), attempt.job_id)
    facts = attempt_facts(
        attempt, slurm_state=asked.state or None, exit_code=exit_code_of(asked.exit_code)
    )
    notes = (
        ()
        if attempt.exit() or asked.state
        else (f"attempt {attempt.number} left no exit record: it may still run",)
    )
    return Answer(
        diagnose(logs, facts, finder_of=fast_finder).to_json(),
        tuple(log.name for log in logs),
        notes,
    )


def _of_job(job_id: str, asked: Asked, tools: Tools) -> Answer:
    """A job that slurmswift never saw: its log and its end by Slurm's own word."""
    story = tools.slurm.story(job_id)
    if story is None:
        raise StateError(f"Slurm knows no job {job_id} of yours, and there is no file of that name")
    known = Asked(asked.state or story.state, asked.exit_code or story.exit_code)
    logs, notes = [], []
    for place in dict.fromkeys(filter(None, (story.stdout, story.stderr))):
        try:
            logs.append(_log(Path(place), place))
        except StateError as error:
            notes.append(f"job {job_id}'s log: {error}")
    if not logs:
        raise StateError(_no_log(story, notes))
    return _of_logs(tuple(logs), known, notes=tuple(notes))


def _no_log(story: JobStory, notes: list[str]) -> str:
    ended = f"job {story.job_id} ended {story.state} {story.exit_code}".rstrip()
    where = "; ".join(notes) or "Slurm no longer tells where its log is"
    example = f"slurmswift diagnose LOG --state {story.state.split()[0]}" if story.state else ""
    code = f" --exit-code {story.exit_code}" if example and story.exit_code else ""
    return f"{ended}; {where}; name the log itself: {example or 'slurmswift diagnose LOG'}{code}"
