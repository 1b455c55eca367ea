"""A site without slurmdbd: squeue tells of a submission in doubt, then the job's own records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.slurmswift_cli import Run
from tests.cluster.test_doubt import TIMES_OUT, Home, home_on
from tests.support.devcluster import DevCluster, another

InDoubt = Callable[[Home, str], Run]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("running_devcluster")]


@pytest.fixture(scope="module")
def without_accounting() -> Iterator[DevCluster]:
    """A cluster that never heard of slurmdbd."""
    with another("2") as cluster:
        conf = cluster.root / "etc/slurm.conf"
        lines = re.sub(r"(?m)^(Accounting|Preempt|JobAcct).*\n", "", conf.read_text())
        conf.write_text(f"{lines}AccountingStorageType=accounting_storage/none\n")
        cluster.do("ctld", "stop")
        cluster.do("dbd", "stop")
        cluster.do("ctld", "start")
        told = cluster.command("sacct")
        assert "accounting storage is disabled" in told.stderr, told
        yield cluster


@pytest.fixture
def home(tmp_path: Path, without_accounting: DevCluster) -> Iterator[Home]:
    yield home_on(without_accounting, tmp_path)
    without_accounting.ask("scancel", "--user=root")


@pytest.mark.parametrize(
    ("in_doubt", "jobs"), [(Home.submit_in_doubt, 1), (Home.restart_in_doubt, 2)]
)
def test_squeue_tells_of_a_job_that_runs(home: Home, in_doubt: InDoubt, jobs: int) -> None:
    home.training_lasts(20)
    run = in_doubt(home, TIMES_OUT)
    run.wait("the job runs", lambda: home.queued(run)[-1:] == ["RUNNING"])
    run.make_older()

    home.cli.watch_once()

    assert run.status()["job_id"] == (home.folder / "answer").read_text().strip(), run.story()
    home.assert_completes(run, jobs=jobs)


def test_its_records_tell_of_a_job_that_is_forgotten(home: Home) -> None:
    run = home.submit_in_doubt(TIMES_OUT)
    home.wait_until_forgotten(run)
    run.make_older()

    home.assert_completes(run, jobs=1)
