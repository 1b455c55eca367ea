"""Lets what is started from here live by another clock: libfaketime, and a mend for it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
# Left alone, the monotonic clock still runs wrong in one call of libfaketime's 0.9.10: Python's
# time.sleep ends in EINVAL. With that clock moved too, Python's other waits never end.
MEND = """\
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    return syscall(SYS_clock_nanosleep, clock, flags, until, left) ? errno : 0;
}
"""


def why_not() -> str | None:
    """What this machine lacks for it."""
    if not FAKETIME.exists():
        return "libfaketime is not installed (Debian: faketime)"
    if shutil.which("cc") is None:
        return "there is no C compiler (Debian: gcc)"
    return None


@contextlib.contextmanager
def clock_ahead_by(seconds: int, folder: Path) -> Iterator[None]:
    """The wall clock of every process begun in here. All of them must see ``folder``."""
    source, mend = folder / "mend.c", folder / "mend.so"
    source.write_text(MEND)
    compiler = shutil.which("cc") or "cc"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", mend, source], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", f"{mend} {FAKETIME}")
        patch.setenv("FAKETIME", f"+{seconds}s")
        patch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        patch.setenv("TZ", "UTC")
        yield
