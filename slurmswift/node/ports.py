"""Chooses the port at which the ranks of an attempt meet."""

from __future__ import annotations

import errno
import random
import socket
from dataclasses import replace
from pathlib import Path
from typing import List, Optional, Tuple

from slurmswift.atomic import write_json
from slurmswift.domain.records import Rendezvous, StartRecord
from slurmswift.node.attempt import Attempt

_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_PORT, _LAST_PORT = 15000, 65535
_TRIES = 200


class NoPortError(Exception):
    """This host offers no port to meet at; the text says which were tried."""


def free_port(chosen: Optional[random.Random] = None) -> int:
    """Return a port that nobody here listens on and that no outgoing connection will take.

    At random: two jobs that share this host must not choose the same one in the same second.
    """
    chooser = chosen or random.SystemRandom()
    low, high = _candidate_range(*ephemeral_range())
    for _ in range(_TRIES):
        port = chooser.randint(low, high)
        if _is_free(port):
            return port
    raise NoPortError(f"no free port among {_TRIES} tried between {low} and {high}")


def meet_elsewhere(
    attempt: Attempt, start: StartRecord, meeting: Rendezvous
) -> Tuple[StartRecord, Rendezvous]:
    """Choose another port for the ranks of an attempt, and write it down."""
    meeting = replace(meeting, port=free_port())
    start = replace(start, rendezvous=meeting)
    write_json(attempt.start_file, start.to_json())
    return start, meeting


def ephemeral_range() -> Tuple[int, int]:
    """Return the first and the last port that outgoing connections take here."""
    try:
        numbers: List[int] = [int(word) for word in _RANGE_FILE.read_text().split()]
        return numbers[0], numbers[1]
    except (OSError, ValueError, IndexError):
        return 32768, 60999  # Linux's own default


def _candidate_range(low: int, high: int) -> Tuple[int, int]:
    """Below the ephemeral range; above it, or anywhere, where a site left no room there."""
    if low - _FIRST_PORT >= _TRIES:
        return _FIRST_PORT, low - 1
    if _LAST_PORT - high >= _TRIES:
        return high + 1, _LAST_PORT
    return _FIRST_PORT, _LAST_PORT


def _is_free(port: int) -> bool:
    """Bound on every address of both families, as the rendezvous store will be."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):  # noqa: S104
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address, port))
        except OSError as error:
            if family == socket.AF_INET6 and error.errno not in (errno.EADDRINUSE, errno.EACCES):
                continue  # a host without IPv6
            return False
    return True
