"""Lines: who wrote them and when, from any bytes."""

from __future__ import annotations

import pytest

from slurmswift.domain.literals import MAX_LINE_BYTES, plain_finder
from slurmswift.domain.log_lines import Line, Lines, LogText


def line_of(text: str | bytes) -> Line:
    return Lines(LogText("log", text if isinstance(text, bytes) else text.encode())).at(0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1: ready", {"task": 1, "text": "ready"}),
        (" 12: ready", {"task": 12}),
        ("[rank3]: ValueError: x", {"rank": 3, "text": "ValueError: x"}),
        ("[rank3]:[E826 03:30:10.551 a.cpp:683] [Rank 3] x", {"rank": 3, "text": "[Rank 3] x"}),
        ("0: [rank1]: KeyError: 'a'", {"task": 0, "rank": 1, "text": "KeyError: 'a'"}),
        ("[default2]:  what():  CUDA error", {"local_rank": 2, "indented": True}),
        ("[rank: 4] Received SIGTERM: 15", {"rank": 4}),
        ("[1,7]<stderr>:boom", {"rank": 7, "text": "boom"}),
        ("n3:4940:4955 [2] NCCL WARN x", {"host": "n3", "pid": 4940, "local_rank": 2}),
        ("n12: gpu7:4:5 [1] NCCL WARN x", {"host": "gpu7", "text": "NCCL WARN x"}),
        ("worker-1: ERROR:root:x", {"host": "worker-1", "text": "ERROR:root:x"}),
        ("W1201 00:11:11.521000 20 torch/a.py:10] Sending", {"text": "Sending"}),
        ("[2024-08-26 11:02:51,003] torch: [ERROR] failed", {"text": "torch: [ERROR] failed"}),
        (" 41%|##  | 3/9 [5:15<6:53, 46s/it]HW Exception", {"text": "HW Exception"}),
        ("\x1b[31mRuntimeError\x1b[0m: x", {"text": "RuntimeError: x"}),
    ],
)
def test_prefixes_tell_the_writer(text: str, expected: dict[str, object]) -> None:
    line = line_of(text)

    assert {key: getattr(line, key) for key in expected} == expected


@pytest.mark.parametrize(
    "text",
    ["ValueError: x", "srun: error: n1: task 0: Killed", "slurmstepd-n1: error: x", "12:30 noon"],
)
def test_a_message_is_not_taken_for_a_prefix(text: str) -> None:
    line = line_of(text)

    assert (line.text, line.task, line.host) == (text, None, None)


def test_times_of_all_kinds_are_in_one_order() -> None:
    texts = [
        "W1130 23:59:59.5 20 torch/a.py:10] a",
        "[E1201 00:00:00.000000001 a.cpp:1] b",
        "2026-12-01 00:00:01,250 c",
        "[2026-12-01T00:00:02.123] error: d",
    ]
    times = [line_of(text).time for text in texts]

    assert None not in times
    assert times == sorted(time or 0.0 for time in times)


def test_lines_are_counted_as_an_editor_counts_them() -> None:
    lines = Lines(LogText("log", b"one\r\n 3%|a\r 4%|b\rError\n\nlast Error\n"))
    numbers = [lines.at(offset).number for offset in lines.holding(plain_finder([b"Error"]))]

    assert numbers == [2, 4]


def test_a_carriage_return_parts_what_a_progress_bar_overwrote() -> None:
    data = b"99%|#\r100%|##\rValueError: x\n"
    line = Lines(LogText("log", data)).at(data.index(b"ValueError"))

    assert line.text == "ValueError: x"


def test_a_line_of_a_gigabyte_is_looked_at_in_bounded_parts() -> None:
    data = b"x" * (40 * MAX_LINE_BYTES) + b"Error" + b"y" * (40 * MAX_LINE_BYTES)
    lines = Lines(LogText("log", data))
    held = [lines.at(offset) for offset in lines.holding(plain_finder([b"Error"]))]

    assert [("Error" in line.text, line.number) for line in held] == [(True, 1)]
    assert len(held[0].shown) <= 2 * MAX_LINE_BYTES


def test_what_is_shown_cannot_move_a_terminals_cursor() -> None:
    line = line_of(b"\x1b]0;title\x07Error \x1b[2J\x07\x9b31m \xe2\x80\xaeabc\xff\n")

    assert not [sign for sign in line.shown if ord(sign) < 32 or 127 <= ord(sign) < 160]
    assert "\u202e" not in line.shown


def test_a_log_in_utf_16_is_read() -> None:
    lines = Lines(LogText("log", "ok\r\nValueError: x\r\n".encode("utf-16")))

    assert [lines.at(offset).number for offset in lines.holding(plain_finder([b"ValueError"]))] == [
        2
    ]
