"""A training that saves while we look: what it is writing is never where a resume starts."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurmswift.checkpoints import Expected, find_resume_point
from tests.support import live_trainer

ROOT = Path(__file__).resolve().parents[3]
STARTS = 2


@contextmanager
def training(output: Path, seed: int, *, starts: int = 1) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, live_trainer.__file__, output, str(seed), str(starts)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield process
        assert process.poll() is None, "the training ended by itself"
    finally:
        process.kill()
        process.wait()


@contextmanager
def stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Hold it at whatever it is at: what we see is then what is there."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def moments(seed: int, count: int) -> Iterator[random.Random]:
    chance = random.Random(seed)  # noqa: S311
    for _ in range(count):
        time.sleep(chance.uniform(0, 0.08))
        yield chance


def checkpoints_in(output: Path) -> list[Path]:
    return sorted(output.glob("checkpoint-*"), key=lambda path: int(path.name[11:]), reverse=True)


MORE = pytest.param(3, 1000, id="1000 moments", marks=pytest.mark.sweep)
HOW_LONG = [pytest.param(1, 60, id="60 moments"), MORE]


@pytest.mark.parametrize(("seed", "count"), [pytest.param(2, 200, id="200 moments"), MORE])
def test_held_at_any_moment_the_newest_whole_one_is_chosen(
    tmp_path: Path, seed: int, count: int
) -> None:
    torn = 0
    with training(tmp_path, seed) as process:
        for chance in moments(seed, count):
            with stopped(process):
                now = time.time() if chance.random() < 0.5 else None
                found = find_resume_point(tmp_path, Expected(now=now)).checkpoint
                there = checkpoints_in(tmp_path)
                whole = [path for path in there if live_trainer.is_whole(path, 0)]
                torn += len(there) > len(whole)

                assert (found and found.path) == (str(whole[0]) if whole else None)
    assert torn > count // 4, "hardly ever was a save under way"


@pytest.mark.parametrize(("seed", "count"), HOW_LONG)
def test_while_it_writes_on_nothing_torn_is_chosen(tmp_path: Path, seed: int, count: int) -> None:
    chosen = set()
    with training(tmp_path, seed):
        for _ in moments(seed, count):
            found = find_resume_point(tmp_path).checkpoint
            if found is not None:
                path = Path(found.path)
                chosen.add(path.name)

                assert live_trainer.is_whole(path, 0) or not path.exists()
    assert len(chosen) > 1


@pytest.mark.parametrize(("seed", "count"), HOW_LONG)
def test_what_is_saved_over_an_older_one_is_not_chosen_as_a_mixture(
    tmp_path: Path, seed: int, count: int
) -> None:
    mixed = 0
    with training(tmp_path, seed, starts=STARTS) as process:
        for _ in moments(seed, count):
            with stopped(process):
                found = find_resume_point(tmp_path, Expected(now=time.time())).checkpoint
                mixed += not all(map(_of_one_start, checkpoints_in(tmp_path)))

                assert found is None or _of_one_start(Path(found.path))
    assert mixed > count // 4, "hardly ever was a save under way"


def _of_one_start(path: Path) -> bool:
    return any(live_trainer.is_whole(path, start) for start in range(STARTS))
