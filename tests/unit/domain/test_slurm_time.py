"""Slurm's times: what it takes, and what is explained instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmswift.domain.schema import UnreadableError
from slurmswift.domain.slurm_time import format_slurm_time, likely_mistake, parse_slurm_time

HOUR = 3600


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90 * 60),
        ("90:30", 90 * 60 + 30),
        ("24:00:00", 24 * HOUR),
        ("100:00:00", 100 * HOUR),
        ("1-00", 24 * HOUR),
        ("2-12:30", 60 * HOUR + 1800),
        ("14-0", 14 * 24 * HOUR),
        ("1-1:1:1", 25 * HOUR + 61),
        ("UNLIMITED", None),
        ("infinite", None),
    ],
)
def test_a_time_is_read_as_slurm_reads_it(text: str, seconds: int | None) -> None:
    assert parse_slurm_time(text) == seconds


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("25h", "write it as 1-01:00:00"),
        ("1d12h", "write it as 1-12:00:00"),
        ("2 days", "write it as 2-00:00:00"),
        ("1 day, 6 hours", "write it as 1-06:00:00"),
        ("90min", "write it as 01:30:00"),
        ("1.5h", "write it as 01:30:00"),
        ("1w", "write it as 7-00:00:00"),
        ("1:60:00", "write it as 02:00:00"),
        ("1-25", "write it as 2-01:00:00"),
        ("0", "write UNLIMITED"),
        ("00:00:00", "write UNLIMITED"),
        ("99999999999", "write UNLIMITED"),
    ],
)
def test_what_is_no_time_comes_with_the_time_that_was_meant(text: str, instead: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        parse_slurm_time(text)

    assert caught.value.fix == instead


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-1",
        "-5",
        "1-",
        "1:2:3:4",
        "1-1-1",
        "1.5",
        "soon",
        "1 month",
        " 5",
        "٣",
        "0.1 weeks ago",
    ],
)
def test_what_means_nothing_comes_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        parse_slurm_time(text)

    assert caught.value.fix.startswith("write one of: minutes")


@given(st.integers(min_value=1, max_value=3650 * 86400))
def test_a_printed_time_reads_back_as_itself(seconds: int) -> None:
    assert parse_slurm_time(format_slurm_time(seconds)) == seconds


def test_no_limit_is_printed_as_slurm_prints_it() -> None:
    assert format_slurm_time(None) == "UNLIMITED"


def test_hours_and_minutes_are_minutes_and_seconds_to_slurm() -> None:
    assert "24 minutes for Slurm; for hours write 24:00:00" in likely_mistake("24:00")
    assert likely_mistake("24:00:00") == ""
