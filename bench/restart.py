#!/usr/bin/env python3
"""How long a training stands still when one of its ranks dies: slurmswift beside plain Slurm.

    bin/with-devcluster .venv/bin/python bench/restart.py [--rounds N] [--plain N]

Both start the same training on two nodes. Plain Slurm's script does what such scripts do: it puts
itself back by `scontrol requeue` and goes on from the newest checkpoint. Its rank is killed first;
while the job waits for Slurm's requeue_delay, slurmswift's runs die and come back beside it.
Prints seconds from the death to the next first step, and ratios; nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRAIN = ROOT / "examples" / "torchrun-cpu" / "train.py"
RECIPE = ROOT / "examples" / "torchrun-cpu" / "recipe.yaml"
LONG = {"max_steps": "100000", "save_steps": "5", "step_seconds": "0.2"}
POLL_SECONDS = 0.05
STEP = re.compile(r"\[rank \d+\] step \d+ loss")
PLAIN = """\
#!/bin/bash
#SBATCH --partition=gpu --nodes=2 --ntasks-per-node=1 --time=00:30:00
#SBATCH --requeue --open-mode=append --output=log
newest=$(ls -d "$PWD"/output/checkpoint-* 2>/dev/null | sort -V | tail -n 1)
echo "started again: ${{SLURM_RESTART_COUNT:-0}}"
export GLOO_SOCKET_IFNAME=hsn0 OMP_NUM_THREADS=1
srun --kill-on-bad-exit=1 bash -c '{python} -m torch.distributed.run --nnodes=2 \\
  --node_rank=$SLURM_NODEID --nproc_per_node=2 --monitor_interval=1 --master_port=29511 \\
  --master_addr='"$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"' \\
  {train} {arguments} '"${{newest:+--resume_from_checkpoint $newest}}" ||
  scontrol requeue "$SLURM_JOB_ID"
"""


@dataclass(frozen=True)
class Restart:
    """One death and what followed, in seconds since the death."""

    first_step: float
    parts: dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=4, help="deaths under slurmswift")
    parser.add_argument("--plain", type=int, default=1, help="deaths under plain Slurm")
    parser.add_argument("--interval", type=int, default=60, help="the watcher's")
    options = parser.parse_args()
    if "DEVCLUSTER_ROOT" not in os.environ:
        sys.exit("no devcluster here: run it by bin/with-devcluster")
    shared = Path(os.environ["DEVCLUSTER_ROOT"], "shared")
    with tempfile.TemporaryDirectory(dir=shared, ignore_cleanup_errors=True) as folder:
        measure(Path(folder), options)
        command("scancel", f"--user={os.getuid()}")


def measure(folder: Path, options: argparse.Namespace) -> None:
    plain, swift = Plain(folder), Swift(folder, options.interval)
    plains: list[float] = []
    swifts: list[Restart] = []
    try:
        plain.wait_until_training()
        swift.wait_until_training()
        for number in range(max(options.plain, options.rounds)):
            ours = number < options.rounds
            theirs = plain.kill() if number < options.plain else None
            if ours:
                swifts.append(swift.die_and_come_back())
            if theirs is not None:
                plains.append(plain.wait_for_step(theirs))
                print(f"plain: {plains[-1]:.1f} s", flush=True)
    finally:
        swift.end()
    show(plains, swifts)


def show(plains: list[float], swifts: list[Restart]) -> None:
    print("\nslurmswift, seconds from the death (medians):")
    for part in swifts[0].parts:
        print(f"  {part:48}{statistics.median(run.parts[part] for run in swifts):6.1f}")
    ours = statistics.median(run.first_step for run in swifts)
    print(f"  {'first step of the next attempt':48}{ours:6.1f}")
    theirs = statistics.median(plains)
    print(f"plain Slurm, requeue_delay and all:{'':15}{theirs:6.1f}")
    print(f"\nslurmswift / plain Slurm: {ours / theirs:.2f}")


class Plain:
    """The training under a script of the usual kind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "plain"
        self.folder.mkdir()
        words = " ".join(f"--{name} {value}" for name, value in LONG.items())
        arguments = f"--output_dir {self.folder}/output {words}"
        script = PLAIN.format(python=sys.executable, train=TRAIN, arguments=arguments)
        (self.folder / "job.sbatch").write_text(script, encoding="utf-8")
        asked = ("sbatch", "--parsable", f"--chdir={self.folder}", f"{self.folder}/job.sbatch")
        self.job_id = command(*asked).strip()
        self.starts = 1

    def wait_until_training(self) -> None:
        wait_for("a checkpoint", lambda: any(self.folder.glob("output/checkpoint-*")))

    def kill(self) -> float:
        # Its restart must find the log's last step to be an old one.
        self.starts = self._log().count("started again")
        nodes = command("squeue", "-h", "-o", "%N", "-j", self.job_id).strip()
        return kill_rank(nodes, self.folder)

    def wait_for_step(self, died: float) -> float:
        def stepped() -> bool:
            parts = self._log().split("started again")
            return len(parts) > self.starts + 1 and STEP.search(parts[-1]) is not None

        wait_for("a step after the requeue", stepped, seconds=300)
        return time.time() - died

    def _log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""


