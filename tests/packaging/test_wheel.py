"""A wheel is enough: installed in an empty environment, away from the checkout, all of it works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "torchrun-cpu"


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command without anything of this checkout's environment; return what it printed."""
    kept = {n: v for n, v in os.environ.items() if n.startswith(("PIP_", "SSL_", "SLURM_CONF"))}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**kept, "PATH": os.environ["PATH"], **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    return next(folder.glob("slurmswift-*.whl"))


@pytest.fixture(scope="session")
def slurmswift(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment that holds the wheel and what it asks for, nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", folder, cwd=folder)
    pip = folder / "bin" / "pip"
    run(pip, "--quiet", "--disable-pip-version-check", "install", wheel, cwd=folder)
    return folder / "bin" / "slurmswift"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path / "mine", ignore=shutil.ignore_patterns("slurmswift-runs"))
    return tmp_path / "mine" / "recipe.yaml"


def test_it_carries_the_templates_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    templates = sorted(path.name for path in (ROOT / "templates").iterdir())

    assert (
        sorted(
            name.removeprefix("slurmswift/_templates/") for name in names if "_templates/" in name
        )
        == templates
    )
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"slurmswift"}


def test_it_renders_the_example(slurmswift: Path, recipe: Path, tmp_path: Path) -> None:
    script = run(slurmswift, "render", recipe, cwd=tmp_path, SLURMSWIFT_STATE=str(tmp_path))

    assert script.startswith("#!/bin/bash\n#SBATCH ")
    assert f"readonly -a COMMAND=( {recipe.parent}/train.py )" in script


@pytest.mark.cluster
def test_it_submits_the_example(slurmswift: Path, recipe: Path, tmp_path: Path) -> None:
    shared = Path(os.environ["DEVCLUSTER_SHARED"]) / tmp_path.name
    ours = {"SLURMSWIFT_STATE": str(tmp_path / "state"), "SLURMSWIFT_RUNS": str(shared)}
    submitted = json.loads(run(slurmswift, "submit", recipe, "--json", cwd=tmp_path, **ours))
    stopped = json.loads(
        run(slurmswift, "stop", submitted["run_id"], "--json", cwd=tmp_path, **ours)
    )

    assert (shared / submitted["run_id"] / "node.pyz").is_file()
    assert stopped["job_id"] == submitted["job_id"]
