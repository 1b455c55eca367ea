"""What is kept of a long log: as much as the diagnosis needs, however the bytes arrive."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmswift.domain.diagnosis import AttemptFacts, LogText, diagnose
from slurmswift.domain.literals import plain_finder
from slurmswift.domain.long_log import Kept, LongLog, Share
from slurmswift.domain.rules import GATES
from slurmswift.files.fast_literals import IS_FAST, fast_finder
from slurmswift.files.log_bytes import GATE_FINDER

RECORDED = Path(__file__).parents[2] / "recorded" / "torchrun"
SMALL = Share(head=2000, middle=60_000, tail=2000, block=500)
HEALTHY = b"".join(b"{'loss': 2.%04d, 'epoch': 0.1}\n" % step for step in range(3000))


def kept_of(pieces: list[bytes], share: Share = SMALL) -> Kept:
    log = LongLog(GATE_FINDER, share)
    for piece in pieces:
        log.feed(piece)
    return log.kept()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(at)]


@settings(max_examples=60, deadline=None)
@given(
    data=st.one_of(
        st.binary(max_size=6000),
        st.lists(
            st.sampled_from([b"Error: x\n", b"step 1\n", b"\r", b"RuntimeError: y", HEALTHY[:700]])
        ).map(b"".join),
    ),
    places=st.lists(st.integers(min_value=0), max_size=30),
)
def test_how_the_bytes_are_cut_into_pieces_changes_nothing(data: bytes, places: list[int]) -> None:
    assert kept_of(cut(data, places)) == kept_of([data])


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=20_000))
def test_no_line_is_lost_from_the_count(data: bytes) -> None:
    kept = kept_of([data])
    lines = kept.data.count(b"\n") + sum(gap.lines or 0 for gap in kept.gaps)

    if data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        assert lines == data.count(b"\n")


@pytest.mark.parametrize("log", ["2_exception_rank1", "1_sigkill_rank1", "8_disk_full"])
@pytest.mark.parametrize("before", [0, 1, 5])
@pytest.mark.parametrize("after", [0, 3])
def test_a_failure_anywhere_in_a_long_log_is_found_with_its_lines_number(
    log: str, before: int, after: int
) -> None:
    """Words that prove nothing stand around it, and what follows them is not a healthy training."""
    noise = b"some words of a launcher\n" * 4000
    whole = noise * before + (RECORDED / f"{log}.log").read_bytes() + noise * after
    kept = kept_of([whole])
    facts = AttemptFacts(slurm_state="FAILED")

    assert len(kept.data) < 30_000
    assert diagnose([kept.as_text("log")], facts) == diagnose([LogText("log", whole)], facts)


def test_a_log_in_utf_16_is_kept_as_utf_8() -> None:
    text = "step\nOSError: [Errno 28] No space left on device\n"
    data = text.encode("utf-16")

    assert kept_of(cut(data, [1, 7, 20])) == Kept(text.encode())


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.one_of(st.sampled_from([*GATES, b"\n", b"\r", b"x" * 9000]), st.binary(max_size=20))
    ).map(b"".join)
)
def test_the_compiled_search_finds_the_same_lines_as_the_plain_one(data: bytes) -> None:
    assert IS_FAST, "the tests need the extra `fast`"

    def lines(found: object) -> set[int]:
        assert isinstance(found, (list, tuple))
        return {max(data.rfind(b"\n", 0, at), data.rfind(b"\r", 0, at)) // 1 for at in found}

    fast, plain = fast_finder(GATES)(data), plain_finder(GATES)(data)
    assert list(fast) == sorted(fast)
    assert lines(list(fast)) == lines(list(plain))


def test_the_compiled_search_sees_a_word_across_its_own_pieces() -> None:
    for at in range((256 << 10) - 12, (256 << 10) + 2):
        assert list(fast_finder((b"Traceback", b"x-ray"))(b"." * at + b"Traceback")) == [at]
