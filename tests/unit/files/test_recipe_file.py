"""Bad recipes: every problem at once, each with its place and what to write instead."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmswift.domain.sbatch_options import OPTIONS
from slurmswift.domain.schema import Place, Problems, Table, flatten
from slurmswift.errors import RecipeError
from slurmswift.files.recipe_file import read_recipe
from slurmswift.files.yaml_text import load_yaml
from tests.support.recipes import WHOLE, a_plan, load, problems

PROFILE = "schema: 1\nname: here\nsbatch: {partition: gpu}\nenvironment: {modules: [a]}\n"
HERE = Path(__file__).parent
NOT_A_NAME = (
    "'{}' is not a name: letters, digits, '.', '_' and '-', a letter or digit first; write {}"
)


def test_every_problem_is_told_at_once_with_its_line_and_its_cure(tmp_path: Path) -> None:
    found = problems(tmp_path, (HERE / "many-mistakes.yaml").read_text(encoding="utf-8"))
    text = "".join(f"{problem}\n".replace(f"{tmp_path}/", "") for problem in found)

    assert text == (HERE / "many-mistakes.txt").read_text(encoding="utf-8")
    assert all(problem.fix for problem in found)


@pytest.mark.parametrize(
    ("text", "line", "message", "fix"),
    [
        ("a: b: c", 1, "a second ': ' in the value", "write the value in quotes"),
        ("a:\n\tb: 1", 2, "a tab", "write spaces instead"),
        ("a: 1\nb: 'x\nc: 3\n", 2, "a quote that is never closed", "close it"),
        ('a: "x\\q"', 1, "a backslash inside double quotes", "single quotes"),
        ("a: [1,\n  2\nb: 3", 1, "a '[' that is never closed", "close it with ']'"),
        ("a: {x: 1\nb: 3", 1, "a '{' that is never closed", "close it with '}'"),
        ("a: 1\nword\nb: 2", 2, "a line without ': '", "write 'key: value'"),
        ("a: @x", 1, "a value cannot start with '@'", "write it in quotes"),
        ("a: *", 1, "a value cannot start with '*' or '&'", "write it in quotes"),
        ('a: "x\nb: {c: "y"}\n', 1, "a quote that is not closed in its line", "close it"),
        ("a: 1\nb: 'x\nc: 2\nd: 'y'\n", 2, "a quote that is not closed in its line", "close it"),
        ("a: 'it's'", 1, "text behind a closing quote", "whole value in quotes"),
        ("a: 1\n- b", 2, "a '- ' item", "indent all items"),
        ("a:\n    b: 1\n  c: 2", 3, "indented otherwise", "align it with them"),
        ("a: 1\n  b: 2", 2, "indented otherwise", "align the line"),
        ("a: {output_dir}/x", 1, "starts with a brace", 'in quotes: "{output_dir}/x"'),
        ("{a: 1}}", 1, "more text behind the end", "remove it"),
        ("a: x\x01y", 1, "control character 0x01", "remove it"),
        ("a: !!python/object/apply:os.system [x]", 1, "the tag", "remove it"),
        ("a: !x 1", 1, "the tag !x", "remove it"),
        ("a: &x {b: 1}\nc:\n  <<: *x", 3, "merge keys", "write the keys out"),
        ("a: *nobody", 1, "'*nobody' has no '&nobody'", "write it out"),
        ("a: &x [*x]", 1, "contains itself", "write it out"),
        ("a: 1\n---\nb: 2", 2, "a second document", "remove it"),
        ("a: 1\nb: 2\na: 3", 3, "written twice in the same place (first in line 1)", "remove one"),
        ("a:\n  b: {c: 1, c: 2}", 2, "written twice", "remove one"),
        ("? [a]\n: 1", 1, "a key must be text", "write one word"),
        ('a: "\\0"', 1, "a NUL", "remove it"),
        ('a: "\\ud800"', 1, "half a character", "write it whole"),
        ("a: " + "[" * 40 + "]" * 40, 1, "nested more than", "flatter"),
        ("", 1, "is empty", "schema: 1"),
        ("# nothing\n", 1, "is empty", "schema: 1"),
        ("- a\n- b", 1, "holds no keys", "key: value"),
        ("just words", 1, "holds no keys", "key: value"),
    ],
)
def test_what_is_no_plain_yaml_is_explained_at_its_line(
    text: str, line: int, message: str, fix: str, tmp_path: Path
) -> None:
    # Some of these texts lack the keys of a recipe, too.
    assert any(
        problem.where.partition(": ")[0] == f"recipe.yaml:{line}"
        and message in problem.message
        and fix in problem.fix
        for problem in problems(tmp_path, text)
    )


def test_aliases_that_unfold_without_measure_are_refused_at_once(tmp_path: Path) -> None:
    layers = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    layers += [
        f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]"
        for a, b in zip("abcdefg", "bcdefgh", strict=True)
    ]
    started = time.process_time()
    (problem,) = problems(tmp_path, "\n".join(layers))

    assert "aliases unfolded" in problem.message
    assert time.process_time() - started < 2


def test_a_bounded_alias_is_its_anchor(tmp_path: Path) -> None:
    text = WHOLE.replace("time: 1:00:00", "time: &t 1:00:00\n  time_min: *t")

    assert dict(load(tmp_path, text).recipe.sbatch)["time-min"] == "1:00:00"


@pytest.mark.parametrize("text", ["~", "null", "", "Null"])
def test_a_key_without_a_value_is_no_silent_default(text: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, WHOLE.replace("time: 1:00:00", f"time: {text}"))

    assert str(problem) == (
        "recipe.yaml:6: sbatch.time: has no value; write one, or remove the line"
    )


def test_scalars_stay_the_text_that_was_written(tmp_path: Path) -> None:
    text = WHOLE.replace(
        "nodes: 2", "nodes: 2\n  account: 007\n  partition: on\n  reservation: 1e3\n  qos: 0x1F"
    )
    pairs = dict(load(tmp_path, text).recipe.sbatch)

    assert [pairs[key] for key in ("account", "partition", "reservation", "qos", "time")] == [
        *("007", "on", "1e3", "0x1F", "1:00:00")
    ]


def test_a_folder_a_pipe_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, message in (
        ("pipe", "is not a regular file"),
        (".", "is not a regular file"),
        ("nothing", "cannot be read: No such file or directory"),
    ):
        with pytest.raises(RecipeError) as caught:
            read_recipe(tmp_path / name)

        assert [problem.message for problem in caught.value.problems] == [message]


def test_a_huge_file_and_one_that_is_no_text_are_refused(tmp_path: Path) -> None:
    huge, latin = tmp_path / "huge.yaml", tmp_path / "latin.yaml"
    huge.write_bytes(b"a: " + b"x" * 300_000)
    latin.write_bytes(b"schema: 1\nname: caf\xe9\n")
    for path, where, message in (
        (huge, str(huge), "is larger than 256 KiB"),
        (latin, f"{latin}:2", "is not UTF-8 text"),
    ):
        with pytest.raises(RecipeError) as caught:
            read_recipe(path)

        assert [(found.where, found.message) for found in caught.value.problems] == [
            (where, message)
        ]


def test_the_profiles_problems_come_together_with_the_recipes(tmp_path: Path) -> None:
    profile = "schema: 2\nname: here\nsbatch: {partion: gpu}\nnetwork: {interface: 'a b'}\n"
    where = [
        problem.where for problem in problems(tmp_path, WHOLE + "check: {}\n", profile=profile)
    ]

    assert where == [
        "profile.yaml:1: schema",
        "profile.yaml:3: sbatch.partion",
        "profile.yaml:4: network.interface",
        "recipe.yaml:10: check",
    ]


def test_the_devclusters_profile_is_read(tmp_path: Path) -> None:
    profile = (
        "schema: 1\nname: devcluster\nsbatch: {partition: gpu}\nnetwork: {interface: hsn0}\n"
        "environment: {variables: {NCCL_SOCKET_IFNAME: hsn0, GLOO_SOCKET_IFNAME: hsn0}}\n"
    )
    plan = a_plan(tmp_path, profile=profile)

    assert plan.profile == "devcluster"
    assert plan.sbatch_value("partition") == "gpu"
    assert plan.interface == "hsn0"
    assert dict(plan.variables) == {"NCCL_SOCKET_IFNAME": "hsn0", "GLOO_SOCKET_IFNAME": "hsn0"}


def test_set_goes_over_the_file_and_is_named_as_the_place(tmp_path: Path) -> None:
    sets = (
        "sbatch.time=2:00:00",
        "launch.arguments.optim.lr=1e-4",
        "environment.modules=[cuda/12.4, nccl]",
        "restart.max_restarts=3",
        "name=a=b",
        "sbatch.gpus_per_nod=1",
    )
    found = [str(problem) for problem in problems(tmp_path, WHOLE, *sets)]

    assert found == [
        "--set name: " + NOT_A_NAME.format("a=b", "a-b"),
        "--set sbatch.gpus_per_nod: no such option of sbatch; did you mean 'gpus_per_node'?",
    ]
    recipe = load(tmp_path, WHOLE, *sets[:4]).recipe
    assert dict(recipe.sbatch)["time"] == "2:00:00"
    assert recipe.launch.arguments == ("--optim.lr", "1e-4")
    assert recipe.environment.modules == ("cuda/12.4", "nccl")
    assert recipe.restart.max_restarts == 3


def test_what_is_set_does_not_hide_that_the_file_is_no_recipe(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "a: [", "name=x")

    assert problem.message.startswith("not YAML")


def test_a_profile_needs_a_name(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, WHOLE, profile="schema: 1\n")

    assert str(problem) == (
        "profile.yaml:1: name: missing; write the cluster's name: name: my-cluster"
    )


@pytest.mark.parametrize("text", ["sbatch.time", "=1", "a..b=1", ""])
def test_a_set_without_key_or_value_is_refused(text: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, WHOLE, text)

    assert problem.message == "is not KEY=VALUE"


ODD = [
    "",
    "[]",
    "{}",
    "[[a], {b: c}]",
    "{a: {b: [c]}}",
    "[~, '']",
    "{a: , '': x}",
    "\x00",
    "'",
    "-",
]
EVERY_KEY = HERE.parents[1] / "golden" / "every-key.yaml"
KEYS = [
    *flatten(cast("Table", load_yaml(EVERY_KEY.read_text(encoding="utf-8"), "x", Problems()))),
    *(f"sbatch.{option.key}" for option in OPTIONS.values()),
]


@pytest.mark.parametrize("value", ODD)
def test_no_odd_value_under_any_key_makes_the_reader_break_down(value: str, tmp_path: Path) -> None:
    for key in KEYS:
        with contextlib.suppress(RecipeError):
            a_plan(tmp_path, WHOLE, f"{key}={value}", profile=PROFILE)


@given(st.text(max_size=200))
def test_no_text_makes_the_reader_break_down(text: str) -> None:
    found = Problems()
    tree = load_yaml(text, "x.yaml", found)

    assert tree is None or isinstance(tree.place, Place)


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%@`,? \n\t", max_size=60))
def test_no_jumble_of_yamls_own_signs_makes_the_reader_break_down(text: str) -> None:
    found = Problems()
    load_yaml(text, "x.yaml", found)

    assert all(problem.where.startswith("x.yaml") for problem in found.found)
