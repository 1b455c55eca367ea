"""Lets what is started from here live by another clock.

libfaketime would do, were it not for its 0.9.10: with the monotonic clock left alone Python's
time.sleep ends in EINVAL, with that one moved too Python's other waits never end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

# What tells the time of day is moved on; whoever waits until a time of day is told the real one.
# A monotonic time, which counts from the machine's start, is never so large.
SOURCE = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

enum { LEAST_DATE = 1000000000 };
static long ahead;

__attribute__((constructor)) static void read_ahead(void)
{
    const char *text = getenv("CLOCK_AHEAD");
    ahead = text ? atol(text) : 0;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = NEXT(clock_gettime)(clock, now);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead;
    return status;
}

int gettimeofday(struct timeval *now, void *zone)
{
    int status = NEXT(gettimeofday)(now, zone);
    now->tv_sec += ahead;
    return status;
}

time_t time(time_t *store)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (store)
        *store = now.tv_sec;
    return now.tv_sec;
}

static struct timespec real(const struct timespec *when)
{
    struct timespec moved = *when;
    if (moved.tv_sec > LEAST_DATE)
        moved.tv_sec -= ahead;
    return moved;
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *held, const struct timespec *when)
{
    struct timespec moved = real(when);
    return NEXT(pthread_cond_timedwait)(cond, held, &moved);
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *when)
{
    struct timespec moved = real(when);
    return NEXT(pthread_mutex_timedlock)(mutex, &moved);
}

int sem_timedwait(sem_t *sem, const struct timespec *when)
{
    struct timespec moved = real(when);
    return NEXT(sem_timedwait)(sem, &moved);
}
"""
COMPILER = shutil.which("cc")


@contextlib.contextmanager
def clock_ahead_by(seconds: int, folder: Path) -> Iterator[None]:
    """The time of day of every process begun in here. All of them must see ``folder``."""
    assert COMPILER
    source, library = folder / "other_time.c", folder / "other_time.so"
    source.write_text(SOURCE)
    flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Werror")
    subprocess.run([COMPILER, *flags, "-o", library, source, "-ldl", "-pthread"], check=True)
    before = [os.environ["LD_PRELOAD"]] if os.environ.get("LD_PRELOAD") else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", ":".join([str(library), *before]))
        patch.setenv("CLOCK_AHEAD", str(seconds))
        patch.setenv("TZ", "UTC")
        yield
