"""``agent``: one a node, started by srun. Starts the launcher, watches it, leaves the record."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional

from slurmswift.atomic import write_json
from slurmswift.domain.records import End, Interface, NodeRecord, StartRecord
from slurmswift.errors import StateError
from slurmswift.node.attempt import Attempt, RunFolder
from slurmswift.node.beat import Beat
from slurmswift.node.fence import Fence
from slurmswift.node.interface import link_state
from slurmswift.node.launcher import Launcher, launch_environment
from slurmswift.node.peers import PeerWatch, report_failure
from slurmswift.node.processes import become_subreaper, kill_below
from slurmswift.node.ranks import RankWatch, split_wait_status
from slurmswift.node.saving import SaveRequest
from slurmswift.node.term import TermRelay

FENCED = 101
MAX_STATUS = 120
_NO_SUCH_COMMAND = 127


@dataclass(frozen=True)
class Periods:
    """How often and how long, in seconds. The defaults are part of the fence: see older.py."""

    beat: float = 10.0
    silence: float = 20.0  # without a touch of .alive for so long, the ranks are killed
    look: float = 10.0  # at the grant, at other attempts, at the other nodes
    scan: float = 1.0  # for new ranks, and for a request to save
    poll: float = 0.2
    neighbour: float = 40.0  # longer than it takes an agent that cannot write to end its ranks
    # After another node's failure: time for the ranks here to fail by themselves and say why
    # (a gloo or NCCL time-out), before they are ended.
    peer: float = 20.0
    peer_term: float = 10.0
    term: float = 0.5
    kill: float = 10.0


class Agent:
    """One node's part of one attempt."""

    def __init__(
        self,
        run: RunFolder,
        attempt: Attempt,
        *,
        node: str,
        node_rank: int,
        periods: Optional[Periods] = None,
    ) -> None:
        self._run = run
        self._attempt = attempt
        self._node = node
        self._node_rank = node_rank
        self._periods = periods or Periods()
        self._start: StartRecord = attempt.start()
        self._fence = Fence(run, attempt.number, self._start.epoch)
        self._ranks = RankWatch()
        self._saving = SaveRequest(attempt, self._ranks, self._say)
        self._launcher: Optional[Launcher] = None
        self._link: Optional[Interface] = None
        self._fenced: Optional[str] = None
        self._started_at = time.time()
        self._term = TermRelay(os.environ, delay=self._periods.term)
        self._peers = PeerWatch(
            attempt,
            self._start.nodes,
            node,
            silence=self._periods.neighbour,
            grace=self._periods.peer,
            term_grace=self._periods.peer_term,
        )
        self._record_lock = threading.Lock()
        self._recorded = False
        self._beat = Beat(
            attempt.alive_file(node),
            period=self._periods.beat,
            patience=self._periods.silence,
            on_silence=self._end_from_guard,
        )

    def run(self) -> int:
        """Return what srun is to see: the launcher's status, FENCED, at most MAX_STATUS."""
        become_subreaper()
        self._take_signals()
        # In this order: a newer attempt that finds no sign of life here trains, and from its
        # claim on the fence is closed for us.
        self._beat.start()
        self._term.start()
        self._fenced = self._fenced or self._why_fenced()
        if self._fenced is None:
            self._watch(self._launch())
        if self._fenced is not None:
            self._say(f"ended its ranks: {self._fenced}")
        if not kill_below(os.getpid(), seconds=self._periods.kill):
            self._say("some processes did not end within 10 s of SIGKILL")
        self._collect()
        self._record()
        self._beat.stop()
        return self._status()

    def _launch(self) -> Optional[Launcher]:
        environment = launch_environment(
            os.environ,
            self._start,
            node=self._node,
            node_rank=self._node_rank,
            run_dir=self._run.path,
            attempt_dir=self._attempt.path,
        )
        try:
            self._launcher = Launcher(self._run.path / "job.sbatch", environment)
        except OSError as error:
            self._say(f"the launcher could not be started: {error}")
        return self._launcher

    def _watch(self, launcher: Optional[Launcher]) -> None:
        """Return when the launcher is over or has to be."""
        if launcher is None:
            return
        next_scan = next_look = 0.0
        while launcher.wait_status is None and self._fenced is None:
            now = time.monotonic()
            if now >= next_scan:
                self._ranks.look(os.getpid())
                self._saving.look()
                next_scan = now + self._periods.scan
            if now >= next_look:
                self._look()
                next_look = now + self._periods.look
            if self._term.out_of_time(launcher) or self._peers.out_of_time(launcher):
                break
            self._ranks.wait(self._periods.poll)
            self._collect()
            self._note_failure()

    def _look(self) -> None:
        self._fenced = self._fenced or self._why_fenced()
        failure = self._peers.look()
        if failure is not None:
            self._say(f"another node has failed: {failure}; the launcher here follows soon")

    def _why_fenced(self) -> Optional[str]:
        try:
            return self._fence.why_superseded()
        except OSError as error:
            # A file system that cannot be read now: the beat's own clock is the limit.
            self._say(f"could not look at the run directory: {error}")
            return None

    def _collect(self) -> None:
        """Wait for every child that is over: the launcher, and orphans that became ours."""
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._launcher is not None and pid == self._launcher.pid:
                self._launcher.ended(wait_status)
            elif not self._term.collected(pid, wait_status):
                self._ranks.collected(pid, wait_status)

    def _note_failure(self) -> None:
        """The link's state is evidence in the moment of the first failure only."""
        ended = None if self._launcher is None else self._launcher.wait_status
        if self._link is None and self._start.interface and (ended or self._ranks.any_failed()):
            name = self._start.interface
            self._link = Interface(name, link_state(name))

    def _record(self) -> None:
        with self._record_lock:
            if self._recorded:
                return
            record = self._make_record()
            if record.launcher != End(0, None):
                self._tell_peers(record)
            write_json(self._attempt.node_file(self._node), record.to_json())
            self._recorded = True

    def _tell_peers(self, record: NodeRecord) -> None:
        try:
            report_failure(self._attempt, self._node, record.fenced or _how(record.launcher))
        except OSError as error:
            self._say(f"could not tell the other nodes: {error}")

    def _make_record(self) -> NodeRecord:
        launcher = self._launcher
        status, by_signal = split_wait_status(launcher.wait_status if launcher else None)
        if launcher is None and self._fenced is None:
            status = _NO_SUCH_COMMAND
        return NodeRecord(
            node=self._node,
            node_rank=self._node_rank,
            launcher=End(status, by_signal),
            ranks=self._ranks.records(),
            last_step=None,
            fenced=self._fenced,
            interface=self._link,
            started_at=self._started_at,
            ended_at=time.time(),
        )

    def _status(self) -> int:
        if self._fenced is not None:
            return FENCED
        end = self._make_record().launcher
        return MAX_STATUS if end.status is None else min(end.status, MAX_STATUS)

    def _end_from_guard(self, why: str) -> None:
        """Called by the guard's thread while the main one may hang on the file system.

        The kill comes first and needs no file; the record is tried, and the agent is over
        whether it could be written or not.
        """
        self._fenced = self._fenced or why
        kill_below(os.getpid(), seconds=self._periods.kill)
        writer = threading.Thread(target=self._record, daemon=True)
        writer.start()
        writer.join(self._periods.kill)
        os._exit(FENCED)

    def _take_signals(self) -> None:
        """Survive what Slurm sends to every process of a job, until the record is written.

        Handlers, not SIG_IGN: what is ignored stays ignored in the launcher.
        """
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, self._term.on_term)

    def _say(self, message: str) -> None:
        try:
            sys.stdout.write(f"slurmswift: {self._node}: {message}\n")
            sys.stdout.flush()
        except OSError:
            pass


def _how(end: End) -> str:
    if end.signal is not None:
        return f"the launcher was ended by signal {end.signal}"
    return f"the launcher ended with status {end.status}"


def agent(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(prog="node.pyz agent", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--attempt-dir", type=Path, required=True)
    options = parser.parse_args(arguments)
    # Slurm's name for the node, which the host may not go by.
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename.split(".")[0]
    attempt = Attempt.at(options.attempt_dir)
    try:
        return Agent(
            RunFolder(options.run_dir),
            attempt,
            node=node,
            node_rank=int(os.environ.get("SLURM_NODEID", "0")),
        ).run()
    except (OSError, StateError) as error:
        kill_below(os.getpid(), seconds=Periods.kill)
        sys.stdout.write(f"slurmswift: {node}: no record can be left here: {error}\n")
        return MAX_STATUS
    except Exception:
        # A bug of ours: the ranks end here all the same, and the other nodes need not wait.
        kill_below(os.getpid(), seconds=Periods.kill)
        with contextlib.suppress(OSError):
            report_failure(attempt, node, "a bug in slurmswift's agent")
        raise
