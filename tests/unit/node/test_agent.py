"""The agent with real processes: what it starts, what it ends, what it leaves."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurmswift.atomic import read_json
from slurmswift.domain.records import NodeRecord
from slurmswift.node.attempt import Attempt, RunFolder
from slurmswift.node.processes import descendants
from tests.support.run_folder import age, grant_to, leave_record, make_attempt, make_run

# The agent's own code, hurried: its periods are seconds in a job.
DRIVER = """
import json, sys
from pathlib import Path
from slurmswift.node.agent import Agent, Periods
from slurmswift.node.attempt import Attempt, RunFolder
from slurmswift.node.processes import descendants
run, attempt, node, periods = sys.argv[1:]
agent = Agent(RunFolder(Path(run)), Attempt.at(Path(attempt)), node=node, node_rank=0,
              periods=Periods(**json.loads(periods)))
sys.exit(agent.run())
"""
HURRIED = {
    "beat": 0.1,
    "silence": 1.0,
    "look": 0.2,
    "scan": 0.1,
    "poll": 0.05,
    "neighbour": 2.0,
    "peer": 0.5,
    "peer_term": 0.5,
    "term": 0.3,
    "kill": 5.0,
}
REPOSITORY = Path(__file__).parents[3]


class Started:
    """One agent that runs now."""

    def __init__(self, run: RunFolder, attempt: Attempt, **periods: float) -> None:
        self.run = run
        self.attempt = attempt
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(run.path), str(attempt.path), "n1",
             json.dumps({**HURRIED, **periods})],
            cwd=run.path,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OUT": str(run.path / "output"),
                 "SLURMSWIFT_PYTHON": sys.executable, "LOCAL_RANK": "9",
                 "SLURM_CONF": str(run.path / "slurm.conf")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
        self.said = ""

    def ends(self) -> int:
        self.said = self.process.communicate(timeout=20)[0]
        return self.process.returncode

    def record(self) -> NodeRecord:
        path = self.attempt.node_file("n1")
        return NodeRecord.parse(read_json(path), str(path))

    def output(self, name: str) -> Path:
        return self.run.path / "output" / name


def wait_for(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not claim():
        assert time.monotonic() < deadline, "nothing happened within 15 s"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    started = []

    def start_agent(
        launch: str, *, nodes: tuple[str, ...] = ("n1",), interface: str | None = None,
        prepare: Callable[[RunFolder, Attempt], None] = lambda *_: None, **periods: float,
    ) -> Started:  # fmt: skip
        run = make_run(tmp_path / "a 'run'")
        attempt = make_attempt(run, 1, nodes=nodes, interface=interface)
        (run.path / "job.sbatch").write_text(textwrap.dedent(launch))
        prepare(run, attempt)
        started.append(Started(run, attempt, **periods))
        return started[-1]

    yield start_agent
    for agent in started:
        agent.process.kill()
        agent.process.wait()
        if agent.process.stdout:
            agent.process.stdout.close()


RANK = """
echo $$ >"$OUT/rank$RANK"
(sleep 300) & echo $! >"$OUT/loader$RANK"   # inherits LOCAL_RANK, is no rank
while [[ ! -e $OUT/end$RANK ]]; do sleep 0.05; done
kill $!; exit $(cat "$OUT/end$RANK")
"""
# As torchrun does it: it looks at its ranks ten times a second.
TWO_RANKS = f"""
import os, subprocess, sys, time
ranks = [
    subprocess.Popen(["bash", "-c", {RANK!r}], env={{**os.environ, "RANK": n, "LOCAL_RANK": n}})
    for n in "01"
]
while all(rank.poll() is None for rank in ranks):
    time.sleep(0.1)
