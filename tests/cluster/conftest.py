"""What tests/cluster offers: `devcluster`, the running cluster, whole again after each test.

`bin/with-devcluster` makes it, and runs the tests beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.slurmswift_cli import Cli
from tests.support.devcluster import DevCluster, eventually


@pytest.fixture(scope="session")
def running_devcluster() -> DevCluster:
    root = os.environ.get("DEVCLUSTER_ROOT")
    if not root or not Path(root, "run/complete").exists():
        pytest.skip("no devcluster is up: run these tests by bin/with-devcluster")
    return DevCluster(Path(root))


@pytest.fixture
def devcluster(running_devcluster: DevCluster) -> Iterator[DevCluster]:
    yield running_devcluster
    make_whole(running_devcluster)


@pytest.fixture
def cli(tmp_path: Path, devcluster: DevCluster) -> Cli:
    """A user of the cluster, which is made whole again after the test."""
    runs = devcluster.shared / tmp_path.name / "runs"
    return Cli(tmp_path / "state", runs, devcluster.root / "etc" / "profile.yaml")


@pytest.fixture
def watched(cli: Cli) -> Iterator[Cli]:
    """The same user, with a watcher at work."""
    watcher = cli.watcher()
    yield cli
    watcher.terminate()
    watcher.wait(60)


def make_whole(cluster: DevCluster) -> None:
    """Daemons run, hosts are on, cables are in, no job is left."""
    lines = cluster.do("status").splitlines()
    for daemon in ("dbd", "ctld"):
        cluster.do(daemon, "start")
    for name, state, *rest in [
        line.split() for line in lines if line.startswith(("node", "login"))
    ]:
        if state == "off":
            cluster.do("revive", name)
            continue
        for network, cable in zip(rest[0:4:2], rest[1:4:2], strict=False):
            if cable == "cut":
                cluster.do("heal", name, network)
        if name.startswith("node"):
            cluster.do("resume", name)
    cluster.ask("scancel", "--user=root")
    cluster.ask("scancel", "--user=nobody")
    eventually(lambda: not cluster.ask("squeue", "--noheader"), within=60, what="every job is gone")
