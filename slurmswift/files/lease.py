"""Who may act now: one lease per user and cluster, on a file system that several login nodes share.

filelock's StrictSoftFileLock makes the claim (by hard link, which holds across NFS clients) and
never breaks one by age; when a holder counts as dead is decided here. Nothing that matters rests on
the lease alone: a second watcher costs a wasted pass, and the gate and the fence in the jobs see to
it that one attempt trains.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from filelock import StrictSoftFileClaim, StrictSoftFileLock, Timeout

from slurmswift.ages import file_server_now, modified, touch

TOUCH_SECONDS = 10.0
DEAD_AFTER_SECONDS = 120.0


def process_table() -> str:
    """Name the table that a pid counts in: one boot of one host, and a pid namespace of it."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"


class Lease:
    """The lease of one cluster's watchers, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = StrictSoftFileLock(str(folder / "watch.lock"), mode=0o600, thread_local=False)
        self._mine: str | None = None
        self._done = threading.Event()

    def holder(self) -> str | None:
        """Return ``host, pid`` of a live holder, None where nobody holds the lease."""
        for claim in self._claims():
            if claim.state == "held" and not self._is_dead(claim):
                # In a container filelock adds the pid namespace to the host's name.
                return f"{claim.hostname.partition('?')[0]}, pid {claim.pid}"
        return None

    @contextlib.contextmanager
    def held(self) -> Iterator[bool]:
        """Hold the lease, or give False at once where somebody alive has it."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._break_the_dead()
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
        self._done.clear()
        toucher = threading.Thread(target=self._keep_touching, daemon=True)
        try:
            self._mine = self._own_claim()
            self._touch()
            toucher.start()
            yield True
        finally:
            self._done.set()
            if toucher.ident is not None:
                toucher.join()
            self._alive_file(self._mine or "").unlink(missing_ok=True)
            self._lock.release()

    def still_mine(self) -> bool:
        """Ask right before an act: a watcher that slept for minutes may have been replaced."""
        return self._mine is not None and any(
            claim.state == "held" and claim.token == self._mine for claim in self._claims()
        )

    def _claims(self) -> tuple[StrictSoftFileClaim, ...]:
        try:
            return self._lock.claims
        except FileNotFoundError:
            return ()

    def _own_claim(self) -> str:
        for claim in self._claims():
            if claim.state == "held" and claim.pid == os.getpid():
                return claim.token
        raise RuntimeError("the lease was taken, and its claim is not there")

    def _alive_file(self, token: str) -> Path:
        return self._folder / f"watch.{token}.alive"

    def _touch(self) -> None:
        touch(self._alive_file(str(self._mine)), f"{process_table()}\n".encode())

    def _keep_touching(self) -> None:
        while not self._done.wait(TOUCH_SECONDS):
            with contextlib.suppress(OSError):
                self._touch()

    def _break_the_dead(self) -> None:
        # Judged before anything is removed: one holder has two claims, and one touched file.
        dead = [claim for claim in self._claims() if self._is_dead(claim)]
        for claim in dead:
            # By name: a claim made since then has another, so only the dead one goes.
            with contextlib.suppress(FileNotFoundError):
                self._lock.force_break(claim.name)
            self._alive_file(claim.token).unlink(missing_ok=True)

    def _is_dead(self, claim: StrictSoftFileClaim) -> bool:
        alive = self._alive_file(claim.token)
        if _same_process_table(alive) and not _process_exists(claim.pid):
            return True
        # Ages by the file server's clock alone: two files in one folder, one written now.
        written = modified(alive) or modified(
            self._folder / "watch.lock.filelock" / "claims" / claim.name
        )
        return written is not None and file_server_now(self._folder) - written > DEAD_AFTER_SECONDS


def _same_process_table(alive: Path) -> bool:
    try:
        return alive.read_text(encoding="ascii").strip() == process_table()
    except OSError:
        return False  # not written yet, or never: its age tells


def _process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
