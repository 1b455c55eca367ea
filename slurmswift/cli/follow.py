"""Prints logs to a terminal, and follows one that grows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from slurmswift.app.runs import read_state
from slurmswift.cli import output
from slurmswift.domain.lifecycle import AT_REST
from slurmswift.errors import StateError
from slurmswift.files.state_folder import IndexEntry

CHUNK = 1 << 16
FOLLOW_SECONDS = 1.0


def print_logs(
    files: Sequence[Path], entry: IndexEntry, *, following: bool, sleep: Callable[[float], None]
) -> None:
    """Print each file; with ``following`` go on with the last one until the run is over."""
    for number, path in enumerate(files):
        if len(files) > 1:
            output.say(f"==> {path} <==")
        with _open(path) as log:
            last = following and number == len(files) - 1
            while last and read_state(entry).status not in AT_REST:
                _print_rest(log, to_the_end=False)
                sleep(FOLLOW_SECONDS)
            _print_rest(log, to_the_end=True)


def _open(path: Path) -> BinaryIO:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error
    return os.fdopen(descriptor, "rb")


def _print_rest(log: BinaryIO, *, to_the_end: bool) -> None:
    """Print what there is; an unfinished last line only where nothing more will come."""
    rest = b""
    while chunk := log.read(CHUNK):
        lines, newline, rest = (rest + chunk).rpartition(b"\n")
        if newline:
            output.say(lines.decode("utf-8", "backslashreplace"))
        elif len(rest) > CHUNK:  # a line without an end is printed in pieces
            output.say(rest.decode("utf-8", "backslashreplace"))
            rest = b""
    if rest and to_the_end:
        output.say(rest.decode("utf-8", "backslashreplace"))
    elif rest:
        log.seek(-len(rest), os.SEEK_CUR)
