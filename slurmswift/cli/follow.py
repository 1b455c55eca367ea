"""Prints logs to a terminal, and follows one that grows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from slurmswift.app.runs import read_state
from slurmswift.cli import output
from slurmswift.domain.lifecycle import AT_REST
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
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as log:
            _print_rest(log)
            while following and number == len(files) - 1:
                over = read_state(entry).status in AT_REST
                _print_rest(log)
                if over:
                    return
                sleep(FOLLOW_SECONDS)


def _print_rest(log: BinaryIO) -> None:
    """Print what there is, whole lines as far as possible, in pieces of bounded size."""
    rest = b""
    while chunk := log.read(CHUNK):
        lines, newline, rest = (rest + chunk).rpartition(b"\n")
        if newline or len(rest) > CHUNK:
            text = lines if newline else rest
            rest = rest if newline else b""
            output.say(text.decode("utf-8", "backslashreplace"))
    if rest:
        log.seek(-len(rest), os.SEEK_CUR)
        if len(rest) == log.seek(0, os.SEEK_END):
            output.say(rest.decode("utf-8", "backslashreplace"))
