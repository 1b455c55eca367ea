"""What tests/cluster offers: `devcluster`, the running cluster, whole again after each test.

`bin/with-devcluster` makes it, and runs the tests beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.slurmswift_cli import Cli
from tests.support.devcluster import DevCluster


@pytest.fixture(scope="session")
def running_devcluster() -> DevCluster:
    root = os.environ.get("DEVCLUSTER_ROOT")
    if not root or not Path(root, "run/complete").exists():
        pytest.skip("no devcluster is up: run these tests by bin/with-devcluster")
    return DevCluster(Path(root))


@pytest.fixture
def devcluster(running_devcluster: DevCluster) -> Iterator[DevCluster]:
    yield running_devcluster
    running_devcluster.make_whole()


@pytest.fixture
def cli(tmp_path: Path, devcluster: DevCluster) -> Cli:
    """A user of the cluster, which is made whole again after the test."""
    return Cli.on(devcluster, tmp_path)


@pytest.fixture
def watched(cli: Cli) -> Iterator[Cli]:
    """The same user, with a watcher at work."""
    watcher = cli.watcher()
    yield cli
    watcher.terminate()
    watcher.wait(60)
