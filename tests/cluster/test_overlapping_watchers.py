"""Watchers on two login hosts, many at once: one acts, each failure costs one restart."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.slurmswift_cli import Cli, Run, wait_for
from tests.support.devcluster import BIN, DevCluster

pytestmark = pytest.mark.cluster

RECIPE = """\
schema: 1
name: overlap
sbatch: {nodes: 1, time: "00:10:00"}
launch: {framework: command, command: train.sh, processes_per_node: 1}
"""
# The first attempt fails for a passing reason, the next one trains to its end.
TRAIN = """\
#!/bin/bash
[[ $ATTEMPT_DIR == */001-* ]] || exit 0
sleep 1
echo 'RuntimeError: NCCL error: remote process exited or there was a network error'
exit 1
"""
# Stands for a command of Slurm's: notes for whom it ran, from when to when.
SHIM = """\
#!/bin/bash
begin=$(date +%s%N)
REAL "$@"
status=$?
[[ $* == "show config" ]] || echo "$HOSTNAME-$PPID $begin $(date +%s%N)" >>"LOG"
exit $status
"""
OVER = ("COMPLETED", "FAILED", "HELD", "CANCELLED")
HOSTS = ("login1", "login2")


@dataclass
class Logins:
    """A user at work on both login hosts."""

    cluster: DevCluster
    cli: Cli
    calls: Path

    def start(self, host: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [BIN / "devcluster", "exec", host, sys.executable, "-m", "slurmswift", *arguments],
            env=self.cli.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def passes(self, count: int = 6) -> list[Any]:
        """So many passes, started at once; what each said of itself."""
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(self._once, [HOSTS[i % 2] for i in range(count)]))

    def _once(self, host: str) -> Any:
        process = self.start(host, "watch", "--once", "--json")
        said, complaint = process.communicate(timeout=120)
        assert process.returncode == 0, (host, process.returncode, said, complaint)
        body = json.loads(said)
        assert body["troubles" if body["acted"] else "changes"] == [], (body, complaint)
        return body

    def submit(self) -> Run:
        folder = self.cli.runs.parent
        (folder / "recipe.yaml").write_text(RECIPE)
        (folder / "train.sh").write_text(TRAIN)
        (folder / "train.sh").chmod(0o755)
        return self.cli.submit(recipe=folder / "recipe.yaml")

    def submitted_for(self, *options: str) -> subprocess.CompletedProcess[str]:
        """The words for a submission that is due in an hour; it is taken back at once."""
        later = self.cli.runs.parent / "later.yaml"
        recipe = RECIPE.replace("time:", "begin: now+1hour, time:").replace("overlap", "later")
        later.write_text(recipe.replace("train.sh", "[sleep, '1']"))
        done = self.cli.run("submit", str(later), *options)
        assert done.returncode == 0, done.stderr
        self.cli.ok("stop", "later")
        return done

    def assert_one_at_a_time(self) -> None:
        """From a pass's first look at Slurm to its last act no other pass spoke to Slurm."""
        spans: dict[str, tuple[int, int]] = {}
        for line in self.calls.read_text().splitlines():
            who, *moments = line.split()
            known = spans.get(who, ())
            times = sorted([*known, *map(int, moments)])
            spans[who] = (times[0], times[-1])
        assert len(spans) > 1, "one pass alone did it all"
        before = 0
        for begin, end in sorted(spans.values()):
            assert before <= begin, spans
            before = end


@pytest.fixture
def logins(tmp_path: Path, devcluster: DevCluster) -> Logins:
    home = devcluster.shared / tmp_path.name
    shims = home / "shims"
    shims.mkdir(parents=True)
    calls = home / "calls"
    for name in ("squeue", "sacct", "scontrol", "sbatch"):
        real = shutil.which(name)
        assert real
        (shims / name).write_text(SHIM.replace("REAL", real).replace("LOG", str(calls)))
        (shims / name).chmod(0o755)
    cli = Cli(
        home / "state",
        home / "runs",
        devcluster.root / "etc" / "profile.yaml",
        {"PATH": f"{shims}{os.pathsep}{os.environ['PATH']}"},
    )
    return Logins(devcluster, cli, calls)


def assert_restarted_once(run: Run) -> None:
    """The failure was seen, decided and acted upon once."""
    assert run.status()["status"] == "COMPLETED", run.story()
    assert run.status()["restarts"] == 1, run.story()
    assert len(run.attempts()) == 2, run.story()
    assert [entry["decision"] for entry in run.why()] == ["resume", "finish"], run.story()
    events = [json.loads(line) for line in (run.path / "journal.jsonl").read_text().splitlines()]
    acts = [event["act"] for event in events if event["event"] == "intent"]
    assert acts == ["submit", "requeue"], run.story()


def test_many_passes_at_once_restart_each_run_once(logins: Logins) -> None:
    runs = [logins.submit(), logins.submit()]
    logins.calls.unlink()  # submit speaks to Slurm, too
    said: list[Any] = []

    def over() -> bool:
        said.extend(logins.passes())
        return all(run.record("run.json")["status"] in OVER for run in runs)

    runs[0].wait("they are over", over, 240)

    for run in runs:
        assert_restarted_once(run)
    logins.assert_one_at_a_time()
    turned_away = [body["holder"] for body in said if not body["acted"]]
    assert turned_away, "no two passes ever met"
    assert {name.partition(",")[0] for name in turned_away} <= {*HOSTS, "another watcher"}


def test_a_watcher_that_stays_lets_no_pass_in(logins: Logins) -> None:
    """Several are started at once, one stays; and whoever submits is told of it."""
    assert "nobody is watching" in logins.submitted_for().stderr
    assert json.loads(logins.submitted_for("--json").stdout)["watched_by"] is None

    watchers = [logins.start(HOSTS[i % 2], "watch", "--interval", "5") for i in range(4)]
    try:
        gone = wait_for("one is left", lambda: only_one_left(watchers), 90)
        for watcher in gone:
            assert watcher.returncode == 0
            assert "is watching already" in watcher.communicate()[1]
        (stays,) = [watcher for watcher in watchers if watcher not in gone]

        run = logins.submit()
        holder = json.loads(logins.submitted_for("--json").stdout)["watched_by"]
        assert f"watched by {holder}" in logins.submitted_for().stdout
        while run.record("run.json")["status"] not in OVER:
            answers = logins.passes(4)
            assert {(body["acted"], body.get("holder")) for body in answers} == {(False, holder)}
        assert_restarted_once(run)

        host, _, pid = holder.partition(", pid ")
        logins.cluster.on(host, "kill", "-TERM", pid)
        assert stays.wait(60) == 143, stays.communicate()[1]
        assert json.loads(logins.submitted_for("--json").stdout)["watched_by"] is None
        assert any(body["acted"] for body in logins.passes(2))
    finally:
        for watcher in watchers:
            watcher.kill()
            watcher.communicate()


def only_one_left(watchers: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    gone = [watcher for watcher in watchers if watcher.poll() is not None]
    return gone if len(gone) == len(watchers) - 1 else []
