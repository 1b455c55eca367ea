"""Runs slurmswift as its user does: as a command, on a real cluster, with a state of its own."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.support.devcluster import DevCluster

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "torchrun-cpu" / "recipe.yaml"

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None], seconds: float = 60.0) -> T:
    """Poll until ``look`` gives something true; say what was waited for where it does not."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.3)


def slurm(*argv: str) -> str:
    """Run one of Slurm's commands."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{argv}: {done.stderr}{done.stdout}"
    return done.stdout


@dataclass
class Cli:
    """slurmswift for one user: a state folder, a runs folder, an environment."""

    state: Path
    runs: Path
    profile: Path
    extra: dict[str, str] = field(default_factory=dict)

    @classmethod
    def on(cls, cluster: DevCluster, home: Path) -> Cli:
        """A user of a cluster. ``home`` holds the state; the runs lie where all hosts see them."""
        here = {name: cluster.environment[name] for name in ("SLURM_CONF", "DEVCLUSTER_ROOT")}
        runs = cluster.shared / home.name / "runs"
        return cls(home / "state", runs, cluster.root / "etc" / "profile.yaml", here)

    @property
    def environment(self) -> dict[str, str]:
        """As from a shell with the training's environment activated."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        own = {
            "SLURMSWIFT_STATE": str(self.state),
            "SLURMSWIFT_RUNS": str(self.runs),
            "SLURMSWIFT_PROFILE": str(self.profile),
            "PATH": path,
        }
        return {**os.environ, "OMP_NUM_THREADS": "1", **own, **self.extra}

    def run(
        self, *arguments: str, env: Mapping[str, str] | None = None, seconds: float = 180.0
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "slurmswift", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            env=dict(self.environment if env is None else env),
        )

    def ok(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.returncode}: {done.stderr}{done.stdout}"
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--json"))

    def submit(self, *sets: str, recipe: Path = EXAMPLE) -> Run:
        options = [word for text in sets for word in ("--set", text)]
        body = self.json("submit", str(recipe), *options)
        return Run(self, body["run_id"], Path(body["run_dir"]), body["job_id"])

    def watch_once(self) -> None:
        self.ok("watch", "--once")

    def watcher(self) -> subprocess.Popen[str]:
        """A watcher that stays, at its quickest; the caller ends it."""
        with (self.state.parent / "watch.log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "slurmswift", "watch", "--interval", "5"],
                env=self.environment,
                stdout=log,
                stderr=log,
                text=True,
            )


@dataclass
class Run:
    """One submitted run."""

    cli: Cli
    run_id: str
    path: Path
    job_id: str

    def status(self) -> Any:
        done = self.cli.run("status", self.run_id, "--json")
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)[0]

    def why(self) -> list[Any]:
        decided = [entry for entry in self.cli.json("why", self.run_id) if entry["diagnosis"]]
        return list(decided)

    def record(self, name: str) -> Any:
        return json.loads((self.path / name).read_text())

    def attempts(self) -> list[Path]:
        return sorted((self.path / "attempts").glob("[0-9]*-*"))

    def nodes(self, attempt: int = -1) -> list[str]:
        found: list[str] = json.loads((self.attempts()[attempt] / "start.json").read_text())[
            "nodes"
        ]
        return found

    def resumed_step(self, attempt: int = -1) -> int | None:
        step: int | None = self.record(f"attempts/{self.attempts()[attempt].name}/start.json")[
            "resume_step"
        ]
        return step

    def assert_one_writer(self) -> None:
        """The older attempt wrote its last line before the newer one was launched."""
        for older, newer in itertools.pairwise(self.attempts()):
            last_line = max(p.stat().st_mtime for p in older.glob("ranks/*/*/attempt_0/*/std*.log"))
            # torchrun makes a folder in here as it starts, and nothing changes it afterwards.
            launch = min(p.stat().st_mtime for p in newer.glob("ranks/*"))
            assert last_line <= launch, f"{older.name} still wrote when {newer.name} was launched"

    def checkpoints(self) -> list[int]:
        found = (self.path / "output").glob("checkpoint-*")
        return sorted(int(path.name.rpartition("-")[2]) for path in found)

    def final_loss(self) -> Any:
        return json.loads((self.path / "output" / "final_loss.json").read_text())

    def log(self, number: int = -1) -> str:
        return (self.attempts()[number] / "job.log").read_text(errors="replace")

    def make_older(self, seconds: float = 300.0) -> None:
        """As if the time had passed that an sbatch may take."""
        state = self.record("run.json")
        state["submitted_at"] -= seconds
        if state["intent"]:
            state["intent"]["at"] -= seconds
        (self.path / "run.json").write_text(json.dumps(state, separators=(", ", ": ")) + "\n")

    def wait_until_training(self, beyond: int = 0, seconds: float = 90.0) -> None:
        """Until a checkpoint later than step ``beyond`` is there."""
        self.wait(
            f"a checkpoint beyond step {beyond}", lambda: self.newest_step() > beyond, seconds
        )

    def newest_step(self) -> int:
        return max(self.checkpoints(), default=0)

    def wait(self, what: str, look: Callable[[], T | None], seconds: float = 90.0) -> T:
        try:
            return wait_for(what, look, seconds)
        except AssertionError as error:
            error.add_note(self.story())
            raise

    def wait_until_over(self, seconds: float = 240.0) -> Any:
        def over() -> Any:
            body = self.status()
            return body if body["status"] in ("COMPLETED", "FAILED", "CANCELLED", "HELD") else None

        return self.wait("the run is over", over, seconds)

    def story(self) -> str:
        """Everything that tells why a test failed."""
        parts = [json.dumps(self.status(), indent=1)]
        parts += [(self.path / "journal.jsonl").read_text()]
        parts += [
            f"--- {path}\n{path.read_text(errors='replace')[-4000:]}" for path in self._logs()
        ]
        return "\n".join(parts)

    def _logs(self) -> list[Path]:
        watcher = self.cli.state.parent / "watch.log"
        logs = [*self.path.glob("slurm-*.out"), *self.path.glob("attempts/*/job.log")]
        return sorted(logs) + ([watcher] if watcher.exists() else [])
