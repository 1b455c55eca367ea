"""The plan: nothing left to decide, each value with where it came from."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from slurmswift.domain.plan import Plan
from slurmswift.domain.setup_script import setup_script
from slurmswift.errors import RecipeError, StateError
from tests.support.recipes import WHOLE, a_plan, problems

PROFILE = """\
schema: 1
name: here
sbatch: {partition: gpu, account: lab, time: 2-00:00:00, gpus_per_node: 8}
network: {interface: hsn0}
environment:
  modules: [cuda]
  setup: source /etc/lab.sh
  variables: {NCCL_DEBUG: WARN, OMP_NUM_THREADS: 8}
"""


def test_slurmswifts_own_options_come_first_and_are_all_there(tmp_path: Path) -> None:
    plan = a_plan(tmp_path)

    assert plan.sbatch == (
        ("job-name", "tiny-260101-abcde"),
        ("output", "/runs/tiny-260101-abcde/slurm-%j.out"),
        ("open-mode", "append"),
        ("requeue", None),
        ("comment", "slurmswift:/runs/tiny-260101-abcde"),
        ("chdir", str(tmp_path)),
        ("nodes", "2"),
        ("ntasks-per-node", "1"),
        ("signal", "B:USR2@120"),
        ("gpus-per-node", "4"),
        ("time", "1:00:00"),
    )
    assert (plan.nodes, plan.processes_per_node) == (2, 4)


def test_later_layers_win_and_each_value_says_where_it_came_from(tmp_path: Path) -> None:
    text = WHOLE + "environment: {variables: {OMP_NUM_THREADS: 4}}\n"
    plan = a_plan(
        tmp_path,
        text,
        "sbatch.time=3:00:00",
        profile=PROFILE,
        asked_by_shell={"account": "mine", "qos": "high"},
    )
    origins = dict(plan.origins)

    assert plan.sbatch_value("partition") == "gpu"
    assert plan.sbatch_value("account") == "mine"
    assert plan.sbatch_value("time") == "3:00:00"
    assert plan.sbatch_value("gpus-per-node") == "4"
    assert dict(plan.variables) == {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "4"}
    assert (plan.modules, plan.setup) == (("cuda",), "source /etc/lab.sh")
    assert {
        key: origins[key].replace(f"{tmp_path}/", "")
        for key in (
            *("sbatch.partition", "sbatch.account", "sbatch.qos", "sbatch.time"),
            *("sbatch.gpus_per_node", "launch.processes_per_node", "checkpoints.flag"),
            "environment.variables.OMP_NUM_THREADS",
        )
    } == {
        "sbatch.partition": "profile.yaml:3",
        "sbatch.account": "SBATCH_ACCOUNT",
        "sbatch.qos": "SBATCH_QOS",
        "sbatch.time": "--set sbatch.time",
        "sbatch.gpus_per_node": "recipe.yaml:5",
        "launch.processes_per_node": "recipe.yaml:5",
        "checkpoints.flag": "built-in",
        "environment.variables.OMP_NUM_THREADS": "recipe.yaml:10",
    }


def test_lists_and_setups_of_the_recipe_replace_the_profiles(tmp_path: Path) -> None:
    text = WHOLE + "environment: {modules: [], setup: echo mine}\n"
    plan = a_plan(tmp_path, text, profile=PROFILE)

    assert (plan.modules, plan.setup) == ((), "echo mine")


def test_a_run_without_gpus_must_say_how_many_processes(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, WHOLE.replace("  gpus_per_node: 4\n", ""))

    assert str(problem) == (
        "recipe.yaml:6: launch.processes_per_node: missing, and sbatch.gpus_per_node does not tell"
        " it either; write how many processes start on each node"
    )


def test_the_users_comment_and_working_folder_are_kept(tmp_path: Path) -> None:
    text = WHOLE.replace("nodes: 2", 'nodes: 2\n  comment: "of {run_id}"\n  chdir: sub/../work')
    plan = a_plan(tmp_path, text)

    assert plan.sbatch_value("comment") == "of tiny-260101-abcde"
    assert plan.sbatch_value("chdir") == plan.chdir == f"{tmp_path}/work"


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        ("'{output_dir}'", "/runs/tiny-260101-abcde/output"),
        ("'{output_dir}/ckpt'", "/runs/tiny-260101-abcde/output/ckpt"),
        ("'/scratch/{run_id}'", "/scratch/tiny-260101-abcde"),
        ("ckpt", "FOLDER/ckpt"),
    ],
)
def test_the_checkpoint_folder_is_a_whole_path(
    directory: str, expected: str, tmp_path: Path
) -> None:
    plan = a_plan(tmp_path, f"{WHOLE}checkpoints: {{directory: {directory}}}\n")

    assert plan.checkpoint_directory.replace(str(tmp_path), "FOLDER") == expected


@pytest.mark.parametrize(
    ("time", "lead"),
    [("1:00:00", 120), ("UNLIMITED", 120), ("4", 60), ("1", 15), ("00:00:02", 1)],
)
def test_the_training_is_asked_to_save_before_the_limit(
    time: str, lead: int, tmp_path: Path
) -> None:
    plan = a_plan(tmp_path, WHOLE.replace("1:00:00", time))

    assert plan.sbatch_value("signal") == f"B:USR2@{lead}"


def test_a_range_of_nodes_needs_the_lower_number(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, WHOLE.replace("nodes: 2", "nodes: 2-4"))

    assert (plan.nodes, plan.sbatch_value("nodes")) == (2, "2-4")


def test_percent_signs_of_the_runs_folder_are_no_pattern(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, run_dir="/a%j/b c")

    assert plan.sbatch_value("output") == "/a%%j/b c/slurm-%j.out"


@pytest.mark.parametrize("run_dir", ["/a\\b", "/a\nb"])
def test_a_runs_folder_that_slurm_cannot_bear_is_refused(run_dir: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        a_plan(tmp_path, run_dir=run_dir)

    assert [problem.where for problem in caught.value.problems] == ["runs"]


def test_another_cluster_asked_for_by_the_shell_is_not_ignored(tmp_path: Path) -> None:
    assert a_plan(tmp_path, asked_by_shell={"clusters": "here"}).cluster == "here"
    with pytest.raises(RecipeError) as caught:
        a_plan(tmp_path, asked_by_shell={"clusters": "there"})

    assert [problem.where for problem in caught.value.problems] == ["SLURM_CLUSTERS"]


def test_a_template_and_a_python_given_by_path_are_whole_paths(tmp_path: Path) -> None:
    text = f"{WHOLE}  python: venv/bin/python\ntemplate: ./mine.sbatch.j2\n"
    plan = a_plan(tmp_path, text)

    assert plan.template == f"{tmp_path}/mine.sbatch.j2"
    assert plan.python == f"{tmp_path}/venv/bin/python"
    assert a_plan(tmp_path, f"{WHOLE}  python: python3.11\n").python == "python3.11"
    assert a_plan(tmp_path).template == "torchrun"


def test_a_plan_is_read_back_from_json_as_it_was(tmp_path: Path) -> None:
    text = WHOLE + "restart: {budgets: {communication: 2}}\n"
    plan = a_plan(tmp_path, text, "sbatch.comment=é\"'", profile=PROFILE)

    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def damages(tmp_path: Path) -> list[object]:
    whole = json.loads(json.dumps(a_plan(tmp_path, profile=PROFILE).to_json()))
    damaged: list[object] = [None, [], {}, {"schema": 2}]
    for key in whole:
        for value in (None, {"x": 1.5}, [[1]], [["a"]], [["a", 1]], True):
            body = copy.deepcopy(whole)
            body[key] = value
            damaged.append(body)
        body = copy.deepcopy(whole)
        del body[key]
        damaged.append(body)
    damaged += [{**whole, "restart": {"max_restarts": 1, "budgets": {"a": True}}}]
    return damaged


def test_a_damaged_plan_is_reported_and_never_guessed_over(tmp_path: Path) -> None:
    for body in damages(tmp_path):
        with pytest.raises(StateError):
            Plan.from_json(body, "plan.json")


def test_the_setup_loads_each_module_or_fails_and_keeps_the_users_lines(tmp_path: Path) -> None:
    text = (
        WHOLE + 'environment:\n  modules: [cuda/12.4, "a b$(x)"]\n  setup: |\n    a=1 # $x\n    b\n'
    )
    script = setup_script(a_plan(tmp_path, text))

    assert "module load cuda/12.4 || return 1\nmodule load 'a b$(x)' || return 1\n" in script
    assert script.endswith("a=1 # $x\nb\n")
    assert "module" not in setup_script(a_plan(tmp_path))
