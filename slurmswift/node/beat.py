"""The agent's sign of life, and the end of its ranks where it can give none."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Callable

from slurmswift.ages import touch


class Beat:
    """Touches one file at a steady pace; calls ``on_silence`` where that fails for too long.

    Two threads: a write to a file system that hangs does not return, so another one has to look
    at the clock. It touches no file itself. The caller's main thread may hang as well.
    """

    def __init__(
        self,
        path: Path,
        *,
        period: float,
        patience: float,
        on_silence: Callable[[str], None],
    ) -> None:
        self._path = path
        self._period = period
        self._patience = patience
        self._on_silence = on_silence
        self._last = 0.0
        self._over = threading.Event()

    def start(self) -> None:
        """Touch once before returning (raising what the file system says), then go on alone."""
        self._touch()
        for work in (self._beat, self._guard):
            threading.Thread(target=work, name=work.__name__, daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _touch(self) -> None:
        # The time before the write: the file server's stamp is never older than that.
        before = time.monotonic()
        touch(self._path)
        self._last = before

    def _beat(self) -> None:
        while not self._over.wait(self._period):
            try:
                self._touch()
            except OSError:
                # Full, stale, away: the guard counts the seconds. Try again sooner than usual.
                self._over.wait(self._period / 10)

    def _guard(self) -> None:
        while not self._over.wait(min(1.0, self._patience / 10)):
            silent = time.monotonic() - self._last
            if silent > self._patience:
                self._on_silence(
                    f"this node could not write to the run directory for {silent:.0f} s"
                )
                return
