"""``ranks``: starts the ranks of one node, for trainings that have no launcher of their own.

One launcher a node is the rule, so ``srun`` starts the agents and this starts the ranks, each with
the environment that torchrun or srun itself would give it.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence

TERM_SECONDS = 30.0  # from the TERM to the KILL, as torchrun has it
POLL_SECONDS = 0.2
_NO_SUCH_COMMAND = 127
_MAX_LINE = 64 * 1024  # a progress bar may never end its line


@dataclass(frozen=True)
class Layout:
    """How many ranks there are, and which of them are here."""

    nodes: int
    node_rank: int
    per_node: int

    def rank(self, local_rank: int) -> int:
        return self.node_rank * self.per_node + local_rank

    def environment(self, inherited: Mapping[str, str], local_rank: int) -> Dict[str, str]:
        """Return a rank's environment: torchrun's names, and srun's for one task per rank."""
        rank, world = str(self.rank(local_rank)), str(self.nodes * self.per_node)
        tasks = f"{self.per_node}(x{self.nodes})" if self.nodes > 1 else str(self.per_node)
        return {
            **inherited,
            "RANK": rank,
            "LOCAL_RANK": str(local_rank),
            "WORLD_SIZE": world,
            "LOCAL_WORLD_SIZE": str(self.per_node),
            "SLURM_PROCID": rank,
            "SLURM_LOCALID": str(local_rank),
            "SLURM_NTASKS": world,
            "SLURM_NPROCS": world,
            "SLURM_NTASKS_PER_NODE": str(self.per_node),
            "SLURM_TASKS_PER_NODE": tasks,
            "SLURM_STEP_NUM_TASKS": world,
            "SLURM_STEP_TASKS_PER_NODE": tasks,
        }


class _Log:
    """A rank's own log; what the rank writes into it is passed on under the rank's name."""

    def __init__(self, path: Path, rank: int) -> None:
        self.descriptor = os.open(
            str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        self._reader = path.open("rb")
        self._reader.seek(0, os.SEEK_END)
        self._label = f"[rank{rank}]: ".encode("ascii")
        self._rest = b""

    def pass_on(self, *, at_end: bool = False) -> None:
        lines = (self._rest + self._reader.read()).split(b"\n")
        self._rest = lines.pop()
        if self._rest and (at_end or len(self._rest) > _MAX_LINE):
            lines.append(self._rest)
            self._rest = b""
        _write(b"".join(self._label + line + b"\n" for line in lines))


class _Rank:
    """One rank that was started. It is never waited for: the agent sees its end by itself."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log: _Log, local_rank: int
    ) -> None:
        self.process = subprocess.Popen(
            list(command), env=dict(environment), stdout=log.descriptor, stderr=log.descriptor
        )
        self.log = log
        self.name = f"rank {environment['RANK']} (local rank {local_rank}, pid {self.process.pid})"
        self.end: Optional[str] = None

    def look(self) -> Optional[int]:
        """Return the exit status in the moment the rank is over, as a shell would tell it."""
        found = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        exited = found.si_code == os.CLD_EXITED
        status = found.si_status if exited else 128 + found.si_status
        self.process.returncode = status  # subprocess shall not wait for it, either
        self.end = (
            f"ended with status {found.si_status}"
            if exited
            else f"was ended by signal {found.si_status} ({_signal_name(found.si_status)})"
        )
        return status

    def signal(self, number: int) -> None:
        if self.end is None:
            # Not waited for, so the process id is still its own.
            os.kill(self.process.pid, number)


class LocalRanks:
    """The ranks of this node: when one fails, the others are ended."""

    def __init__(self, layout: Layout, logs: Path, command: Sequence[str]) -> None:
        self._layout = layout
        self._logs = logs
        self._command = command
        self._ranks: List[_Rank] = []
        self._status = 0
        self._told = 0  # the signal to pass on
        self._kill_at: Optional[float] = None

    def run(self) -> int:
        """Return 0 where every rank did, else the status of the first that did not."""
        wake = self._take_signals()
        self._start()
        while any(rank.end is None for rank in self._ranks):
            if select.select([wake], [], [], POLL_SECONDS)[0]:
                os.read(wake, 4096)
            self._look()
        for rank in self._ranks:
            rank.log.pass_on(at_end=True)
        return self._status

    def _start(self) -> None:
        for local_rank in range(self._layout.per_node):
            rank = self._layout.rank(local_rank)
            environment = self._layout.environment(os.environ, local_rank)
            log = _Log(self._logs / f"rank-{rank}.log", rank)
            try:
                self._ranks.append(_Rank(self._command, environment, log, local_rank))
            except OSError as error:
                self._failed(_NO_SUCH_COMMAND, f"rank {rank} could not be started: {error}")
                return

    def _look(self) -> None:
        for rank in self._ranks:
            rank.log.pass_on()
            status = rank.look() if rank.end is None else 0
            if status:
                self._failed(status, f"{rank.name} {rank.end}")
        if self._told:
            self._signal(self._told)
            self._told = 0
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill_at = None
            self._signal(signal.SIGKILL)

    def _failed(self, status: int, what: str) -> None:
        _say(what)
        if self._status == 0:
            self._status = status
            self._kill_at = time.monotonic() + TERM_SECONDS
            self._told = self._told or signal.SIGTERM

    def _signal(self, number: int) -> None:
        for rank in self._ranks:
            rank.signal(number)

    def _take_signals(self) -> int:
        """Pass on what asks for the end; survive what Slurm may send to every process of a job.

        Handlers, not SIG_IGN: what is ignored stays ignored in the ranks. A rank's end wakes the
        loop through the returned descriptor.
        """
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_end)
        return wake

    def _on_end(self, number: int, _frame: object) -> None:
        self._told = number


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"


def _say(message: str) -> None:
    _write(f"slurmswift: {message}\n".encode("utf-8", "replace"))


def _write(data: bytes) -> None:
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:  # srun is gone: the ranks' own logs have it all
        pass


def ranks(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(prog="node.pyz ranks", description=__doc__)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--node-rank", type=int, required=True)
    parser.add_argument("--per-node", type=int, required=True)
    parser.add_argument("--logs", type=Path, required=True)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:at])
    if not arguments[at + 1 :]:
        parser.error("say what to start behind --")
    layout = Layout(options.nodes, options.node_rank, options.per_node)
    try:
        return LocalRanks(layout, options.logs, arguments[at + 1 :]).run()
    except OSError as error:
        sys.stdout.write(f"slurmswift: the ranks of this node could not be started: {error}\n")
        return 1
