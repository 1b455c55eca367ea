"""Runs slurmswift's real command line in a child that dies at a chosen effect.

An effect is what others can see of a process: a file opened for writing, written, synced, renamed,
linked, made or removed, and a process started. The child is killed by SIGKILL right before the
N-th; `torn` lets half of a write through first, and `started` kills right after a process began.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import io
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import slurmswift.cli.tools
from slurmswift.cli.boundary import run_cli
from tests.support.fake_slurm.world import WorldFile

PR_SET_CHILD_SUBREAPER = 36
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
PLAIN = ("fsync", "replace", "rename", "link", "symlink", "mkdir", "unlink", "rmdir", "pwrite")


@dataclass(frozen=True)
class Kill:
    """Where the child dies."""

    number: int
    manner: str = "before"  # before, torn, started


@dataclass(frozen=True)
class Ended:
    """How a command ended, and the effects it had."""

    status: int | None  # None: killed
    effects: tuple[str, ...]
    said: str


class _Effects:
    """Counts the effects of this very process, and kills it at one of them."""

    def __init__(self, log: Path, kill: Kill | None) -> None:
        self._pid = os.getpid()
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._kill = kill
        self._count = 0
        self._write = os.write
        self._open = os.open

    def _count_one(self, name: str, target: object) -> int:
        if os.getpid() != self._pid or target == os.devnull:
            return 0  # a fork (the sandbox of the templates) has no effects of its own
        self._count += 1
        self._write(self._log, f"{name} {target}\n".encode(errors="replace"))
        self._die_at(self._count, "before")
        return self._count

    def _die_at(self, number: int, manner: str) -> None:
        if self._kill == Kill(number, manner):
            os.kill(self._pid, signal.SIGKILL)

    def hook(self) -> None:
        # Syncing is against power losses; a kill is none, and the test need not wait for disks.
        setattr(os, "fsync", lambda _descriptor: None)  # noqa: B010
        for name in PLAIN:
            self._wrap(os, name)
        setattr(os, "open", self._opening)  # noqa: B010
        setattr(os, "write", self._writing)  # noqa: B010
        plain_open = io.open

        def opening(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            if set(mode) & set("wax+"):
                self._count_one("open", file)
            return plain_open(file, mode, *rest, **named)

        for module in (builtins, io):
            setattr(module, "open", opening)  # noqa: B010
        start = subprocess.Popen.__init__

        def starting(process: Any, argv: Any, *rest: Any, **named: Any) -> None:
            number = self._count_one("start", " ".join(map(str, argv)))
            start(process, argv, *rest, **named)
            self._die_at(number, "started")

        setattr(subprocess.Popen, "__init__", starting)  # noqa: B010

    def _wrap(self, module: types.ModuleType, name: str) -> None:
        plain: Callable[..., Any] = getattr(module, name)

        def effect(target: Any, *rest: Any, **named: Any) -> Any:
            self._count_one(name, target)
            return plain(target, *rest, **named)

        setattr(module, name, effect)

    def _opening(self, path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & WRITING:
            self._count_one("open", path)
        return self._open(path, flags, *rest, **named)

    def _writing(self, descriptor: int, data: bytes) -> int:
        number = self._count_one("write", len(data))
        if self._kill == Kill(number, "torn"):
            self._write(descriptor, bytes(data)[: len(data) // 2])
        self._die_at(number, "torn")
        return self._write(descriptor, data)


def run_command(
    arguments: list[str],
    *,
    environment: Mapping[str, str],
    world: WorldFile,
    logs: Path,
    kill: Kill | None = None,
) -> Ended:
    """Run one command line by the fake's clock, and wait until all that it started is over."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    effects, output = logs / "effects", logs / "output"
    for path in (effects, output):
        path.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _be_the_command(arguments, environment, world, output, _Effects(effects, kill))
    _, status = os.waitpid(child, 0)
    # What a killed command started (an sbatch) goes on; the test goes on when that is over too.
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    lines = effects.read_text().splitlines()
    said = output.read_text(errors="replace") if output.exists() else ""
    return Ended(None if killed else os.waitstatus_to_exitcode(status), tuple(lines), said)


def _be_the_command(
    arguments: list[str],
    environment: Mapping[str, str],
    world: WorldFile,
    output: Path,
    effects: _Effects,
) -> None:
    status = 99
    try:
        os.setsid()
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        sys.stdout = sys.stderr = io.TextIOWrapper(io.FileIO(descriptor, "w"), write_through=True)
        os.environ.clear()
        os.environ.update(environment)
        clock = types.SimpleNamespace(time=world.now, sleep=sleeper(world))
        setattr(slurmswift.cli.tools, "time", clock)  # noqa: B010
        effects.hook()
        status = run_cli(arguments)
    finally:
        os._exit(status)


def sleeper(world: WorldFile) -> Callable[[float], None]:
    """Sleep by moving the fake's clock."""

    def sleep(seconds: float) -> None:
        with world.open() as present:
            present.now += seconds

    return sleep


def kills(effects: tuple[str, ...]) -> list[Kill]:
    """Every place where a command with these effects can die."""
    found = []
    for number, effect in enumerate(effects, start=1):
        found.append(Kill(number))
        if effect.startswith("write "):
            found.append(Kill(number, "torn"))
        if effect.startswith("start "):
            found.append(Kill(number, "started"))
    return found
