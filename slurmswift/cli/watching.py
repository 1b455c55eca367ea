"""`watch`, `watch --once` and `submit --watch`: the lease, the log, the exit status."""

from __future__ import annotations

import logging
import signal

from slurmswift.app.runs import find_run, read_state
from slurmswift.app.tools import Tools
from slurmswift.cli import output
from slurmswift.daemon.loop import Stopping, ask_cluster, one_pass, wait_for_cluster, watch_loop
from slurmswift.domain.lifecycle import AT_REST, RunStatus
from slurmswift.errors import ExitStatus
from slurmswift.files.lease import Lease
from slurmswift.files.state_folder import IndexEntry

SIGNAL_BASE = 128
WATCH_INTERVAL = 60.0


class _Terminal(logging.Handler):
    """Log lines carry Slurm's and the jobs' words: cleaned like everything shown."""

    def emit(self, record: logging.LogRecord) -> None:
        output.warn(self.format(record))


def _start_log() -> None:
    handler = _Terminal()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S"))
    root = logging.getLogger("slurmswift")
    root.handlers = [handler]
    root.setLevel(logging.INFO)


def once(tools: Tools, *, as_json: bool) -> int:
    """One pass. Where another watcher is at work there is nothing to do, and that is no error."""
    _start_log()
    cluster = ask_cluster(tools)
    if cluster is None:
        return int(ExitStatus.SLURM_UNAVAILABLE)
    lease = Lease(tools.state.watch_folder(cluster))
    with lease.held() as mine:
        if not mine:
            return _already_watched(lease, as_json=as_json)
        report = one_pass(tools, lease)
    if report is None:
        return int(ExitStatus.SLURM_UNAVAILABLE)
    if as_json:
        body = {"acted": True, "changes": list(report.lines), "troubles": list(report.troubles)}
        output.say_json({**body, "open_runs": [entry.run_id for entry in report.open_runs]})
    return int(ExitStatus.OK)


def loop(tools: Tools, interval: float) -> int:
    """Watch until a signal says stop."""
    _start_log()
    stopping = Stopping()
    stopping.install()
    cluster = wait_for_cluster(tools, stopping, interval)
    if cluster is None:
        return SIGNAL_BASE + (stopping.signal or signal.SIGINT)
    lease = Lease(tools.state.watch_folder(cluster))
    with lease.held() as mine:
        if not mine:
            return _already_watched(lease, as_json=False)
        output.warn(f"watching every {interval:g} s (stop with Ctrl-C)")
        watch_loop(tools, lease, stopping, interval=interval, until=lambda: not lease.still_mine())
    if stopping.signal is not None:
        return SIGNAL_BASE + stopping.signal
    output.warn("another watcher took over; this one stops")
    return int(ExitStatus.OK)


def watch_until_over(tools: Tools, run_id: str) -> int:
    """Watch (or, where another watcher does, look on) until the run is over; 0 if completed."""
    _start_log()
    stopping = Stopping()
    stopping.install()
    entry = find_run(tools.state, run_id)

    def over() -> bool:
        return read_state(entry).status in AT_REST

    lease = Lease(tools.state.watch_folder(entry.cluster))
    while not over() and not stopping.event.is_set():
        with lease.held() as mine:
            if mine:
                watch_loop(tools, lease, stopping, interval=WATCH_INTERVAL, until=over)
        stopping.event.wait(0.0 if over() else 5.0)
    if not over():
        return SIGNAL_BASE + (stopping.signal or signal.SIGINT)
    return _tell_end(entry, as_json=False)


def wait_until_over(tools: Tools, wanted: str, interval: float, *, as_json: bool) -> int:
    """Look at the run's state until it is over; somebody else watches."""
    entry = find_run(tools.state, wanted)
    watchers = Lease(tools.state.watch_folder(entry.cluster))
    if read_state(entry).status not in AT_REST and watchers.holder() is None:
        output.warn("nobody is watching: run `slurmswift watch`, or this waits for the next pass")
    while read_state(entry).status not in AT_REST:
        tools.sleep(interval)
    return _tell_end(entry, as_json=as_json)


def _tell_end(entry: IndexEntry, *, as_json: bool) -> int:
    state = read_state(entry)
    if as_json:
        body = {"run_id": state.run_id, "status": state.status.value, "reason": state.reason}
        output.say_json(body)
    else:
        output.say(f"{state.run_id}: {state.status.value}: {state.reason}")
    completed = state.status is RunStatus.COMPLETED
    return int(ExitStatus.OK if completed else ExitStatus.RUN_FAILED)


def _already_watched(lease: Lease, *, as_json: bool) -> int:
    holder = lease.holder() or "another watcher"
    if as_json:
        output.say_json({"acted": False, "changes": [], "troubles": [], "holder": holder})
    else:
        output.warn(f"{holder} is watching already")
    return int(ExitStatus.OK)
