"""The watcher's loop: a pass, then a wait that the jobs' own records cut short."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType

from slurmswift.app.tools import Tools
from slurmswift.app.watch_pass import PassReport, run_pass
from slurmswift.errors import SlurmswiftError, SlurmUnavailableError
from slurmswift.files.lease import Lease
from slurmswift.files.run_directory import RunDirectory
from slurmswift.files.state_folder import IndexEntry

log = logging.getLogger(__name__)

RECORD_SECONDS = 2.0  # how often the shared file system is asked for new records
LEAST_SECONDS = 5.0  # between two looks at Slurm, whatever the records say
LONGEST_SECONDS = 300.0  # the wait between looks while Slurm does not answer


class Stopping:
    """Set by SIGTERM and SIGINT: the pass under way is finished, and no other begun."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.signal: int | None = None

    def install(self) -> None:
        signal.signal(signal.SIGTERM, self._handle)
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        self.event.set()


def ask_cluster(tools: Tools) -> str | None:
    """Return the name of the cluster at hand; None, and a line in the log, without an answer."""
    try:
        return tools.slurm.cluster_name()
    except SlurmUnavailableError as error:
        log.warning("slurm does not answer, nothing is changed: %s", error)
        return None


def wait_for_cluster(tools: Tools, stopping: Stopping, interval: float) -> str | None:
    """Return its name as soon as Slurm answers; None where a signal came first."""
    wait = interval
    while not stopping.event.is_set():
        cluster = ask_cluster(tools)
        if cluster is not None:
            return cluster
        stopping.event.wait(wait)
        wait = min(wait * 2, LONGEST_SECONDS)
    return None


def watch_loop(
    tools: Tools, lease: Lease, stopping: Stopping, *, interval: float, until: Callable[[], bool]
) -> None:
    """Pass after pass until ``until`` says so or a signal came. Holds the lease already."""
    wait = interval
    while not stopping.event.is_set() and not until():
        report = one_pass(tools, lease)
        if report is None:
            wait = min(max(wait, interval) * 2, LONGEST_SECONDS)
            stopping.event.wait(wait)
            continue
        wait = interval
        _wait_for_news(report.open_runs, stopping, interval)


def one_pass(tools: Tools, lease: Lease) -> PassReport | None:
    """Run a pass and log what changed; None where Slurm did not answer."""
    try:
        report = run_pass(tools, lease.still_mine)
    except SlurmUnavailableError as error:
        log.warning("slurm does not answer, nothing is changed: %s", error)
        return None
    except (SlurmswiftError, OSError) as error:
        log.warning("the pass could not be made, nothing is changed: %s", error)
        return None
    for line in report.lines:
        log.info("%s", line)
    for trouble in report.troubles:
        log.warning("%s", trouble)
    return report


def _wait_for_news(entries: tuple[IndexEntry, ...], stopping: Stopping, interval: float) -> None:
    """Wait for the interval, less where a job's record says that something ended."""
    before = _records(entries)
    fresh_end = any(ended for _, ended in before.values())
    # An end on record that Slurm has not confirmed yet is confirmed within seconds.
    limit = LEAST_SECONDS if fresh_end else interval
    waited = 0.0
    while waited < limit and not stopping.event.wait(min(RECORD_SECONDS, limit)):
        waited += RECORD_SECONDS
        if waited >= LEAST_SECONDS and _records(entries) != before:
            return


def _records(entries: tuple[IndexEntry, ...]) -> dict[str, tuple[str, bool]]:
    """The newest attempt of each run, and whether it left a record that no pass has concluded."""
    found = {}
    for entry in entries:
        run = RunDirectory(entry.run_dir)
        try:
            attempts, concluded = run.attempts(), run.read_state().ends
        except (SlurmswiftError, OSError):
            continue
        newest = attempts[-1] if attempts else None
        ended = newest is not None and (newest.path / "exit.json").exists()
        if ended and newest is not None and concluded:
            ended = concluded[-1].attempt < newest.number
        found[entry.run_id] = (str(newest.path if newest else None), ended)
    return found
