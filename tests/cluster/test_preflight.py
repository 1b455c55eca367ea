"""A node that cannot train is found before it trains: named with its check, and left out."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from slurmswift.node.checks import CHECKS
from tests.cluster.slurmswift_cli import Cli, Run
from tests.support.devcluster import DevCluster

# Seconds from an attempt's start to its end: torch's import on a busy machine is most of them.
SOON = 45.0
BAD = "node02"  # of node01 and node02, where a job of two nodes starts on an idle cluster
SHORT = ("launch.arguments.max_steps=4", "launch.arguments.step_seconds=0")
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")

pytestmark = [pytest.mark.cluster, pytest.mark.torch]


@pytest.fixture
def cli(tmp_path: Path, devcluster: DevCluster) -> Cli:
    """A user of the cluster, which is made whole again after the test."""
    runs = devcluster.shared / tmp_path.name / "runs"
    runs.mkdir(parents=True)
    return Cli(tmp_path / "state", runs, devcluster.root / "etc" / "profile.yaml")


@pytest.fixture
def on_bad(devcluster: DevCluster) -> Iterator[Callable[[str, str], None]]:
    """Runs a shell line on the bad node now, and another one that undoes it after the test."""
    with ExitStack() as undone:

        def do(line: str, undo: str) -> None:
            undone.callback(devcluster.on, BAD, "bash", "-c", undo)
            devcluster.on(BAD, "bash", "-c", line)

        yield do


def record(run: Run, attempt: int, name: str) -> Any:
    return json.loads((run.attempts()[attempt] / name).read_text())


def assert_left_out(run: Run, check: str) -> None:
    """The first attempt ended soon, by the bad node's check; the second completed without it."""
    body = run.wait_until_over(300)
    found = record(run, 0, "preflight.json")
    start, end = record(run, 0, "start.json"), record(run, 0, "exit.json")

    assert body["status"] == "COMPLETED", run.story()
    failed = {(one["check"], one["node"]) for one in found["checks"] if not one["ok"]}
    failed |= {("silent", node) for node in found["nodes_silent"]}
    assert (check, BAD) in failed, run.story()
    assert {node for _, node in failed} == {BAD}, run.story()
    assert end["cause_hint"] == "preflight"
    assert end["message"].startswith(f"{BAD}: "), end
    assert end["ended_at"] - start["started_at"] < SOON
    decided = run.why()[0]
    assert (decided["decision"], decided["diagnosis"]["node"]) == ("resume", BAD), run.story()
    assert decided["diagnosis"]["rule"] == f"preflight-{check}"
    assert BAD in start["nodes"]
    assert BAD not in record(run, 1, "start.json")["nodes"]
    assert not list((run.attempts()[0] / "nodes").iterdir()), "an agent was started"


def test_what_passes_is_written_down_and_costs_little(watched: Cli) -> None:
    run = watched.submit(*SHORT, "sbatch.gpus_per_node=2")
    body = run.wait_until_over()

    assert body["status"] == "COMPLETED", run.story()
    found = record(run, 0, "preflight.json")
    assert found["ok"]
    nodes = record(run, 0, "start.json")["nodes"]
    for check in (check.id for check in CHECKS if check.id != "gpus"):
        assert [one["node"] for one in found["checks"] if one["check"] == check] == nodes, check
    # The cluster's GPUs are files: nothing there can say more of them than Slurm does.
    left_out = {(one["check"], one["why"]) for one in found["left_out"]}
    assert left_out == {("gpus", "no tool that lists GPUs is on this node")}
    assert found["seconds"] < SOON


@pytest.mark.ci
def test_a_folder_that_is_not_the_shared_one(
    watched: Cli, on_bad: Callable[[str, str], None]
) -> None:
    runs = shlex.quote(str(watched.runs))
    on_bad(f"mount -t tmpfs tmpfs {runs}", f"umount {runs}")

    assert_left_out(watched.submit(*SHORT), "run_directory")


def test_a_port_that_is_not_reached(watched: Cli, on_bad: Callable[[str, str], None]) -> None:
    route = "prohibit $(getent ahostsv4 node01-hsn0 | head -n 1 | cut -d ' ' -f 1)"
    on_bad(f"ip route add {route}", f"ip route del {route}")

    assert_left_out(watched.submit(*SHORT), "rendezvous")


def test_a_network_without_a_link(watched: Cli, devcluster: DevCluster) -> None:
    devcluster.do("cut", BAD)

    assert_left_out(watched.submit(*SHORT), "interface")


def test_a_clock_that_is_off(watched: Cli, cli: Cli) -> None:
    if not FAKETIME.exists():
        pytest.skip("libfaketime is not installed (Debian: faketime)")
    python = cli.runs.parent / "python"
    python.write_text(
        "#!/bin/bash\n"
        f"[[ $SLURMD_NODENAME != {BAD} ]] || export FAKETIME=+90s LD_PRELOAD={FAKETIME}\n"
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    python.chmod(0o755)

    assert_left_out(watched.submit(*SHORT, f"launch.python={python}"), "clock")


def test_a_stop_file_of_somebodys(watched: Cli, on_bad: Callable[[str, str], None]) -> None:
    on_bad("touch /tmp/stop", "rm /tmp/stop")

    assert_left_out(watched.submit(*SHORT), "stop_file")


def test_a_node_that_does_not_answer(watched: Cli, devcluster: DevCluster) -> None:
    run = watched.submit(*SHORT, "environment.setup=sleep 8")
    run.wait("the attempt has started", run.attempts)
    devcluster.do("pause", BAD)

    body = run.wait_until_over(300)

    assert body["status"] == "COMPLETED", run.story()
    assert BAD not in record(run, -1, "start.json")["nodes"], run.story()
    # Slurm may find it out first: it takes the job away, off the node, before anything is written.
    if (run.attempts()[0] / "preflight.json").exists():
        assert record(run, 0, "preflight.json")["nodes_silent"] == [BAD]
        assert run.why()[0]["diagnosis"]["node"] == BAD, run.story()
