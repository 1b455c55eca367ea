"""Devclusters start, stop, stand beside each other and leave nothing behind, however they end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.devcluster import (
    BIN,
    DevCluster,
    all_pids,
    command_line,
    eventually,
    network_interfaces,
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="a devcluster needs root"),
]

WITH = str(BIN / "with-devcluster")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short and that nodes would not see by themselves."""
    path = Path(tempfile.mkdtemp(prefix="dct."))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def clusters(folder: Path) -> Iterator[list[DevCluster]]:
    """Two clusters that are not up yet, and are down afterwards."""
    pair = [DevCluster(folder / "a"), DevCluster(folder / "b")]
    yield pair
    for cluster in pair:
        cluster.do("down")


def test_two_clusters_stand_side_by_side(clusters: list[DevCluster]) -> None:
    for cluster in clusters:
        cluster.do("up", "2")

    for cluster in clusters:
        assert cluster.sbatch("true", "--nodes=2") == "1"
        text = cluster.do("up", "3")
        assert "is up already" in text
    one, other = clusters
    assert (one.root / "etc/hosts").read_text() != (other.root / "etc/hosts").read_text()

    one.do("down")

    assert one.traces() == []
    assert one.try_("env").returncode == 1
    assert sorted(path.name for path in one.root.iterdir()) == ["README", "log", "shared"]
    assert other.ask("srun", "--nodes=2", "hostname").split() != []


def test_up_clears_away_what_a_killed_up_left(clusters: list[DevCluster]) -> None:
    cluster = clusters[0]
    boot = subprocess.Popen(
        [BIN / "devcluster", "up", "1"],
        env=cluster.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    eventually((cluster.root / "run/munge.sock").exists, within=20, what="it is half up")
    boot.kill()
    boot.wait()
    assert cluster.traces() != []

    assert "is up at" in cluster.do("up", "1")
    assert cluster.ask("srun", "hostname") == "node01\n"


def test_an_up_that_is_interrupted_leaves_nothing_running(clusters: list[DevCluster]) -> None:
    cluster = clusters[0]
    boot = subprocess.Popen(
        [BIN / "devcluster", "up", "1"],
        env=cluster.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    eventually((cluster.root / "run/munge.sock").exists, within=20, what="it is half up")
    boot.send_signal(signal.SIGTERM)

    assert boot.wait(timeout=30) == 143
    assert cluster.traces() == []


def test_down_and_up_after_half_of_it_crashed(clusters: list[DevCluster]) -> None:
    cluster = clusters[0]
    cluster.do("up", "1")
    head = int((cluster.root / "run/head.pid").read_text())
    os.kill(head, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{head}").exists(), within=10, what="the head is dead")

    result = cluster.try_("exec", "node01", "true")
    assert "start it anew with: devcluster up" in result.stderr
    assert cluster.try_("status").returncode == 3
    cluster.do("up", "1")
    assert cluster.ask("srun", "hostname") == "node01\n"


def test_nodes_see_what_is_shared_below_tmp_and_nothing_else(folder: Path) -> None:
    """Also with a state folder whose path is too long for a socket's address."""
    for name in ("share", "other-share", "venv", "hidden"):
        (folder / name).mkdir()
        (folder / name / "data").write_text("seen ")
    shutil.copytree(BIN, folder / "clone/bin")
    settings = {"DEVCLUSTER_SHARE": f"{folder}/share", "VIRTUAL_ENV": f"{folder}/venv"}
    cluster = DevCluster(folder / ("a-long-name-" * 9), settings)
    devcluster = folder / "clone/bin/devcluster"
    try:
        cluster.ask(devcluster, "up", "1", f"--share={folder}/other-share")
        seen = [folder / name / "data" for name in ("share", "other-share", "venv")]
        assert cluster.ask("srun", "cat", *seen) == "seen seen seen "
        assert cluster.ask("srun", "cat", devcluster) == devcluster.read_text()
        assert cluster.command("srun", "cat", folder / "hidden/data").returncode == 1
    finally:
        cluster.ask(devcluster, "down")

    assert cluster.traces() == []


def test_like_production_takes_slurms_own_time_outs(folder: Path) -> None:
    cluster = DevCluster(folder / "a")
    try:
        cluster.do("up", "1", "--like-production")
        config = cluster.ask("scontrol", "show", "config")
    finally:
        cluster.do("down")

    told = dict(re.findall(r"^(\w+) += (\d+) sec$", config, re.MULTILINE))
    expected = {
        "KillWait": "30",
        "SlurmdTimeout": "300",
        "MinJobAge": "300",
        "MessageTimeout": "10",
    }
    assert {key: told.get(key) for key in expected} == expected


def test_a_folder_with_other_files_is_not_taken(folder: Path) -> None:
    (folder / "thesis.txt").write_text("all of it")

    result = DevCluster(folder).try_("up")

    assert result.returncode == 1
    assert "has files and is no devcluster's" in result.stderr
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


def test_an_ordinary_user_is_told_that_it_needs_root(folder: Path) -> None:
    as_nobody = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
    for program in (("devcluster", "up"), ("with-devcluster", "true")):
        # from a copy: the checkout may lie in a folder that is root's alone
        shutil.copytree(BIN, folder / "bin", dirs_exist_ok=True)
        words = (*as_nobody, folder / "bin" / program[0], *program[1:])
        result = DevCluster(folder / "state").command(*words)

        assert result.returncode == 1
        assert "devcluster: this needs root" in result.stderr


# --- with-devcluster ---------------------------------------------------------------------------


def started_with(words: list[str], **settings: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [WITH, "--nodes=1", *words],
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def assert_gone(cluster: DevCluster) -> None:
    assert not cluster.root.exists()
    assert cluster.traces() == []


def test_with_devcluster_from_an_empty_environment_passes_the_status_on() -> None:
    words = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", WITH, "--nodes=2"]
    srun = "env -i /usr/bin/srun -N2 /bin/hostname </dev/null"
    script = f"echo $DEVCLUSTER_ROOT; {srun}; ip -br -4 addr; cat; exit 7"
    mounts = Path("/proc/self/mounts").read_text()
    links = network_interfaces()
    result = subprocess.run(
        [*words, "bash", "-c", script],
        input="given on stdin",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    root, *rest = result.stdout.splitlines()

    assert result.returncode == 7
    assert sorted(rest[:2]) == ["node01", "node02"]
    assert any(line.startswith("dc") and "198.1" in line for line in rest)
    assert rest[-1] == "given on stdin"
    assert_gone(DevCluster(Path(root)))
    assert Path("/proc/self/mounts").read_text() == mounts
    assert network_interfaces() == links


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_with_devcluster_passes_a_signal_on_and_cleans_up(number: signal.Signals) -> None:
    script = "trap 'echo told; exit 3' TERM; echo $DEVCLUSTER_ROOT; while :; do sleep 0.1; done"
    process = started_with(["bash", "-c", script])
    root = first_line(process)

    process.send_signal(number)

    assert first_line(process) == "told"
    assert process.wait(timeout=30) == 3
    process.communicate()
    assert_gone(DevCluster(Path(root)))


def test_a_killed_with_devcluster_leaves_nothing() -> None:
    process = started_with(["bash", "-c", "echo $DEVCLUSTER_ROOT; exec sleep 1234567"])
    cluster = DevCluster(Path(first_line(process)))

    process.kill()
    process.communicate()

    eventually(lambda: not cluster.root.exists(), within=20, what="the folder is gone")
    eventually(lambda: not cluster.traces(), within=10, what="every trace is gone")
    assert not [pid for pid in all_pids() if b"1234567" in command_line(pid)]
