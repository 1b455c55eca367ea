"""What a person would read before submitting: each example's script, plan and set-up, whole."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from slurmswift.domain.plan import Plan
from slurmswift.domain.planning import make_plan
from slurmswift.domain.setup_script import setup_script
from slurmswift.files.recipe_file import read_recipe
from slurmswift.files.templates import render_script, template_folders
from tests.support.sbatch_oracle import SBATCH, defined_options

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RENDERS = [
    pytest.param("examples/torchrun-cpu/recipe.yaml", None, id="torchrun-cpu"),
    pytest.param(
        "examples/torchrun-cpu/recipe.yaml", "devcluster.profile.yaml", id="torchrun-cpu.devcluster"
    ),
    pytest.param("examples/srun-cpu/recipe.yaml", None, id="srun-cpu"),
    pytest.param("examples/command/recipe.yaml", None, id="command"),
    *(
        pytest.param(f"examples/ms-swift/{path.name}", None, id=f"ms-swift.{path.stem}")
        for path in sorted((ROOT / "examples" / "ms-swift").glob("*.yaml"))
    ),
    pytest.param("tests/golden/every-key.yaml", None, id="every-key"),
]


@pytest.fixture
def plan(recipe: str, profile: str | None, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(ROOT)  # the origins name the files as they were named
    named = None if profile is None else Path("tests/golden", profile)
    loaded = read_recipe(Path(recipe), profile=named)
    run_id = f"{loaded.recipe.name}-260101-abcde"
    return make_plan(
        loaded.recipe,
        loaded.profile,
        run_id=run_id,
        run_dir=f"/shared/ada/slurmswift-runs/{run_id}",
        recipe_dir="/shared/ada/recipes",
        cluster="devcluster",
    )


def compare(path: Path, text: str, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden", default=False):
        path.write_text(text, encoding="utf-8")

    assert text == path.read_text(encoding="utf-8")


def golden(request: pytest.FixtureRequest, suffix: str) -> Path:
    return HERE / f"{request.node.callspec.id}{suffix}"


@pytest.mark.parametrize(("recipe", "profile"), RENDERS)
def test_the_script_is_the_one_that_was_reviewed(
    plan: Plan, request: pytest.FixtureRequest
) -> None:
    script = render_script(plan, template_folders(ROOT / "nowhere"))

    compare(golden(request, ".sbatch"), script.text, request)


@pytest.mark.parametrize(("recipe", "profile"), RENDERS)
def test_the_plan_is_the_one_that_was_reviewed(plan: Plan, request: pytest.FixtureRequest) -> None:
    compare(golden(request, ".plan.json"), json.dumps(plan.to_json(), indent=1) + "\n", request)


@pytest.mark.parametrize(("recipe", "profile"), RENDERS)
def test_the_set_up_is_the_one_that_was_reviewed(
    plan: Plan, request: pytest.FixtureRequest
) -> None:
    compare(golden(request, ".setup.sh"), setup_script(plan), request)


def test_no_golden_is_left_over() -> None:
    suffixes = (".sbatch", ".plan.json", ".setup.sh")
    expected = {f"{render.id}{suffix}" for render in RENDERS for suffix in suffixes}

    assert {path.name for path in HERE.iterdir() if path.name.endswith(suffixes)} == expected


SCRIPTS = sorted([*HERE.glob("*.sbatch"), *HERE.glob("*.setup.sh")])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_bash_accepts_each_script(script: Path) -> None:
    subprocess.run(["/bin/bash", "-n", str(script)], check=True)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_finds_nothing(script: Path) -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("needs shellcheck")
    result = subprocess.run([shellcheck, str(script)], check=False, capture_output=True, text=True)

    assert result.stdout == ""


@pytest.mark.skipif(SBATCH is None, reason="needs sbatch (Debian: slurm-client)")
@pytest.mark.parametrize(("recipe", "profile"), RENDERS)
def test_sbatch_reads_every_option_of_the_plan_and_no_other(plan: Plan, tmp_path: Path) -> None:
    text = render_script(plan, template_folders(ROOT / "nowhere")).text
    directives = [
        line.partition(" ")[2] for line in text.splitlines() if line.startswith("#SBATCH ")
    ]
    asked = {option: value for option, value in plan.sbatch if value is not None}
    read = defined_options(tmp_path, directives)

    assert "error" not in read
    # What sbatch prints in words of its own: times, sizes, flags.
    own_words = {"time", "mem", "signal", "open-mode", "requeue", "exclusive"}
    assert {key: read.get(key) for key in asked.keys() - own_words} == {
        key: value for key, value in asked.items() if key not in own_words
    }
    assert read.keys() <= {option for option, _ in plan.sbatch}
