"""Recipes that extend others: who wins, and every mistake in the file it was made in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmswift.domain.plan import Plan
from slurmswift.errors import RecipeError
from slurmswift.files.recipe_file import read_recipe
from tests.support.recipes import WHOLE, a_plan, load, problems

BASE = """\
schema: 1
sbatch:
  partition: base
  qos: base
  time: 9:00:00
environment: {modules: [cuda, gcc], variables: {A: base, B: base}}
checkpoints: {flag: --base}
"""


def files(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def extending(names: str, more: str = "") -> str:
    return f"{WHOLE}extends: {names}\n{more}"


def test_later_wins_tables_merge_and_lists_replace(tmp_path: Path) -> None:
    files(
        tmp_path,
        one=BASE,
        lab__two="schema: 1\nsbatch: {qos: two}\n"
        "environment: {modules: [rocm], variables: {B: two}}\n",
    )
    more = "environment: {variables: {C: mine}}\n"
    plan = a_plan(tmp_path, extending("[one.yaml, lab/two.yaml]", more), "sbatch.partition=set")

    assert {name: plan.sbatch_value(name) for name in ("partition", "qos", "time")} == {
        "partition": "set",
        "qos": "two",
        "time": "1:00:00",
    }
    assert plan.modules == ("rocm",)
    assert dict(plan.variables) == {"A": "base", "B": "two", "C": "mine"}
    assert plan.resume_flag == "--base"


def origins(plan: Plan, folder: Path) -> dict[str, str]:
    return {key: where.replace(f"{folder}/", "") for key, where in plan.origins}


def test_each_value_knows_the_file_it_was_written_in(tmp_path: Path) -> None:
    files(tmp_path, one=BASE)
    profile = "schema: 1\nname: here\nsbatch: {partition: profile, account: profile}\n"
    plan = a_plan(tmp_path, extending("one.yaml"), profile=profile)
    found = origins(plan, tmp_path)

    assert plan.sbatch_value("partition") == "base"
    assert found["sbatch.partition"] == "one.yaml:3"
    assert found["sbatch.account"] == "profile.yaml:3"
    assert found["sbatch.time"] == "recipe.yaml:6"
    assert found["checkpoints.flag"] == "one.yaml:7"
    assert found["restart.max_restarts"] == "built-in"


def test_what_is_extended_may_extend_from_its_own_folder(tmp_path: Path) -> None:
    files(
        tmp_path,
        lab__a="schema: 1\nextends: b.yaml\nsbatch: {qos: a}\n",
        lab__b="schema: 1\nextends: ../c.yaml\nsbatch: {qos: b, account: b}\n",
        c="schema: 1\nsbatch: {account: c, partition: c}\n",
    )
    plan = a_plan(tmp_path, extending("lab/a.yaml"))

    assert [plan.sbatch_value(key) for key in ("qos", "account", "partition")] == ["a", "b", "c"]


def test_one_file_may_be_reached_in_two_ways(tmp_path: Path) -> None:
    files(
        tmp_path,
        a="schema: 1\nextends: [base.yaml]\nsbatch: {qos: a}\n",
        b="schema: 1\nextends: [base.yaml]\n",
        base="schema: 1\nsbatch: {qos: base, account: base}\n",
    )
    plan = a_plan(tmp_path, extending("[a.yaml, b.yaml]"))

    # b brings base again, and later wins.
    assert [plan.sbatch_value(key) for key in ("qos", "account")] == ["base", "base"]


def test_a_value_left_empty_takes_the_bases_away(tmp_path: Path) -> None:
    files(tmp_path, one=BASE)
    plan = a_plan(tmp_path, extending("[one.yaml]", "checkpoints: {flag: }\nenvironment:\n"))

    assert plan.resume_flag == ""
    assert plan.modules == ()


def test_every_problem_keeps_the_file_it_is_in(tmp_path: Path) -> None:
    files(
        tmp_path,
        one="sbatch: {mem: lots}\nenviroment: {}\n",
        two="schema: 2\n\nsbatch:\n  tme: 3\nextends: [a.yaml, [b.yaml], '~/c.yaml']\n",
        three="schema: 1\na: [\n",
    )
    found = problems(
        tmp_path,
        extending("[one.yaml, two.yaml, three.yaml]", "restart: {max_restarts: no}\n"),
    )
    places = [problem.where for problem in found]

    assert places == [
        "one.yaml:1: schema",
        "one.yaml:1: sbatch.mem",
        "one.yaml:2: enviroment",
        "recipe.yaml:11: restart.max_restarts",
        "three.yaml:3",
        "two.yaml:1: schema",
        "two.yaml:4: sbatch.tme",
        "two.yaml:5: extends",
        "two.yaml:5: extends",
    ]
    assert all(problem.fix for problem in found if problem.where != "two.yaml:5: extends")


@pytest.mark.parametrize(
    ("names", "message", "fix"),
    [
        ("nothing.yaml", "HERE/nothing.yaml does not exist", "from the folder of recipe.yaml"),
        ("[]", "", ""),
        ("", "has no value", "remove the line"),
        ("[one.yaml, ]", "", ""),
        ("[~]", "has no value", "remove the line"),
        ("{a: b}", "needs a list", "[first, second]"),
        ("$LAB/one.yaml", "no variable is replaced here", "the path itself"),
        ("recipe.yaml", "goes in a circle: recipe.yaml -> recipe.yaml", "remove it"),
        ("loop.yaml", "goes in a circle: recipe.yaml -> loop.yaml -> other.yaml", "remove it"),
        (".", "is not a regular file", "name the recipe's file"),
        ("pipe", "is not a regular file", "name the recipe's file"),
        ("empty.yaml", "is empty", "schema: 1"),
        ("many.yaml", "more than 32 files", "extend fewer"),
    ],
)
def test_what_cannot_be_extended_is_told(
    names: str, message: str, fix: str, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    files(
        tmp_path,
        one="schema: 1\n",
        loop="schema: 1\nextends: other.yaml\n",
        other="schema: 1\n\nextends: [loop.yaml]\n",
        empty="",
        many="schema: 1\nextends: [" + "one.yaml, " * 40 + "]\n",
    )
    found = problems(tmp_path, extending(names))
    if not message:
        assert found == []
        return

    assert message.replace("HERE", str(tmp_path)) in found[0].message
    assert fix in found[0].fix
    circle = "other.yaml:3: extends" if names == "loop.yaml" else found[0].where
    assert found[0].where == circle


def test_a_circle_through_a_link_is_one_too(tmp_path: Path) -> None:
    files(tmp_path, a="schema: 1\nextends: [b.yaml]\n")
    (tmp_path / "b.yaml").symlink_to("a.yaml")
    (problem,) = problems(tmp_path, extending("a.yaml"))

    assert problem.message.startswith("goes in a circle")


def test_the_command_line_extends_nothing(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, WHOLE, "extends=one.yaml")

    assert (problem.where, problem.message) == (
        "--set extends",
        "only a file can extend others",
    )


def test_a_recipe_that_only_extends_is_whole(tmp_path: Path) -> None:
    files(tmp_path, one=WHOLE)

    assert load(tmp_path, "schema: 1\nextends: one.yaml\n").recipe.name == "tiny"
    with pytest.raises(RecipeError) as caught:
        read_recipe(tmp_path / "nothing.yaml")
    assert "cannot be read" in str(caught.value)
