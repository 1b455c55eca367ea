"""The ranks of a node without a launcher of the framework's: who they are, how they end."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurmswift.domain.records import NodeRecord
from slurmswift.node.local_ranks import Layout
from slurmswift.node.processes import descendants
from tests.support.job_script import JobScript

REPOSITORY = Path(__file__).parents[3]
NAMES = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE SLURM_PROCID SLURM_LOCALID SLURM_NTASKS"
SHOW = 'echo "$' + " $".join(NAMES.split()) + '"'


def start(
    logs: Path, program: str, *, per_node: int = 2, nodes: int = 2, node_rank: int = 1
) -> subprocess.Popen[str]:
    layout = ["--nodes", str(nodes), "--node-rank", str(node_rank), "--per-node", str(per_node)]
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "slurmswift.node",
            "ranks",
            *layout,
            "--logs",
            str(logs),
            "--",
            "bash",
            "-c",
            program,
            "training",
            "a b",
            "$(touch canary)",
        ],
        cwd=logs,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(logs: Path, program: str, **layout: int) -> tuple[int, list[str]]:
    process = start(logs, program, **layout)
    said, _ = process.communicate(timeout=30)
    return process.returncode, sorted(said.splitlines())


def test_each_rank_knows_who_it_is_and_gets_the_words_as_they_are(tmp_path: Path) -> None:
    status, said = run(tmp_path, f'{SHOW}; echo "$1|$2" >&2')

    assert status == 0
    assert said == [
        *("[rank2]: 2 0 4 2 2 0 4", "[rank2]: a b|$(touch canary)"),
        *("[rank3]: 3 1 4 2 3 1 4", "[rank3]: a b|$(touch canary)"),
    ]
    assert (tmp_path / "rank-3.log").read_text() == "3 1 4 2 3 1 4\na b|$(touch canary)\n"
    assert not (tmp_path / "canary").exists()


def test_slurms_own_words_for_the_tasks_are_those_of_the_ranks() -> None:
    environment = Layout(nodes=3, node_rank=2, per_node=4).environment({"SLURM_NTASKS": "3"}, 1)

    assert environment["SLURM_NTASKS"] == environment["WORLD_SIZE"] == "12"
    assert environment["SLURM_TASKS_PER_NODE"] == "4(x3)"
    assert environment["RANK"] == environment["SLURM_PROCID"] == "9"


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        ("exit 7", 7, "ended with status 7"),
        ("kill -9 $$", 137, "was ended by signal 9 (SIGKILL)"),
        ("kill -40 $$", 168, "was ended by signal 40 (a real-time signal)"),
    ],
)
def test_the_first_that_fails_ends_the_others_and_gives_the_status(
    end: str, status: int, said: str, tmp_path: Path
) -> None:
    training = (
        f"if ((RANK == 3)); then until [[ -e ready ]]; do sleep 0.1; done; {end}; fi\n"
        "trap 'echo told; exit 0' TERM; touch ready; sleep 60 & wait"
    )
    started = time.monotonic()
    ended, lines = run(tmp_path, training)

    assert ended == status
    assert time.monotonic() - started < 15
    assert "[rank2]: told" in lines
    assert any(line.startswith("slurmswift: rank 3 (local rank 1, pid ") for line in lines)
    assert any(line.endswith(said) for line in lines)


def test_a_rank_that_does_not_heed_the_term_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = (
        "import sys; from pathlib import Path; from slurmswift.node import local_ranks as l\n"
        "l.TERM_SECONDS = 0.5\n"
        "sys.exit(l.LocalRanks(l.Layout(1, 0, 2), Path(), sys.argv[1:]).run())\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    training = (
        "if ((RANK == 0)); then until [[ -e ready ]]; do sleep 0.1; done; exit 5; fi\n"
        "trap '' TERM; touch ready; while :; do sleep 0.1; done"
    )
    done = subprocess.run(
        [sys.executable, "-c", driver, "bash", "-c", training],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert done.returncode == 5
    assert "rank 1 (local rank 1" in done.stdout
    assert "SIGKILL" in done.stdout


def test_a_term_is_passed_on_and_a_save_may_take_its_time(tmp_path: Path) -> None:
    training = "trap 'sleep 1; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    process = start(tmp_path, training)
    assert process.stdout is not None
    assert [process.stdout.readline(), process.stdout.readline()] != ["", ""]
    process.send_signal(signal.SIGUSR1)  # what Slurm may send to every process of a job
    process.terminate()
    said, _ = process.communicate(timeout=30)

    assert process.returncode == 0
    assert sorted(said.split()) == ["[rank2]:", "[rank3]:", "saved", "saved"]


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "slurmswift.node",
            "ranks",
            "--nodes=1",
            "--node-rank=0",
            "--per-node=2",
            f"--logs={tmp_path}",
            "--",
            "/no/such/program",
        ],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 127
    assert "rank 0 could not be started" in done.stdout
    assert "/no/such/program" in done.stdout


def test_what_never_ends_its_line_is_passed_on_all_the_same(tmp_path: Path) -> None:
    status, said = run(tmp_path, "head -c 200000 /dev/zero | tr '\\0' x; printf end", per_node=1)

    assert status == 0
    assert sum(line.count("x") for line in said) == 200000
    assert said[0].startswith("[rank1]: ")


class TestInAScript:
    """The templates with the agent around them, as on a node."""

    def make(self, tmp_path: Path, framework: str, program: str) -> JobScript:
        training = tmp_path / "training"
        training.write_text(program)
        values = {"framework": framework, "arguments": ("it's", "$HOME")}
        return JobScript.make(
            tmp_path / "run", ["bash", str(training)], template=framework, **values
        )

    def test_srun_starts_every_rank_of_every_node(self, tmp_path: Path) -> None:
        script = self.make(tmp_path, "srun", 'echo "I am $RANK of $WORLD_SIZE: $1 $2"\n')
        status, _ = script.run("1")

        assert status == 0, script.log("001-7")
        log = script.log("001-7")
        assert all(f"[rank{rank}]: I am {rank} of 4: it's $HOME" in log for rank in range(4)), log
        found = sorted(path.name for path in script.run_dir.glob("attempts/001-7/ranks/*/*"))
        assert found == [f"rank-{rank}.log" for rank in range(4)]

    def test_the_agent_sees_how_each_rank_ended(self, tmp_path: Path) -> None:
        program = (
            "sleep 1.5; ((RANK != 3)) || kill -9 $$; ((RANK < 2)) || exec sleep 60.25; sleep 2\n"
        )
        script = self.make(tmp_path, "srun", program)
        status, _ = script.run("1")

        assert status == 120
        record = NodeRecord.parse(script.record("001-7", "nodes/n2.json"), "n2.json")
        assert (record.launcher.status, record.launcher.signal) == (137, None)
        ends = {rank.rank: (rank.status, rank.signal) for rank in record.ranks}
        assert ends == {2: (None, 15), 3: (None, 9)}
        # This test's own, known by its number; and killed is not gone: the kernel takes its moment.
        deadline = time.monotonic() + 10
        while any("sleep 60.25" in read(process.pid) for process in descendants(os.getpid())):
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def test_command_runs_once_a_node_with_its_words(self, tmp_path: Path) -> None:
        program = 'echo "$NODE_RANK/$NNODES $NPROC_PER_NODE [$MASTER_ADDR] $1 $2 ${RESUME_FROM}."\n'
        script = self.make(tmp_path, "command", program)
        status, _ = script.run("1")

        assert status == 0, script.log("001-7")
        log = script.log("001-7")
        assert "0/2 2 [127.0.0.1] it's $HOME ." in log or "0/2 2 [" in log
        assert log.count(" it's $HOME .") == 2


def read(pid: int) -> str:
    try:
        return shlex.join(Path(f"/proc/{pid}/cmdline").read_text().split("\0"))
    except OSError:
        return ""
