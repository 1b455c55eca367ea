"""The lease: one holder, a dead one is replaced, a live one never."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slurmswift.files import lease as lease_module
from slurmswift.files.lease import Lease
from slurmswift.files.state_folder import StateFolder

HOLDER = """
import sys, time
from pathlib import Path
from slurmswift.files.lease import Lease
from slurmswift.files.state_folder import StateFolder
with Lease(Path(sys.argv[1])).held() as mine:
    print(mine, flush=True)
    time.sleep(60)
"""


def other_holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_one_holds_it_and_gives_it_back(tmp_path: Path) -> None:
    lease = Lease(tmp_path)

    with lease.held() as mine:
        assert mine
        assert lease.still_mine()
        assert lease.holder() == f"{socket.gethostname()}, pid {os.getpid()}"

    assert lease.holder() is None
    with Lease(tmp_path).held() as again:
        assert again


def test_a_second_watcher_is_told_at_once(tmp_path: Path) -> None:
    process = other_holder(tmp_path)
    try:
        lease = Lease(tmp_path)
        with lease.held() as mine:
            assert not mine
        assert lease.holder() == f"{socket.gethostname()}, pid {process.pid}"
    finally:
        end(process)


def test_the_lease_of_a_killed_watcher_is_taken_over(tmp_path: Path) -> None:
    process = other_holder(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()

    with Lease(tmp_path).held() as mine:
        assert mine


def test_a_holder_on_another_host_counts_as_dead_only_by_the_file_servers_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = other_holder(tmp_path)
    try:
        # Seen from another host, or another container: its pid tells nothing there.
        monkeypatch.setattr(lease_module, "process_table", lambda: "another boot 1")
        with Lease(tmp_path).held() as mine:
            assert not mine
        (alive,) = tmp_path.glob("watch.*.alive")
        old = alive.stat().st_mtime - lease_module.DEAD_AFTER_SECONDS - 1
        os.utime(alive, (old, old))
        with Lease(tmp_path).held() as mine:
            assert mine
    finally:
        end(process)


def test_whoever_was_replaced_notices_before_the_next_act(tmp_path: Path) -> None:
    lease = Lease(tmp_path)
    with lease.held() as mine:
        assert mine
        claims = tmp_path / "watch.lock.filelock" / "claims"
        for claim in claims.iterdir():
            claim.unlink()
        assert not lease.still_mine()


def test_another_clusters_watcher_keeps_nobody_out(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    with Lease(state.watch_folder("one")).held() as first:
        assert first
        with Lease(state.watch_folder("other")).held() as second:
            assert second


@pytest.mark.parametrize("name", ["..", "../elsewhere", "a/b", ""])
def test_the_lease_of_a_strangely_named_cluster_lies_in_the_state_folder(
    tmp_path: Path, name: str
) -> None:
    assert StateFolder(tmp_path).watch_folder(name).resolve().parent == tmp_path.resolve()
