from __future__ import annotations

import pytest

from slurmswift.domain.schema import UnreadableError
from slurmswift.domain.swift import ADDED, SUBCOMMANDS, read_swift_command, with_added


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_a_sub_command_is_the_module_that_the_wrapper_would_start(name: str) -> None:
    assert read_swift_command(name) == ("-m", f"swift.cli.{name}")


@pytest.mark.parametrize("text", ["train.py", "-m my.training"])
def test_a_training_of_ones_own_may_be_started_as_well(text: str) -> None:
    assert read_swift_command(text) == tuple(text.split())


def test_the_wrapper_is_refused_with_what_to_write() -> None:
    with pytest.raises(UnreadableError, match="between Slurm and the ranks") as refused:
        read_swift_command("swift sft")

    assert refused.value.fix == "write command: sft"


def test_what_makes_a_run_resumable_is_added_before_the_users_words() -> None:
    words = with_added(("--model", "tiny"))

    assert words[-2:] == ("--model", "tiny")
    assert words[:-2] == tuple(word for flag, value, _ in ADDED for word in (flag, value))


@pytest.mark.parametrize("said", [("--add_version", "true"), ("--add-version=true",)])
def test_what_the_user_says_is_left_as_it_is(said: tuple[str, ...]) -> None:
    words = with_added(said)

    assert words[-len(said) :] == said
    assert "--add_version" not in words[: -len(said)]
    assert "--callbacks" in words


def test_a_yaml_file_of_ms_swift_stays_the_first_word() -> None:
    assert with_added(("config.yaml", "--seed", "1"))[0] == "config.yaml"
