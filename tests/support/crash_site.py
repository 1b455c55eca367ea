"""A run on the fake Slurm: its jobs pass the real gate of the real script, then "train"."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurmswift.app.report import decisions
from slurmswift.app.tools import Tools
from slurmswift.cli import watching
from slurmswift.files import journal
from slurmswift.files.run_directory import AttemptDirectory, RunDirectory
from slurmswift.files.state_folder import IndexEntry, StateFolder
from slurmswift.slurm.client import Slurm
from slurmswift.slurm.runner import CommandResult
from tests.support.crash import Ended, Kill, run_command, sleeper
from tests.support.fake_slurm.programs import CLUSTER, install, respond
from tests.support.fake_slurm.world import Job, World, WorldFile

# The set-up comes right after the gate; what is killed there has claimed its attempt and left no
# end on record, as a training that goes on.
RECIPE = """\
schema: 1
name: tiny
sbatch: {nodes: 2, time: 1:00:00}
environment:
  setup: kill -KILL $$
launch: {framework: command, command: 'true', processes_per_node: 1}
"""
PASSED_THE_GATE = -9
# Logs of failed attempts: a peer that is gone, a node's own fault, the user's own.
PEER_LOST = "RuntimeError: NCCL error: remote process exited or there was a network error\n"
NODE_FAULT = "1: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
USERS_FAULT = "Traceback (most recent call last):\n  ...\nNameError: name 'x' is not defined\n"


@dataclass
class Site:
    """A user's home on a fake cluster."""

    folder: Path
    overlaps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = WorldFile(self.folder / "world")
        self.recipe = self.folder / "recipe.yaml"
        self.state = StateFolder(self.folder / "state")
        if self.recipe.exists():
            return  # a site that was put back
        for name in ("bin", "world", "logs", "home"):
            (self.folder / name).mkdir()
        self.world.create()
        install(self.folder / "bin", self.world)
        self.recipe.write_text(RECIPE)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.folder / 'bin'}:{os.defpath}",
            "HOME": str(self.folder / "home"),
            "SLURMSWIFT_STATE": str(self.state.path),
            "SLURMSWIFT_RUNS": str(self.folder / "runs"),
        }

    def command(self, *arguments: str, kill: Kill | None = None) -> Ended:
        """Run the command line in a child."""
        return run_command(
            list(arguments),
            environment=self.environment,
            world=self.world,
            logs=self.folder / "logs",
            kill=kill,
        )

    def ok(self, *arguments: str) -> None:
        ended = self.command(*arguments)
        assert ended.status == 0, ended.said

    def tools(self) -> Tools:
        """The same world from within this process, for the passes after a crash."""
        return Tools(
            slurm=Slurm(self.call),
            state=self.state,
            environ=self.environment,
            now=self.world.now,
            sleep=sleeper(self.world),
        )

    def call(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
        umask: int = -1,
    ) -> CommandResult:
        del timeout, env, umask
        with self.world.open() as world:
            status, stdout, stderr = respond(world, argv)
        return CommandResult(tuple(argv), status, stdout, stderr)

    def pass_once(self) -> None:
        """One `watch --once`."""
        status = watching.once(self.tools(), as_json=False)
        assert status in (0, 5), status

    def go_on(self, *seconds: float) -> None:
        """For each: the clock moves, Slurm starts what waits, a pass runs."""
        for step in seconds:
            self.let_pass(step)
            self.start_waiting()
            self.pass_once()
        self.start_waiting()
        self.pass_once()

    def let_pass(self, seconds: float) -> None:
        """Move the clock, and the file server's with it: what a dead watcher left grows old."""
        with self.world.open() as world:
            world.now += seconds
        files = [path for path in self.state.path.rglob("*") if path.is_file()]
        for path in {path.stat().st_ino: path for path in files}.values():
            at = path.stat().st_mtime - seconds
            os.utime(path, (at, at))

    # -- jobs ------------------------------------------------------------------------------------

    def start_waiting(self) -> None:
        with self.world.open() as world:
            for job in [job for job in world.jobs if job.waits]:
                self._start(world, job)

    def _start(self, world: World, job: Job) -> None:
        alive = [other.job_id for other in self._training(world)]
        # A restart takes the first nodes that are not left out.
        free = [node for node in ("n1", "n2", "n3", "n4") if node not in job.exclude]
        job.row.start, job.row.nodes = world.now, ",".join(free[:2])
        environment = {
            "PATH": os.defpath,
            "SLURM_JOB_ID": job.job_id,
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_CLUSTER_NAME": CLUSTER,
            "SLURMD_NODENAME": free[0],
            "SLURM_RESTART_COUNT": str(job.restarts),
        }
        done = subprocess.run(
            ["/bin/bash", job.script, *job.arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if done.returncode == PASSED_THE_GATE:
            job.row.state = "RUNNING"
            if alive:
                self.overlaps.append(f"job {job.job_id} started beside {alive}")
            return
        log = Path(job.script).parent / f"slurm-{job.job_id}.out"
        if log.parent.is_dir():
            with log.open("a") as file:
                file.write(done.stdout + done.stderr)
        state = "COMPLETED" if done.returncode == 0 else "FAILED"
        world.end(job, state, f"{done.returncode}:0")

    def training(self) -> list[Job]:
        """The jobs that train now: through the gate, running, and not shut out by the fence."""
        with self.world.open() as world:
            return self._training(world)

    def _training(self, world: World) -> list[Job]:
        return [job for job in world.jobs if job.row.state == "RUNNING"]

    def alive(self) -> list[Job]:
        with self.world.open() as world:
            return [job for job in world.jobs if not job.over]

    def fail(self, text: str, *, state: str = "FAILED", code: str = "1:0") -> None:
        """End the job that trains as a failed training does, with its records."""
        self._end(state, code, text, status=1)

    def finish(self) -> None:
        """End the job that trains: all of it is done."""
        self._end("COMPLETED", "0:0", "", status=0)

    def _end(self, state: str, code: str, text: str, *, status: int) -> None:
        with self.world.open() as world:
            (job,) = self._training(world)
            run = RunDirectory(Path(job.script).parent)
            attempt = run.attempts()[-1]
            nodes = job.row.nodes.split(",")
            _leave_records(attempt, nodes, text, status)
            world.end(job, state, code)

    # -- what there is ---------------------------------------------------------------------------

    def entries(self) -> tuple[IndexEntry, ...]:
        return self.state.entries()

    def run(self) -> RunDirectory:
        (entry,) = self.entries()
        return RunDirectory(entry.run_dir)

    def jobs(self) -> list[Job]:
        with self.world.open() as world:
            return world.jobs

    def story(self) -> str:
        parts = [f"{job}" for job in self.jobs()]
        for pattern in ("grant.json", "run.json", "journal.jsonl", "*.out"):
            found = sorted((self.folder / "runs").glob(f"*/{pattern}"))
            parts += [f"--- {path.name}\n{path.read_text()[-6000:]}" for path in found]
        with self.world.open() as world:
            parts += world.calls[-60:]
        return "\n".join(parts)

    def assert_whole(self) -> None:
        """Every file is old or new: JSON parses, the journal has no line inside that is torn."""
        for path in (self.folder / "runs").rglob("*.json"):
            json.loads(path.read_text())
        for entry in self.entries():
            run = RunDirectory(entry.run_dir)
            run.read_state()
            run.read_plan()
            assert journal.read(run.journal)
            decisions(entry)

    def assert_no_epoch_twice(self) -> None:
        epochs = [(job.script, job.arguments[0]) for job in self.jobs() if job.arguments]
        assert len(set(epochs)) == len(epochs), epochs


def _leave_records(attempt: AttemptDirectory, nodes: list[str], text: str, status: int) -> None:
    start = json.loads((attempt.path / "start.json").read_text())
    (attempt.path / "start.json").write_text(json.dumps({**start, "nodes": nodes}))
    for rank, node in enumerate(nodes):
        record = {
            "schema": 1,
            "node": node,
            "node_rank": rank,
            "launcher": {"status": status, "signal": None},
            "ranks": [],
            "last_step": None,
            "fenced": None,
            "interface": None,
            "started_at": 1.0,
            "ended_at": 2.0,
        }
        (attempt.path / "nodes" / f"{node}.json").write_text(json.dumps(record))
    attempt.log.write_text(text)
    end = {
        "schema": 1,
        "status": status,
        "srun_status": status,
        "nodes_expected": len(nodes),
        "nodes_reported": len(nodes),
        "nodes_silent": [],
        "cause_hint": "training" if status else None,
        "message": None,
        "ended_at": 3.0,
    }
    (attempt.path / "exit.json").write_text(json.dumps(end))