sys.exit(max(rank.returncode or 0 for rank in ranks))
"""
RANKS = f'exec "$SLURMSWIFT_PYTHON" -c {shlex.quote(TWO_RANKS)}'


def ranks_run(agent: Started) -> list[int]:
    names = ["rank0", "rank1", "loader0", "loader1"]
    wait_for(lambda: all(agent.output(name).exists() for name in names))
    wait_for(lambda: all(agent.output(name).read_text() for name in names))
    return [int(agent.output(name).read_text()) for name in names]


def test_the_launcher_gets_what_it_needs_and_its_status_is_the_agents(
    start: Callable[..., Started],
) -> None:
    agent = start("""
        echo "$1 $NODE_RANK $NNODES $MASTER_ADDR $MASTER_PORT [$RESUME_FROM] ${LOCAL_RANK-none}" \\
          >"$OUT/seen"
        [[ $PWD == "$SLURMSWIFT_RUN_DIR" && -d $ATTEMPT_DIR ]] || exit 1
        exit 3
    """)

    assert agent.ends() == 3
    assert agent.output("seen").read_text() == "launch 0 1 127.0.0.1 20001 [] none\n"
    assert agent.record().launcher.status == 3
    assert agent.record().fenced is None


def test_ranks_are_recorded_with_the_way_each_ended(start: Callable[..., Started]) -> None:
    agent = start(RANKS)
    ranks_run(agent)
    time.sleep(0.5)  # a look at the process table
    agent.output("end1").write_text("7")

    assert agent.ends() == 7
    first, second = agent.record().ranks
    assert (second.rank, second.local_rank, second.status, second.signal) == (1, 1, 7, None)
    # A left-over of the launcher; its end came from the agent.
    assert (first.rank, first.status, first.signal) == (0, None, signal.SIGKILL)


def test_what_the_launcher_leaves_behind_is_ended(start: Callable[..., Started]) -> None:
    agent = start("""
        setsid bash -c 'trap "" TERM; echo $$ >"$OUT/orphan"; exec sleep 300' &
        while [[ ! -s $OUT/orphan ]]; do sleep 0.05; done
        exit 0
    """)

    assert agent.ends() == 0
    assert not is_running(int(agent.output("orphan").read_text()))


@pytest.mark.parametrize("how", ["claim", "epoch"])
def test_a_newer_attempt_ends_the_ranks_of_the_older(
    start: Callable[..., Started], how: str
) -> None:
    agent = start(RANKS)
    pids = ranks_run(agent)
    if how == "claim":
        (agent.run.attempts_folder / ".claim-002").mkdir()
    else:
        grant_to(agent.run.path, epoch=2)

    assert agent.ends() == 101
    assert not any(map(is_running, pids))
    why = {
        "claim": "attempt 2 has started, this is attempt 1",
        "epoch": "epoch 2 was granted, this is epoch 1",
    }
    assert agent.record().fenced == why[how]


def test_an_agent_that_comes_too_late_starts_nothing(start: Callable[..., Started]) -> None:
    def claim(run: RunFolder, _: Attempt) -> None:
        (run.attempts_folder / ".claim-002").mkdir()

    agent = start('touch "$OUT/started"', prepare=claim)

    assert agent.ends() == 101
    assert not agent.output("started").exists()
    assert agent.attempt.alive_file("n1").exists()
    assert agent.record().fenced == "attempt 2 has started, this is attempt 1"


def test_ranks_end_when_the_run_directory_cannot_be_written_to(
    start: Callable[..., Started],
) -> None:
    agent = start(RANKS)
    pids = ranks_run(agent)
    alive = agent.attempt.alive_file("n1")
    alive.unlink()
    alive.mkdir()  # every touch fails from now on, root's as well

    assert agent.ends() == 101
    assert not any(map(is_running, pids))
    assert str(agent.record().fenced).startswith("this node could not write")


def test_ranks_end_when_the_file_system_hangs(start: Callable[..., Started]) -> None:
    """Opening a pipe without a reader hangs as a lost NFS server does."""
    agent = start(RANKS)
    pids = ranks_run(agent)
    alive, grant = agent.attempt.alive_file("n1"), agent.run.path / "grant.json"
    pipe = agent.run.path / "pipe"
    os.mkfifo(pipe)
    assert grant.exists()
    pipe.replace(alive)
    since = time.monotonic()

    assert agent.ends() == 101
    assert time.monotonic() - since < 5
    assert not any(map(is_running, pids))


@pytest.mark.parametrize("to_all", [True, False], ids=["linuxproc", "cgroup"])
def test_term_reaches_the_launcher_once_and_leaves_it_its_time(
    start: Callable[..., Started], *, to_all: bool
) -> None:
    """Slurm sends TERM to every process of the job, or to the agent alone."""
    agent = start("""
        trap 'echo saved >>"$OUT/saved"; sleep 0.7 & wait $!; exit 0' TERM
        touch "$OUT/ready"
        while :; do sleep 0.05; done
    """)
    wait_for(lambda: agent.output("ready").exists())
    children = [process.pid for process in descendants(agent.process.pid)]
    for pid in (agent.process.pid, *children) if to_all else (agent.process.pid,):
        os.kill(pid, signal.SIGTERM)

    assert agent.ends() == 0
    assert agent.output("saved").read_text() == "saved\n"
    assert agent.record().launcher.status == 0


def test_ranks_that_ignore_term_are_ended_before_slurm_ends_the_agent(
    start: Callable[..., Started],
) -> None:
    def kill_wait(run: RunFolder, _: Attempt) -> None:
        (run.path / "slurm.conf").write_text("ClusterName=x\nKillWait=3\n")

    agent = start(
        'trap "" TERM; touch "$OUT/ready"; while :; do sleep 0.05; done', prepare=kill_wait
    )
    wait_for(lambda: agent.output("ready").exists())
    since = time.monotonic()
    agent.process.send_signal(signal.SIGTERM)

    assert agent.ends() == 120
    assert 0.8 < time.monotonic() - since < 3
    assert agent.record().launcher.signal == signal.SIGKILL


def test_another_nodes_failure_ends_the_launcher_after_a_while(
    start: Callable[..., Started],
) -> None:
    agent = start(
        "trap 'exit 9' TERM; touch \"$OUT/ready\"; while :; do sleep 0.05; done",
        nodes=("n1", "n2"),
    )
    wait_for(lambda: agent.output("ready").exists())
    (agent.attempt.path / "failure.json").write_text(
        '{"schema": 1, "node": "n2", "why": "the launcher ended with status 1", "at": 1}'
    )

    assert agent.ends() == 9
    assert "another node has failed: n2: the launcher ended with status 1" in agent.said
    assert agent.record().fenced is None


def test_a_silent_neighbour_counts_as_a_failure(start: Callable[..., Started]) -> None:
    def silent(_: RunFolder, attempt: Attempt) -> None:
        attempt.alive_file("n2").touch()
        age(attempt.alive_file("n2"), 60)

    agent = start("exec sleep 300", nodes=("n1", "n2"), prepare=silent)

    assert agent.ends() == 120
    assert "another node has failed: n2: silent for" in agent.said
    report = read_json(agent.attempt.path / "failure.json")
    assert isinstance(report, dict)
    assert report["node"] == "n1"


def test_a_neighbour_that_has_left_its_record_is_not_silent(
    start: Callable[..., Started],
) -> None:
    def done(_: RunFolder, attempt: Attempt) -> None:
        attempt.alive_file("n2").touch()
        age(attempt.alive_file("n2"), 60)
        leave_record(attempt, "n2")

    agent = start("sleep 1.5; exit 0", nodes=("n1", "n2"), prepare=done)

    assert agent.ends() == 0
    assert not (agent.attempt.path / "failure.json").exists()


def test_the_first_failure_is_told_to_the_others_with_the_links_state(
    start: Callable[..., Started],
) -> None:
    agent = start("exit 5", interface="lo")

    assert agent.ends() == 5
    report = read_json(agent.attempt.path / "failure.json")
    assert isinstance(report, dict)
    assert (report["node"], report["why"]) == ("n1", "the launcher ended with status 5")
    interface = agent.record().interface
    assert interface is not None
    assert (interface.name, interface.state) == ("lo", "up")


def test_a_success_says_nothing_of_links_and_failures(start: Callable[..., Started]) -> None:
    agent = start("exit 0", interface="lo")

    assert agent.ends() == 0
    assert agent.record().interface is None
    assert not (agent.attempt.path / "failure.json").exists()


def test_signals_meant_for_others_do_not_end_the_agent(start: Callable[..., Started]) -> None:
    agent = start('touch "$OUT/ready"; while [[ ! -e $OUT/go ]]; do sleep 0.05; done; exit 0')
    wait_for(lambda: agent.output("ready").exists())
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT):
        agent.process.send_signal(number)
    agent.output("go").touch()

    assert agent.ends() == 0


ASKED = """
import os, signal, time
rank, out = os.environ["RANK"], os.environ["OUT"]
if rank == "0":
    open(out + "/importing", "w").close()
    while not os.path.exists(out + "/imported"): time.sleep(0.02)
    name = out + ("/asked0" if os.fork() else "/asked-worker")
    signal.signal(signal.SIGUSR2, lambda *_: open(name, "a").write("x"))
    if name.endswith("worker"): time.sleep(60)
open(out + "/ready" + rank, "w")
while not os.path.exists(out + "/end"): time.sleep(0.02)
os._exit(0)
"""
ASKING = f"""
import os, subprocess, sys
def rank(n):
    environment = {{**os.environ, "RANK": n, "LOCAL_RANK": n}}
    return subprocess.Popen([sys.executable, "-c", {ASKED!r}], env=environment)
sys.exit(max([started.wait() for started in [rank("0"), rank("1")]]))
"""


def test_a_request_to_save_reaches_the_topmost_process_of_each_rank_that_hears_it(
    start: Callable[..., Started],
) -> None:
    """Also one that is still importing; a rank without a handler would be ended by the signal."""
    agent = start(f'exec "$SLURMSWIFT_PYTHON" -c {shlex.quote(ASKING)}')
    wait_for(lambda: agent.output("importing").exists() and agent.output("ready1").exists())
    (agent.attempt.path / "save-request").touch()
    time.sleep(0.5)
    agent.output("imported").touch()
    wait_for(agent.output("asked0").exists)
    agent.output("end").touch()

    assert agent.ends() == 0, agent.said
    assert agent.output("asked0").read_text() == "x"
    assert not agent.output("asked-worker").exists()
