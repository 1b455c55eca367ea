"""The processes below this one, as /proc shows them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Set, Tuple

_PR_SET_CHILD_SUBREAPER = 36
_KILL_ROUND_SECONDS = 0.05
# Positions in /proc/PID/stat after the command's closing parenthesis.
_STATE, _PARENT, _START_TIME, _EXIT_CODE = 0, 1, 19, 49


@dataclass(frozen=True)
class Process:
    """One line of the process table. Pid and start time together are never reused."""

    pid: int
    parent: int
    state: str
    start_time: int


def become_subreaper() -> bool:
    """Have orphans below us become our children: they stay findable. False where it is refused."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def descendants(of: int) -> Tuple[Process, ...]:
    """Every process below ``of`` that is not over yet, parents before their children."""
    children: Dict[int, List[Process]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - every second, on every node
        if entry.isdigit():
            process = read_process(int(entry))
            if process is not None:
                children.setdefault(process.parent, []).append(process)
    found: List[Process] = []
    todo, seen = [of], {of}
    while todo:
        for child in children.get(todo.pop(0), ()):
            if child.pid not in seen:
                seen.add(child.pid)
                todo.append(child.pid)
                found.append(child)
    return tuple(process for process in found if process.state not in "ZX")


def read_process(pid: int) -> Optional[Process]:
    fields = _stat_fields(pid)
    if fields is None:
        return None
    return Process(pid, int(fields[_PARENT]), fields[_STATE], int(fields[_START_TIME]))


def exit_code_of_zombie(pid: int) -> Optional[int]:
    """The wait status of a process that is over and not yet collected by its parent."""
    fields = _stat_fields(pid)
    if fields is None or fields[_STATE] != "Z":
        return None
    return int(fields[_EXIT_CODE])


def environment_of(pid: int) -> Dict[str, str]:
    """The environment a process was started with; empty where it is over or not ours."""
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    variables = {}
    for pair in pairs:
        name, equals, value = pair.partition(b"=")
        if equals:
            variables[os.fsdecode(name)] = os.fsdecode(value)
    return variables


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for this signal; without one most signals would end it."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    for line in text.splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def kill_below(pid: int, *, seconds: float) -> bool:
    """SIGKILL every process below ``pid`` until none is left; False where some would not die.

    In rounds: one that forks while it is being killed leaves a child for the next round.
    """
    deadline = time.monotonic() + seconds
    told: Set[Tuple[int, int]] = set()
    while True:
        left = descendants(pid)
        if not left:
            return True
        for process in left:
            if (process.pid, process.start_time) not in told:
                _kill(process.pid)
                told.add((process.pid, process.start_time))
        if time.monotonic() >= deadline:
            return False
        time.sleep(_KILL_ROUND_SECONDS)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _stat_fields(pid: int) -> Optional[List[str]]:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode("ascii", "replace")
    except OSError:
        return None
    # The command stands in parentheses and may hold anything, parentheses too.
    _, closing, rest = text.rpartition(")")
    fields = rest.split()
    return fields if closing and len(fields) > _EXIT_CODE else None
