"""Proves that the ranks can meet: the first node listens where they will, every node calls."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Optional, Type

CONNECT_SECONDS = 5.0
_TRIES = 2
_BACKLOG = 1024
_MAX_LINE = 256


class NoMeetingError(Exception):
    """The rendezvous was not reached; the text says how that showed."""


class Listener:
    """Holds the rendezvous port until the checks are over, and answers who calls with the time."""

    def __init__(self, port: int, word: str) -> None:
        self._word = word
        # IPv4 on every address, as the ranks' own store; REUSEADDR as that does it, too.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("", port))
            self._socket.listen(_BACKLOG)
        except OSError:
            self._socket.close()
            raise

    def __enter__(self) -> Listener:  # noqa: PYI034 - typing has no Self in 3.8
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # shutdown, for close alone does not end an accept that waits in another thread.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(caller,), daemon=True).start()

    def _answer(self, caller: socket.socket) -> None:
        with caller:
            try:
                caller.settimeout(CONNECT_SECONDS)
                if _line(caller) != self._word:
                    return
                caller.sendall(f"{self._word} {time.time()!r}\n".encode("ascii"))
                # Who closes first keeps the port busy for a minute: let that be the caller.
                caller.recv(1)
            except OSError:
                return


def call(address: str, port: int, word: str, source: str = "") -> float:
    """Reach the listener; return by how many seconds its clock is ahead of the one here."""
    for attempt in range(1, _TRIES + 1):
        try:
            return _call(address, port, word, source)
        except OSError as error:
            if attempt == _TRIES:
                how = error.strerror or str(error)
                from_ = f" from {source}" if source else ""
                raise NoMeetingError(f"{address}:{port} cannot be reached{from_}: {how}") from error
            time.sleep(0.5)
    raise NoMeetingError(f"{address}:{port} cannot be reached")


def _call(address: str, port: int, word: str, source: str) -> float:
    origin = (source, 0) if source else None
    with socket.create_connection((address, port), CONNECT_SECONDS, origin) as connection:
        sent = time.time()
        connection.sendall(f"{word}\n".encode("ascii"))
        answer, _, told = _line(connection).partition(" ")
        received = time.time()
    if answer != word:
        raise NoMeetingError(f"somebody else answers at {address}:{port}")
    return float(told) - (sent + received) / 2


def _line(connection: socket.socket) -> str:
    data = b""
    while not data.endswith(b"\n") and len(data) < _MAX_LINE:
        part = connection.recv(_MAX_LINE)
        if not part:
            break
        data += part
    return data.decode("ascii", "replace").strip()
