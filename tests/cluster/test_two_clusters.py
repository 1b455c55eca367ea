"""One home on two clusters: each cluster's watcher acts on that cluster's runs alone."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.slurmswift_cli import Cli, Run
from tests.support.devcluster import DevCluster, another

pytestmark = pytest.mark.cluster

RECIPE = """\
schema: 1
name: two-clusters
sbatch: {nodes: 2, time: "00:10:00"}
launch: {framework: command, command: train.sh, processes_per_node: 1}
"""
# Fails as long as there is something to fail with, then trains for a moment.
TRAIN = """\
#!/bin/bash
mv "${0%/*}/fails" "${0%/*}/failed" 2>/dev/null || { sleep 2; exit; }
cat "${0%/*}/failed"
exit 1
"""
PEER_LOST = "RuntimeError: NCCL error: remote process exited or there was a network error\n"


@dataclass
class Side:
    """One of the clusters, and the user as he is there."""

    cluster: DevCluster
    cli: Cli

    def submit(self) -> Run:
        folder = self.cli.runs.parent
        folder.mkdir(exist_ok=True)
        (folder / "recipe.yaml").write_text(RECIPE)
        (folder / "train.sh").write_text(TRAIN)
        (folder / "train.sh").chmod(0o755)
        (folder / "fails").write_text(PEER_LOST)
        return self.cli.submit(recipe=folder / "recipe.yaml")

    def failed(self) -> Run:
        """A run whose job has failed, and that waits for a watcher."""
        run = self.submit()
        run.wait("the job failed", lambda: self.job_state(run) == "FAILED")
        return run

    def follow(self, run: Run) -> None:
        """To its end, after one restart."""
        run.wait("its job completed", lambda: self.job_state(run) == "COMPLETED")
        self.cli.watch_once()
        assert_restarted_once(run)

    def job_state(self, run: Run) -> str:
        return self.cluster.ask("squeue", "-h", "--states=all", "-n", run.run_id, "-o%T").strip()


@pytest.fixture(scope="module")
def other_cluster(running_devcluster: DevCluster) -> Iterator[DevCluster]:
    """A cluster of another name, beside the one of all tests."""
    with another("2", f"--share={running_devcluster.shared}", DEVCLUSTER_NAME="other") as cluster:
        yield cluster


@pytest.fixture
def sides(tmp_path: Path, devcluster: DevCluster, other_cluster: DevCluster) -> tuple[Side, Side]:
    here, there = (
        Side(cluster, Cli.on(cluster, tmp_path)) for cluster in (devcluster, other_cluster)
    )
    return here, there


def every_file(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """What is in a folder, and when each file of it was written, by which inode."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.stat().st_ino,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
    }


@contextlib.contextmanager
def watching(*clis: Cli) -> Iterator[list[subprocess.Popen[str]]]:
    watchers = [cli.watcher() for cli in clis]
    try:
        yield watchers
    finally:
        for watcher in watchers:
            watcher.terminate()
        for watcher in watchers:
            watcher.wait(60)


def assert_restarted_once(run: Run) -> None:
    body = run.wait_until_over()
    assert body["status"] == "COMPLETED", run.story()
    assert len(run.attempts()) == 2, run.story()


@pytest.mark.parametrize("mine", [0, 1])
def test_a_pass_leaves_a_failed_run_of_the_other_cluster_as_it_is(
    sides: tuple[Side, Side], mine: int
) -> None:
    here, there = sides[mine], sides[1 - mine]
    waits, run = there.failed(), here.failed()
    before = every_file(waits.path)
    index = every_file(here.cli.state / "runs")

    here.cli.watch_once()
    here.cli.watch_once()

    assert run.status()["restarts"] == 1, run.story()
    assert every_file(waits.path) == before
    assert every_file(here.cli.state / "runs") == index
    assert there.job_state(waits) == "FAILED"

    there.cli.watch_once()
    here.follow(run)
    there.follow(waits)


def test_a_watcher_of_one_cluster_keeps_none_of_the_other_out(sides: tuple[Side, Side]) -> None:
    here, there = sides
    with watching(here.cli) as (first,):
        waits = there.failed()
        assert watched_by(here) is not None
        # What is watched is the other cluster, and nobody acts upon the failure here.
        assert watched_by(there) is None
        before = every_file(waits.path)
        assert_restarted_once(here.submit())
        assert every_file(waits.path) == before

        with watching(there.cli) as (second,):
            assert_restarted_once(waits)
            assert_restarted_once(here.submit())
            assert (first.poll(), second.poll()) == (None, None)


def watched_by(side: Side) -> str | None:
    """Who watches this cluster, as a submission is told; the run is stopped at once."""
    folder = side.cli.runs.parent
    folder.mkdir(exist_ok=True)
    later = RECIPE.replace("time:", "begin: now+1hour, time:").replace("train.sh", '[sleep, "1"]')
    (folder / "later.yaml").write_text(later)
    body = side.cli.json("submit", str(folder / "later.yaml"))
    side.cli.ok("stop", body["run_id"])
    name: str | None = body["watched_by"]
    return name


def test_resume_and_stop_say_where_a_run_is_at_home(sides: tuple[Side, Side]) -> None:
    here, there = sides
    run = there.failed()
    before = every_file(run.path)

    said = here.cli.run("stop", run.run_id)

    assert said.returncode == 6, said.stderr
    assert "runs on cluster other, this is devcluster" in said.stderr
    changed = {name for name, file in every_file(run.path).items() if before.get(name) != file}
    assert changed == {"journal.jsonl", "stop"}
    here.cli.watch_once()
    assert there.job_state(run) == "FAILED"
    there.cli.watch_once()
    assert run.status()["status"] == "CANCELLED", run.story()
    said = here.cli.run("resume", run.run_id)
    assert said.returncode == 6, said.stderr
    assert "runs on cluster other, this is devcluster" in said.stderr
