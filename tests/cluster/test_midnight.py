"""Midnight passes while submissions are in doubt: sacct, left to itself, begins a new day."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cluster.slurmswift_cli import wait_for
from tests.cluster.test_doubt import TIMES_OUT, home_on
from tests.support.devcluster import another
from tests.support.other_time import COMPILER, clock_ahead_by

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.usefixtures("running_devcluster"),
    pytest.mark.skipif(not COMPILER, reason="there is no C compiler (Debian: gcc)"),
]

DAY = 86400
# For all that is to happen on the day before.
EVENING_SECONDS = 120


def test_midnight_passes_while_submissions_are_in_doubt(tmp_path: Path) -> None:
    """The jobs are over and slurmctld has forgotten them: only sacct, asked well, tells of them."""
    midnight = time.time() + EVENING_SECONDS
    ahead = DAY - int(midnight) % DAY
    with clock_ahead_by(ahead, tmp_path), another("2", "--share", tmp_path) as cluster:
        first, restart = (home_on(cluster, tmp_path / name) for name in ("first", "restart"))
        failed = restart.restart_in_doubt(TIMES_OUT)
        submitted = first.submit_in_doubt(TIMES_OUT)

        wait_for("midnight", lambda: time.time() > midnight + 1, 2 * EVENING_SECONDS)

        restart.wait_for_jobs(failed, ["FAILED", "COMPLETED"])
        first.wait_for_jobs(submitted, ["COMPLETED"])
        first.wait_until_forgotten(submitted)
        restart.wait_until_forgotten(failed)
        today = cluster.ask("sacct", "-X", "-n", "--duplicates", "--format=JobID,Submit")
        assert not today, "the evening was too short for this machine"
        first.assert_resolved(submitted, ["COMPLETED"])
        restart.assert_resolved(failed, ["FAILED", "COMPLETED"])
