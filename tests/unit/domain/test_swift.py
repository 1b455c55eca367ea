from __future__ import annotations

from pathlib import Path

import pytest

from slurmswift.domain.schema import UnreadableError
from slurmswift.domain.swift import FLAVOURS, read_swift_command, with_added
from tests.support.recipes import a_plan, problems

RECIPE = """\
schema: 1
name: tiny
sbatch: {nodes: 2, gpus_per_node: 8}
launch:
  framework: %s
  command: sft
  arguments: %s
"""
WRAPPED = [(name, sub) for name, flavour in FLAVOURS.items() for sub in flavour.subcommands]


@pytest.mark.parametrize(("framework", "name"), WRAPPED)
def test_a_sub_command_is_the_module_that_the_wrapper_would_start(
    framework: str, name: str
) -> None:
    folder = {"swift": "swift.cli", "megatron-swift": "swift.cli._megatron"}[framework]

    assert read_swift_command(name, framework) == ("-m", f"{folder}.{name}")


@pytest.mark.parametrize("text", ["train.py", "-m my.training"])
def test_a_training_of_ones_own_may_be_started_as_well(text: str) -> None:
    assert read_swift_command(text) == tuple(text.split())


@pytest.mark.parametrize(("framework", "name"), WRAPPED)
def test_the_wrapper_is_refused_with_what_to_write(framework: str, name: str) -> None:
    wrapper = FLAVOURS[framework].wrapper
    with pytest.raises(UnreadableError, match=f"put the {wrapper} wrapper between") as refused:
        read_swift_command(f"{wrapper} {name}", framework)

    assert refused.value.fix == f"write command: {name}"


@pytest.mark.parametrize("framework", FLAVOURS)
def test_what_makes_a_run_resumable_is_added_before_the_users_words(framework: str) -> None:
    words = with_added(("--model", "tiny"), framework)

    assert words[-2:] == ("--model", "tiny")
    added = FLAVOURS[framework].added
    assert words[:-2] == tuple(word for flag, value, _ in added for word in (flag, value))


@pytest.mark.parametrize("said", [("--add_version", "true"), ("--add-version=true",)])
def test_what_the_user_says_is_left_as_it_is(said: tuple[str, ...]) -> None:
    words = with_added(said)

    assert words[-len(said) :] == said
    assert "--add_version" not in words[: -len(said)]
    assert "--callbacks" in words


@pytest.mark.parametrize("framework", FLAVOURS)
def test_a_file_of_arguments_is_refused_for_only_the_wrapper_reads_it(
    tmp_path: Path, framework: str
) -> None:
    (problem,) = problems(tmp_path, RECIPE % (framework, "[sft.yaml, --seed, 1]"))

    assert "sft.yaml would be read by the" in problem.message
    assert problem.where == "recipe.yaml:7: launch.arguments"


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        ("{model: x}", "--mcore_model"),
        ("{model: x, tuner_type: full}", "--mcore_model"),
        ("{model: x, tuner_type: lora}", "--mcore_adapter"),
        ("[--tuner-type=lora_llm]", "--mcore_adapter"),
        ("[--tuner_type, lora, --tuner_type, full]", "--mcore_model"),
        ("[--tuner_type]", "--mcore_model"),
    ],
)
def test_megatron_goes_on_by_the_flag_of_its_kind_of_checkpoint(
    tmp_path: Path, arguments: str, flag: str
) -> None:
    assert a_plan(tmp_path, RECIPE % ("megatron-swift", arguments)).resume_flag == flag


def test_megatron_goes_on_by_another_flag_where_the_recipe_says_so(tmp_path: Path) -> None:
    text = RECIPE % ("megatron-swift", "{model: x}") + "checkpoints: {flag: --load}\n"

    assert a_plan(tmp_path, text).resume_flag == "--load"


def test_megatron_may_begin_from_a_model_of_its_own(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, RECIPE % ("megatron-swift", "{mcore_model: /models/x-mcore}"))

    assert plan.arguments[-2:] == ("--mcore_model", "/models/x-mcore")
