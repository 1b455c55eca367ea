"""`diagnose JOBID`: a job that slurmswift never saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.slurmswift_cli import Cli, slurm, wait_for
from tests.cluster.test_ends import FAULTY, submit_training
from tests.support.devcluster import DevCluster

pytestmark = pytest.mark.cluster

SCRIPT = "#!/bin/bash\necho 'OSError: [Errno 28] No space left on device' >&2\nexit 7\n"


def submitted(folder: Path) -> str:
    folder.mkdir(parents=True)
    (folder / "job.sh").write_text(SCRIPT)
    log = f"--output={folder}/a log %j.txt"
    job_id = slurm("sbatch", "--parsable", f"--chdir={folder}", log, f"{folder}/job.sh").strip()
    ended = ("sacct", f"--jobs={job_id}", "--allocations", "--noheader", "--format=State")
    wait_for("the job has failed", lambda: "FAILED" in slurm(*ended) or None)
    return job_id


def test_its_log_is_found_by_slurms_own_word(cli: Cli, devcluster: DevCluster) -> None:
    folder = devcluster.shared / "foreign job"
    job_id = submitted(folder)

    told = cli.json("diagnose", job_id)

    assert told["cause"] == "storage-full"
    assert told["evidence"][0]["file"] == f"{folder}/a log {job_id}.txt"


def test_a_log_that_is_gone_is_said_with_what_to_do(cli: Cli, devcluster: DevCluster) -> None:
    folder = devcluster.shared / "foreign job without log"
    job_id = submitted(folder)
    (folder / f"a log {job_id}.txt").unlink()

    done = cli.run("diagnose", job_id)

    assert done.returncode == 6
    assert "FAILED 7:0" in done.stderr
    assert "--state FAILED --exit-code 7:0" in done.stderr


def test_a_job_that_nobody_knows(cli: Cli) -> None:
    done = cli.run("diagnose", "4000000")

    assert done.returncode == 6
    assert "Slurm knows no job 4000000" in done.stderr


def test_a_run_of_ours_is_told_as_why_tells_it(watched: Cli) -> None:
    run = submit_training(watched, FAULTY)
    run.wait_until_over()

    told = watched.json("diagnose", run.run_id)

    assert told == run.why()[-1]["diagnosis"]
    assert told["evidence"], run.story()
    assert watched.json("diagnose", run.job_id) == told
