"""bin/quickstart keeps its promise: the whole night, on a cluster that is up already."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.devcluster import DevCluster

QUICKSTART = Path(__file__).parent.parent.parent / "bin" / "quickstart"
MOST_SECONDS = 480.0  # an idle machine takes two minutes

pytestmark = [pytest.mark.cluster, pytest.mark.torch]


def quickstart(runs: Path, output: Path, without: str = "") -> subprocess.Popen[bytes]:
    environment = {**os.environ, "SLURMSWIFT_RUNS": str(runs)}
    environment.pop(without, None)
    with output.open("wb") as file:
        return subprocess.Popen(
            [str(QUICKSTART)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
        )


@pytest.mark.ci
def test_a_cut_network_costs_one_restart_and_no_digit(
    devcluster: DevCluster, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    process = quickstart(devcluster.shared / tmp_path.name, output)
    status = process.wait(MOST_SECONDS)
    said = output.read_text(encoding="utf-8")

    assert status == 0, said
    assert "cause    comm-" in said
    assert "Timed out waiting" in said
    assert "attempt 2 began at step " in said
    assert "equal to the last digit" in said


def test_a_cluster_of_the_sites_own_is_used_and_left_whole(
    devcluster: DevCluster, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    process = quickstart(devcluster.shared / tmp_path.name, output, without="DEVCLUSTER_ROOT")
    status = process.wait(MOST_SECONDS)
    said = output.read_text(encoding="utf-8")

    assert status == 0, said
    assert " is cut" not in said
    assert "attempts     1\n" in said


def test_interrupted_it_leaves_nothing_running(devcluster: DevCluster, tmp_path: Path) -> None:
    output = tmp_path / "output"
    process = quickstart(devcluster.shared / tmp_path.name, output)
    deadline = time.monotonic() + 120
    while " RUNNING" not in output.read_text(encoding="utf-8"):
        assert time.monotonic() < deadline, output.read_text(encoding="utf-8")
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    status = process.wait(60)
    watchers = devcluster.command("pgrep", "--full", "slurmswift watch")

    assert status == 143, output.read_text(encoding="utf-8")
    assert devcluster.ask("squeue", "--noheader", "--states=PENDING,RUNNING") == ""
    assert watchers.stdout == ""
