"""Quoting, asked of the shell itself: what bash reads is what was written."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmswift.domain.quoting import directive, filename_pattern, shell_word
from slurmswift.domain.schema import UnreadableError

# No surrogates: they are no characters, and no file of UTF-8 can bring one.
ANY_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def words_of_bash(line: str) -> list[str]:
    script = f"readonly -a WORDS=( {line} )\nprintf '%s\\0' \"${{WORDS[@]}}\"\n"
    result = subprocess.run(
        ["/bin/bash", "--norc", "-c", script],
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    return result.stdout.decode().split("\0")[:-1]


@settings(deadline=None, max_examples=150)
@given(st.lists(ANY_TEXT, min_size=1, max_size=8))
def test_bash_reads_each_word_back_as_it_was(words: list[str]) -> None:
    assert words_of_bash(" ".join(map(shell_word, words))) == words


@pytest.mark.parametrize(
    "word",
    [
        *(
            "$(touch x)",
            "`touch x`",
            "a'b",
            'a"b',
            "a\nb",
            "",
            "-n",
            "*",
            "~",
            "!x",
            "a\\",
            "#",
            "é",
        ),
        *("${IFS}", "$'x'", "\r", "\x1b[2J", "&& rm -rf x", "EOF\nEOF"),
    ],
)
def test_hostile_words_stay_words(word: str) -> None:
    assert words_of_bash(shell_word(word)) == [word]


def test_a_nul_is_refused() -> None:
    with pytest.raises(UnreadableError):
        shell_word("a\0b")


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\tb", "a\x1bb", "a\u2028b", "a\x85b"])
def test_a_directive_is_one_line(value: str) -> None:
    with pytest.raises(UnreadableError):
        directive("comment", value)


def test_an_option_that_is_none_is_refused() -> None:
    with pytest.raises(UnreadableError):
        directive("comment=x\n#SBATCH --wrap", "y")


def test_a_flag_has_no_value_and_a_plain_value_no_quotes() -> None:
    assert directive("requeue", None) == "--requeue"
    assert directive("time", "1-00:00:00") == "--time=1-00:00:00"


def test_a_percent_sign_in_a_logs_path_is_written_twice() -> None:
    assert filename_pattern("/r/50%j") == "/r/50%%j"
    with pytest.raises(UnreadableError):
        filename_pattern("/r/a\\b")
