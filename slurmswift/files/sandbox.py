"""Runs a piece of work in a child process that cannot take more than it is given."""

from __future__ import annotations

import os
import resource
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may use."""

    cpu_seconds: int = 5
    wall_seconds: float = 20.0  # it may also wait, say for a file system
    memory_bytes: int = 256 * 1024 * 1024  # more than this process has already
    output_bytes: int = 4 * 1024 * 1024


class SandboxError(Exception):
    """The work was ended: it wanted more than it was given, or broke down."""


class _End(IntEnum):
    """How the child ends when nothing ends it."""

    DONE = 0
    BROKEN = 1
    NO_MEMORY = 2


def run_limited(work: Callable[[], bytes], limits: Limits) -> bytes:
    """Return what ``work`` returns; it runs in a fork, and can change nothing here."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        _work_and_leave(work, receive, send, limits)
    os.close(send)
    try:
        output = _read_all(receive, limits)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(receive)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
            raise SandboxError(f"took more than {limits.cpu_seconds} s of CPU")
        raise SandboxError(f"was ended by signal {os.WTERMSIG(status)}")
    if os.WEXITSTATUS(status) == _End.NO_MEMORY:
        raise SandboxError(f"took more than {limits.memory_bytes // 2**20} MiB of memory")
    if os.WEXITSTATUS(status) != _End.DONE:
        raise SandboxError("broke down")
    return output


def _work_and_leave(work: Callable[[], bytes], receive: int, send: int, limits: Limits) -> None:
    """Be the child. It never returns: what its parent had opened and buffered is not its own."""
    end = _End.BROKEN
    try:
        os.close(receive)
        _limit(limits)
        rest = memoryview(work())
        while rest:
            rest = rest[os.write(send, rest) :]
        end = _End.DONE
    except MemoryError:
        end = _End.NO_MEMORY
    finally:
        os._exit(end)


def _limit(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # it writes to its pipe alone
    _lower(resource.RLIMIT_CPU, limits.cpu_seconds)
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        mine = pages * resource.getpagesize()
    except OSError:
        mine = 2**30
    _lower(resource.RLIMIT_AS, mine + limits.memory_bytes)


def _lower(kind: int, most: int) -> None:
    """Set a limit, never above what this process is held to already."""
    _, hard = resource.getrlimit(kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def _read_all(receive: int, limits: Limits) -> bytes:
    deadline = time.monotonic() + limits.wall_seconds
    parts: list[bytes] = []
    size = 0
    while True:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([receive], [], [], max(0.0, left))
        if not ready:
            raise SandboxError(f"took more than {limits.wall_seconds:.0f} s")
        part = os.read(receive, 65536)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > limits.output_bytes:
            raise SandboxError(f"wrote more than {limits.output_bytes // 2**20} MiB")
