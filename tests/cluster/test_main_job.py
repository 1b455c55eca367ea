"""The main job on a real Slurm: faults on purpose, and what became of the run."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from tests.cluster.slurmswift_cli import EXAMPLE, Cli, Run, slurm, wait_for
from tests.support.devcluster import DevCluster

pytestmark = pytest.mark.cluster

# A run that trains for about 20 s after its start, and one that is over at once.
LONG = ("launch.arguments.max_steps=60", "launch.arguments.step_seconds=0.4")
SHORT = ("launch.arguments.max_steps=8", "launch.arguments.step_seconds=0")


def test_undisturbed_it_completes(watched: Cli) -> None:
    run = watched.submit(*SHORT)

    body = run.wait_until_over()

    assert body["status"] == "COMPLETED", run.story()
    assert body["restarts"] == 0
    assert run.record(f"attempts/{run.attempts()[0].name}/exit.json")["status"] == 0


@pytest.mark.ci
def test_a_cut_network_is_named_avoided_and_survived(watched: Cli, devcluster: DevCluster) -> None:
    run = watched.submit("launch.arguments.max_steps=30", "launch.arguments.step_seconds=0.3")
    run.wait_until_training()
    victim = run.nodes()[1]

    devcluster.do("cut", victim)
    body = run.wait_until_over()

    assert body["status"] == "COMPLETED", run.story()
    decision = run.why()[0]
    assert decision["observation"].startswith("Slurm: FAILED"), run.story()
    assert "its own record: status 1" in decision["observation"]
    assert decision["diagnosis"]["category"] == "communication", run.story()
    assert any(item["file"].endswith("job.log") for item in decision["diagnosis"]["evidence"])
    assert decision["diagnosis"]["node"] == victim
    assert decision["decision"] == "resume"
    assert victim not in run.nodes()
    assert run.resumed_step() == decision["step"]


def test_a_node_that_never_answers_the_launch_is_no_success(
    watched: Cli, devcluster: DevCluster
) -> None:
    run = watched.submit(*SHORT, "environment.setup=sleep 8")
    run.wait("the attempt has started", run.attempts)
    victim = slurm("squeue", "-h", "-j", run.job_id, "-o", "%N").strip()
    victim = slurm("scontrol", "show", "hostnames", victim).split()[1]

    devcluster.do("pause", victim)
    body = run.wait_until_over()

    assert body["status"] == "COMPLETED", run.story()
    first = run.why()[0]
    # Slurm may find the node out before us, and put the job back itself.
    assert first["decision"] in ("resume", "adopt"), run.story()
    assert first["diagnosis"]["node"] == victim, run.story()
    assert victim not in run.nodes(), run.story()


def test_an_old_job_requeued_by_hand_beside_the_new_one_does_not_train(cli: Cli) -> None:
    run = cli.submit(*LONG)
    run.wait_until_training()
    old = run.job_id
    new = next_epoch(cli, run)
    run.wait("the new attempt trains", lambda: new_ranks(run), 120)
    slurm("scontrol", "requeue", old)
    slurm("scontrol", "update", f"JobId={old}", "StartTime=now")
    wait_for("the old job came and went", lambda: "superseded" in slurm_log(run, old), 120)
    run.wait_until_training(beyond=run.newest_step(), seconds=120)

    assert [path.name.split("-")[1] for path in run.attempts()] == [old, new]
    run.assert_one_writer()
    cli.ok("stop", run.run_id)


@pytest.mark.parametrize("stale", [True, False])
def test_a_duplicate_submission_does_not_train(cli: Cli, *, stale: bool) -> None:
    run = cli.submit(*LONG)
    run.wait_until_training()
    epoch = "1"
    if stale:
        next_epoch(cli, run)
        run.wait("the new attempt trains", lambda: new_ranks(run), 120)
    attempts = len(run.attempts())

    duplicate = submit_by_hand(run, epoch)
    wait_for("the duplicate has ended", lambda: "superseded" in slurm_log(run, duplicate))
    run.wait_until_training(beyond=run.newest_step(), seconds=120)

    assert len(run.attempts()) == attempts
    run.assert_one_writer()
    cli.ok("stop", run.run_id)


def new_ranks(run: Run) -> bool:
    """Whether the second attempt's launchers have started."""
    return len(run.attempts()) > 1 and any(run.attempts()[1].glob("ranks/*/*"))


def next_epoch(cli: Cli, run: Run) -> str:
    """Give the run a new epoch while the old job runs: what a lost node or a doubt leads to."""
    program = (
        "import sys; from pathlib import Path\n"
        "from slurmswift.app import restart; from slurmswift.app.chronicle import Chronicle\n"
        "from slurmswift.cli.tools import make_tools\n"
        "from slurmswift.files.run_directory import RunDirectory\n"
        "run = RunDirectory(Path(sys.argv[1])); tools = make_tools()\n"
        "print(restart.submit_epoch(Chronicle(run, run.read_state(), 'test'), tools, (), 0.0))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(run.path)],
        capture_output=True,
        text=True,
        check=True,
        env=cli.environment,
    )
    return done.stdout.strip()