class Swift:
    """The training under slurmswift, with a watcher."""

    def __init__(self, folder: Path, interval: int) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {
            **os.environ,
            "PATH": path,
            "SLURMSWIFT_STATE": str(folder / "state"),
            "SLURMSWIFT_RUNS": str(folder / "runs"),
        }
        sets = {f"launch.arguments.{name}": value for name, value in LONG.items()}
        sets |= {"restart.max_restarts": "1000", "sbatch.time": "00:30:00"}
        options = [word for name, value in sets.items() for word in ("--set", f"{name}={value}")]
        self.run = Path(
            json.loads(self._slurmswift("submit", str(RECIPE), "--json", *options))["run_dir"]
        )
        self.watcher = subprocess.Popen(
            [sys.executable, "-m", "slurmswift", "watch", "--interval", str(interval)],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "watch.log").open("w"),
        )

    def wait_until_training(self) -> None:
        wait_for("a checkpoint", lambda: any(self.run.glob("output/checkpoint-*")))

    def die_and_come_back(self) -> Restart:
        """Kill a rank once there is progress, as the breaker wants it, and wait for a step."""
        newest = self._newest()
        wait_for("a new checkpoint", lambda: self._newest() > newest)
        wait_for("a step", lambda: STEP.search(text(self._attempts()[-1] / "job.log")))
        time.sleep(2)  # the watcher shall have seen it run
        before = self._attempts()
        old = before[-1]
        died = kill_rank(json.loads(text(old / "start.json"))["nodes"][1], self.run)
        wait_for("another attempt", lambda: len(self._attempts()) > len(before))
        new = self._attempts()[-1]
        wait_for("a step of it", lambda: STEP.search(text(new / "job.log")))
        first_step = time.time() - died
        parts = {
            "the job's own record of the end": json.loads(text(old / "exit.json"))["ended_at"],
            "decided": self._journaled("decided"),
            "back in the queue": self._journaled("requeued", "submitted"),
            "the next attempt started": json.loads(text(new / "start.json"))["started_at"],
        }
        print(f"slurmswift: {first_step:.1f} s", flush=True)
        return Restart(first_step, {name: at - died for name, at in parts.items()})

    def end(self) -> None:
        self._slurmswift("stop", self.run.name)
        self.watcher.terminate()
        self.watcher.wait(60)

    def _newest(self) -> int:
        found = (int(path.name[11:]) for path in self.run.glob("output/checkpoint-*"))
        return max(found, default=0)

    def _attempts(self) -> list[Path]:
        found = sorted(self.run.glob("attempts/[0-9]*-*"))
        return [path for path in found if (path / "start.json").exists()]

    def _journaled(self, *events: str) -> float:
        lines = map(json.loads, text(self.run / "journal.jsonl").splitlines())
        return max(float(line["at"]) for line in lines if line["event"] in events)

    def _slurmswift(self, *words: str) -> str:
        return command(sys.executable, "-m", "slurmswift", *words, environment=self.environment)


def kill_rank(nodes: str, output: Path) -> float:
    """Kill one rank that writes below ``output``, on the last of these nodes, and return when."""
    node = command("scontrol", "show", "hostnames", nodes).split()[-1]
    died = time.time()
    pattern = f"^[^ ]*python[^ ]* (-u )?[^ ]*/train.py --output_dir {output}/"
    command(ROOT / "bin" / "devcluster", "exec", node, "pkill", "-9", "-n", "-f", pattern)
    return died


def command(*words: str | Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{words[0]} ended with {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def wait_for(what: str, look: Callable[[], object], *, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            sys.exit(f"not within {seconds:.0f} s: {what}")
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main()
