"""Work in a child with limits: what it may take, and that it can change nothing here."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from pathlib import Path

import pytest

from slurmswift.files.sandbox import Limits, SandboxError, run_limited

LIMITS = Limits(cpu_seconds=1, wall_seconds=20, memory_bytes=64 * 2**20, output_bytes=2**20)


def endless() -> bytes:
    while True:
        pass


def hungry() -> bytes:
    return b"x" * (LIMITS.memory_bytes * 4)


def talkative() -> bytes:
    return b"x" * (LIMITS.output_bytes * 2)


def asleep() -> bytes:
    time.sleep(60)
    return b""


def broken() -> bytes:
    raise ValueError("not shown: the child has no terminal of its own")


def killed() -> bytes:
    os.kill(os.getpid(), signal.SIGSEGV)
    return b""


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (endless, "took more than 1 s of CPU"),
        (hungry, "took more than 64 MiB of memory"),
        (talkative, "wrote more than 1 MiB"),
        (asleep, "took more than 1 s$"),
        (broken, "broke down"),
        (killed, "was ended by signal 11"),
    ],
)
def test_what_wants_too_much_is_ended_and_says_why(
    work: object, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    patient = dataclasses.replace(LIMITS, wall_seconds=1)
    with pytest.raises(SandboxError, match=f"^{message}"):
        run_limited(work, patient if work is asleep else LIMITS)  # type: ignore[arg-type]

    with pytest.raises(ChildProcessError):  # none is left behind
        os.waitpid(-1, os.WNOHANG)
    assert capfd.readouterr() == ("", "")


def test_what_is_returned_comes_back_whole() -> None:
    text = bytes(range(256)) * 4000

    assert run_limited(lambda: text, LIMITS) == text


def test_the_child_writes_no_file_and_changes_nothing_here(tmp_path: Path) -> None:
    seen: list[int] = []

    def work() -> bytes:
        seen.append(1)
        try:
            (tmp_path / "file").write_bytes(b"x")
        except OSError as error:
            return str(error.errno).encode()
        return b"written"

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    assert run_limited(work, LIMITS) != b"written"
    assert seen == []
