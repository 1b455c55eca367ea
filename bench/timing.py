"""Times whole processes in turns, and tells one median as a multiple of another's.

A machine's load changes from minute to minute and hits all alike when they take turns; a ratio of
medians from one run can be compared with tomorrow's, a time cannot.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Contender:
    """A command line, with what is added to the environment."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Times:
    """What one contender took, in seconds, a number for each round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)  # its own and its children's


def take_turns(contenders: Sequence[Contender], *, rounds: int, folder: Path) -> dict[str, Times]:
    """Run every contender once a round, in turning order; the first round is thrown away."""
    times = {contender.name: Times() for contender in contenders}
    for number in range(rounds + 1):
        at = number % len(contenders)
        for contender in (*contenders[at:], *contenders[:at]):
            wall, cpu = _run(contender, folder)
            if number:  # the first one fills caches and writes bytecode
                times[contender.name].wall.append(wall)
                times[contender.name].cpu.append(cpu)
    return times


def _environment(folder: Path) -> dict[str, str]:
    """This process's, but with bytecode for everybody, as after an installation."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def _run(contender: Contender, folder: Path) -> tuple[float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run(
        contender.argv,
        cwd=folder,
        env={**_environment(folder), **contender.environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{contender.name} ended with {done.returncode}: {done.stderr}{done.stdout}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def show(times: Mapping[str, Times], against: Sequence[tuple[str, str]]) -> None:
    """Print the medians, and each named pair's ratio."""
    print(f"{'':34}{'wall ms':>9}{'quartiles':>15}{'CPU ms':>9}")
    for name, taken in times.items():
        low, middle, high = (1000 * cut for cut in statistics.quantiles(taken.wall, n=4))
        cpu = 1000 * statistics.median(taken.cpu)
        print(f"{name:34}{middle:9.0f}{f'{low:.0f}-{high:.0f}':>15}{cpu:9.0f}")
    print()
    for one, other in against:
        wall = statistics.median(times[one].wall) / statistics.median(times[other].wall)
        cpu = statistics.median(times[one].cpu) / statistics.median(times[other].cpu)
        print(f"{one} / {other}: wall {wall:.2f}, CPU {cpu:.2f}")
    print()
