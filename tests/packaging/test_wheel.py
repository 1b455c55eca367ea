"""A wheel is enough: installed in an empty environment, away from the checkout, all of it works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
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
    pip = Path(sys.executable).with_name("pip")
    # With the hatchling that is here: beside a devcluster there is no network to fetch it from.
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    run(pip, "wheel", *options, "--wheel-dir", folder, ROOT, cwd=folder)
    return next(folder.glob("slurmswift-*.whl"))


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    run(sys.executable, "-m", "venv", tmp_path / "environment", cwd=tmp_path)
    return tmp_path / "environment"


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


def test_with_what_it_asks_for_it_renders_the_example(
    wheel: Path, environment: Path, recipe: Path, tmp_path: Path
) -> None:
    run(environment / "bin" / "pip", "--quiet", "install", wheel, cwd=tmp_path)
    slurmswift = environment / "bin" / "slurmswift"
    script = run(slurmswift, "render", recipe, cwd=tmp_path, SLURMSWIFT_STATE=str(tmp_path))

    assert script.startswith("#!/bin/bash\n#SBATCH ")
    assert f"readonly -a SW_COMMAND=( {recipe.parent}/train.py )" in script


@pytest.mark.cluster
def test_it_submits_the_example(
    wheel: Path, environment: Path, recipe: Path, tmp_path: Path
) -> None:
    pip = environment / "bin" / "pip"
    run(pip, "--quiet", "install", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    # The libraries are the tests' own, for want of a network. A .pth file that is found by way of
    # another one is not read, so the checkout, which is installed by one, stays out of sight.
    ours_too = sysconfig.get_path("purelib")
    next(environment.glob("lib/python3*/site-packages")).joinpath("libraries.pth").write_text(
        f"{ours_too}\n", encoding="utf-8"
    )
    slurmswift = environment / "bin" / "slurmswift"
    shared = Path(os.environ["DEVCLUSTER_SHARED"]) / tmp_path.name
    ours = {"SLURMSWIFT_STATE": str(tmp_path / "state"), "SLURMSWIFT_RUNS": str(shared)}
    submitted = json.loads(run(slurmswift, "submit", recipe, "--json", cwd=tmp_path, **ours))
    stopped = json.loads(
        run(slurmswift, "stop", submitted["run_id"], "--json", cwd=tmp_path, **ours)
    )

    assert (shared / submitted["run_id"] / "node.pyz").is_file()
    assert stopped["job_id"] == submitted["job_id"]
