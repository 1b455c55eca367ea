#!/usr/bin/env python3
"""How long slurmswift's commands take as whole processes, beside others in the same environment.

    python bench/startup.py --prepare              once, with a network: build/bench is made
    bin/with-devcluster --nodes 2 python bench/startup.py [--rounds N]

Prints ratios of medians; nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.timing import ROOT, Contender, show, take_turns

VENV = ROOT / "build" / "bench"
PYTHON = str(VENV / "bin" / "python")
SLURMSWIFT = str(VENV / "bin" / "slurmswift")
LIBRARIES = "import jinja2, typer, yaml"
LATER = "now+1hour"  # the jobs are cancelled before they start: nothing else shall run meanwhile

# Each submits a job of the same size with the same limits, in its tool's plainest way.
SUBMITIT = """
import submitit
executor = submitit.SlurmExecutor(folder="submitit")
executor.update_parameters(nodes=2, ntasks_per_node=1, time=10, job_name="bench",
                           additional_parameters={"begin": "now+1hour"})
print(executor.submit(print, "trained").job_id)
"""
SIMPLE_SLURM = """
from simple_slurm import Slurm
slurm = Slurm(nodes=2, ntasks_per_node=1, time="00:10:00", job_name="bench", begin="now+1hour")
print(slurm.sbatch("srun true", verbose=False))
"""
PLAIN = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=00:10:00
srun true
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--prepare", action="store_true", help="make build/bench, and stop")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    if options.prepare:
        prepare()
        return
    if not Path(PYTHON).exists():
        sys.exit(f"{VENV} is not there: run {sys.argv[0]} --prepare first, with a network")
    with tempfile.TemporaryDirectory(prefix="slurmswift-bench-") as folder:
        measure(Path(folder), options.rounds)


def prepare() -> None:
    """Make one environment for all: the same Python, all of it installed as users install it."""
    shutil.rmtree(VENV, ignore_errors=True)
    venv.create(VENV, with_pip=True)
    requirements = str(ROOT / "bench" / "requirements.txt")
    command = [PYTHON, "-m", "pip", "install", "--quiet", "-r", requirements, str(ROOT)]
    subprocess.run(command, check=True)


def measure(folder: Path, rounds: int) -> None:
    recipe = write_recipe(folder)
    state = {"SLURMSWIFT_STATE": str(folder / "state"), "SLURMSWIFT_RUNS": str(folder / "runs")}
    without_slurm = [
        Contender("python -c pass", [PYTHON, "-c", "pass"]),
        Contender("slurmswift --version", [SLURMSWIFT, "--version"]),
        Contender(f"python: {LIBRARIES}", [PYTHON, "-c", LIBRARIES]),
        Contender("slurmswift render", [SLURMSWIFT, "render", str(recipe)], state),
    ]
    show(
        take_turns(without_slurm, rounds=rounds, folder=folder),
        [
            ("slurmswift --version", "python -c pass"),
            ("slurmswift render", "python -c pass"),
            ("slurmswift render", f"python: {LIBRARIES}"),
        ],
    )
    if "SLURM_CONF" not in os.environ:
        print("submit was left out: no cluster here (bin/with-devcluster makes one)")
        return
    (folder / "plain.sbatch").write_text(PLAIN, encoding="utf-8")
    with_slurm = [
        Contender("sbatch", ["sbatch", f"--begin={LATER}", "plain.sbatch"]),
        Contender("submitit", [PYTHON, "-c", SUBMITIT]),
        Contender("simple_slurm", [PYTHON, "-c", SIMPLE_SLURM]),
        Contender("slurmswift submit", [SLURMSWIFT, "submit", str(recipe)], state),
    ]
    try:
        times = take_turns(with_slurm, rounds=rounds, folder=folder)
    finally:
        subprocess.run(["scancel", f"--user={os.getuid()}"], check=False)  # noqa: S607 - on PATH
    others = ("submitit", "simple_slurm", "sbatch")
    show(times, [("slurmswift submit", other) for other in others])


def write_recipe(folder: Path) -> Path:
    (folder / "train.py").touch()
    recipe = folder / "recipe.yaml"
    text = f"""\
        schema: 1
        name: bench
        sbatch: {{nodes: 2, time: "00:10:00", begin: {LATER}}}
        launch: {{framework: torchrun, command: train.py, processes_per_node: 1}}
        """
    recipe.write_text(textwrap.dedent(text), encoding="utf-8")
    return recipe


if __name__ == "__main__":
    main()
