"""The job's script under a real Slurm: what its signals, launches and ends leave behind."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.devcluster import DevCluster, eventually
from tests.support.job_script import JobScript

pytestmark = pytest.mark.cluster

# Two ranks a node below a launcher that looks after them as torchrun does; no torch needed.
LAUNCHER = """\
import os, signal, subprocess, sys, time
node = os.environ["SLURMSWIFT_NODE"]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
ranks = [
    subprocess.Popen(
        ["sleep", "300"],
        env={**os.environ, "LOCAL_RANK": str(n), "RANK": str(2 * int(os.environ["NODE_RANK"]) + n)},
    )
    for n in (0, 1)
]
open(os.environ["ATTEMPT_DIR"] + "/ready-" + node, "w").close()
try:
    while all(rank.poll() is None for rank in ranks):
        time.sleep(0.1)
    sys.exit(1)
finally:
    for rank in ranks:
        rank.terminate()
    time.sleep(0.5)
"""


@pytest.fixture
def script(devcluster: DevCluster, tmp_path: Path) -> JobScript:
    run_dir = devcluster.shared / tmp_path.name
    return JobScript.make(run_dir, ["/usr/bin/python3", "-c", LAUNCHER], python="/usr/bin/python3")


def submit(cluster: DevCluster, script: JobScript, *options: str) -> str:
    return cluster.ask(
        "sbatch", "--parsable", "--nodes=2", f"--output={script.run_dir}/slurm-%j.out",
        "--open-mode=append", *options, script.run_dir / "job.sbatch", "1",
    ).strip()  # fmt: skip


def until_it_trains(script: JobScript, attempt: str) -> None:
    folder = script.run_dir / "attempts" / attempt
    eventually(lambda: len(list(folder.glob("ready-*"))) == 2, within=60, what=f"{attempt} trains")
    time.sleep(2)  # agents look for new ranks every second


def until_recorded(script: JobScript, attempt: str) -> dict[str, object]:
    path = script.run_dir / "attempts" / attempt / "exit.json"
    eventually(path.exists, within=90, what=f"{attempt} has its end")
    return script.record(attempt, "exit.json")


def ends_of_ranks(script: JobScript, attempt: str) -> dict[int, tuple[object, object]]:
    ends: dict[int, tuple[object, object]] = {}
    for path in (script.run_dir / "attempts" / attempt / "nodes").glob("*.json"):
        record = script.record(attempt, f"nodes/{path.name}")
        ranks = record["ranks"]
        assert isinstance(ranks, list)
        ends |= {rank["rank"]: (rank["status"], rank["signal"]) for rank in ranks}
    return ends


def test_a_cancelled_job_leaves_every_record(devcluster: DevCluster, script: JobScript) -> None:
    """Slurm's TERM reaches the shell and, under cgroups, only the agents of the step."""
    job = submit(devcluster, script)
    attempt = f"001-{job}"
    until_it_trains(script, attempt)
    devcluster.ask("scancel", job)
    ended = until_recorded(script, attempt)

    assert script.record(attempt, "ending.json")["signal"] == "TERM"
    assert (ended["status"], ended["nodes_reported"]) == (1, 2)
    assert ends_of_ranks(script, attempt) == dict.fromkeys(range(4), (None, 15))


def test_the_rank_that_was_killed_is_the_one_with_signal_9(
    devcluster: DevCluster, script: JobScript
) -> None:
    job = submit(devcluster, script)
    attempt = f"001-{job}"
    until_it_trains(script, attempt)
    devcluster.on("node02", "pkill", "-9", "-o", "-f", "^sleep 300$")
    ended = until_recorded(script, attempt)

    assert (ended["status"], ended["cause_hint"], ended["nodes_reported"]) == (1, "training", 2)
    ends = ends_of_ranks(script, attempt)
    assert ends[2] == (None, 9)
    assert (None, 9) not in (ends[0], ends[1])
    assert script.record(attempt, "failure.json")["node"] == "node02"


def test_a_node_that_never_answers_the_launch_is_named(
    devcluster: DevCluster, script: JobScript
) -> None:
    job = submit(devcluster, script, "--begin=now+3", "--no-requeue", "--nodelist=node01,node02")
    devcluster.do("pause", "node02")
    ended = until_recorded(script, f"001-{job}")

    assert ended["status"] != 0
    assert (ended["nodes_silent"], ended["cause_hint"]) == (["node02"], "preflight")


def test_an_agent_that_dies_ends_the_attempt_on_the_other_nodes(
    devcluster: DevCluster, script: JobScript
) -> None:
    job = submit(devcluster, script)
    attempt = f"001-{job}"
    until_it_trains(script, attempt)
    devcluster.on("node02", "pkill", "-9", "-f", "node.pyz agent")
    ended = until_recorded(script, attempt)

    assert ended["status"] != 0
    assert ended["nodes_silent"] == ["node02"]
    assert "node02: silent for" in script.log(attempt)


def test_a_requeued_job_waits_for_nothing_that_is_over_and_resumes_as_a_new_attempt(
    devcluster: DevCluster, script: JobScript
) -> None:
    job = submit(devcluster, script, "--requeue")
    until_it_trains(script, f"001-{job}")
    devcluster.ask("scontrol", "requeue", job)
    eventually(lambda: devcluster.job_state(job) == "PENDING", within=60, what="it is queued again")
    time.sleep(2)  # started within 2 s of the last end, 22.05 refuses it
    devcluster.ask("scontrol", "update", f"JobId={job}", "StartTime=now")
    until_it_trains(script, f"002-{job}")

    start = script.record(f"002-{job}", "start.json")
    assert (start["restart_count"], start["attempt"]) == (1, 2)
    assert "waiting until it is over" not in script.log(f"002-{job}")