def submit_by_hand(run: Run, epoch: str) -> str:
    return slurm("sbatch", "--parsable", str(run.path / "job.sbatch"), epoch).strip()


def slurm_log(run: Run, job_id: str) -> str:
    path = run.path / f"slurm-{job_id}.out"
    return path.read_text() if path.exists() else ""


def test_the_second_attempts_environment_is_the_first_ones(
    cli: Cli, tmp_path: Path, devcluster: DevCluster
) -> None:
    cli.extra = {"MY_DATA": "/data/it's $HOME", "VIRTUAL_ENV": str(tmp_path / "venv")}
    run = cli.submit(*LONG, 'environment.setup=env -0 > "$ATTEMPT_DIR/environment.bin"')
    run.wait_until_training()
    devcluster.do("cut", run.nodes()[1])
    bare = {"SLURMSWIFT_STATE": str(cli.state), "SLURM_CONF": os.environ["SLURM_CONF"]}

    def again() -> bool:
        done = cli.run("watch", "--once", env=bare)
        assert done.returncode == 0, done.stderr
        return len(run.attempts()) == 2 and (run.attempts()[1] / "environment.bin").exists()

    run.wait("a second attempt", again, 120)
    first, second = (own_environment(path) for path in run.attempts())

    assert first["MY_DATA"] == "/data/it's $HOME"
    assert first == second
    cli.ok("stop", run.run_id)


# Slurm's own, and what the script sets for its attempt.
SLURMS = ("SLURM", "HOSTNAME", "ATTEMPT_DIR")


def own_environment(attempt: Path) -> dict[str, str]:
    raw = (attempt / "environment.bin").read_text().split("\0")
    pairs = (item.partition("=") for item in raw if item)
    return {name: value for name, _, value in pairs if not name.startswith(SLURMS)}


def test_the_owners_cancel_is_final(watched: Cli) -> None:
    run = watched.submit(*LONG)
    run.wait_until_training()

    slurm("scancel", run.job_id)
    body = run.wait_until_over()

    assert body["status"] == "CANCELLED", run.story()
    deadline = time.monotonic() + 12
    while time.monotonic() < deadline:
        assert len(run.attempts()) == 1
        time.sleep(1)


def test_stop_is_final_and_the_gate_holds(watched: Cli) -> None:
    run = watched.submit(*LONG)
    run.wait_until_training()

    watched.ok("stop", run.run_id)
    body = run.wait_until_over()

    assert body["status"] == "CANCELLED", run.story()
    slurm("scontrol", "requeue", run.job_id)
    slurm("scontrol", "update", f"JobId={run.job_id}", "StartTime=now")
    wait_for("the gate turned it away", lambda: "superseded" in slurm_log(run, run.job_id), 60)
    assert len(run.attempts()) == 1


def test_a_python_exception_ends_the_run_with_its_own_line(watched: Cli) -> None:
    run = watched.submit(*SHORT, "launch.arguments.max_steps=none")

    body = run.wait_until_over()

    assert body["status"] == "FAILED", run.story()
    assert len(run.attempts()) == 1
    assert body["diagnosis"]["cause"] == "config-bad-arguments", run.story()


def test_sbatch_itself_accepts_what_is_rendered(cli: Cli, tmp_path: Path) -> None:
    cli.ok("render", str(EXAMPLE), "--output", str(tmp_path / "rendered"))

    said = subprocess.run(
        ["/usr/bin/sbatch", "--test-only", str(tmp_path / "rendered" / "job.sbatch"), "1"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.returncode == 0, said.stderr
    assert "to start at" in said.stderr


LOOK_FOR_BOTH = """
from importlib.util import find_spec
print(find_spec('torch') is not None)
try:
    print(find_spec('slurmswift.errors') is not None)
except ModuleNotFoundError:
    print(False)
"""


def test_the_job_needs_nothing_but_python_and_the_trainings_environment(
    watched: Cli, devcluster: DevCluster
) -> None:
    folder = devcluster.shared / "training-environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    libraries = next(folder.glob("lib/python*/site-packages"))
    # torch from the tests' environment; what is installed there for editing is not taken along.
    (libraries / "training.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = str(folder / "bin" / "python")
    looked = devcluster.on("node01", python, "-c", LOOK_FOR_BOTH)
    assert looked.split() == ["True", "False"], looked

    run = watched.submit(*SHORT, f"launch.python={python}")
    body = run.wait_until_over()

    assert body["status"] == "COMPLETED", run.story()
