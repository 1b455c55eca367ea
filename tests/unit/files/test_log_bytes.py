"""Logs of any length in bounded memory: both ends, whole lines, compressed or not."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmswift.files.log_bytes import ends_of, read_log, read_stream

LINES = b"".join(b"line %d\n" % number for number in range(1000))

Reader = Callable[[Path, bytes], bytes]


def plain(path: Path, data: bytes) -> bytes:
    path.write_bytes(data)
    return read_log(path, end_bytes=100)


def packed(path: Path, data: bytes) -> bytes:
    path.write_bytes(gzip.compress(data))
    return read_log(path, end_bytes=100)


def stream(_: Path, data: bytes) -> bytes:
    return read_stream(io.BytesIO(data), end_bytes=100)


def packed_stream(_: Path, data: bytes) -> bytes:
    half = len(data) // 2
    joined = gzip.compress(data[:half]) + gzip.compress(data[half:])
    return read_stream(io.BytesIO(joined), end_bytes=100)


@pytest.mark.parametrize("read", [plain, packed, stream, packed_stream])
@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 199, 200])
def test_a_short_log_is_read_whole(tmp_path: Path, read: Reader, size: int) -> None:
    assert read(tmp_path / "log", LINES[:size]) == LINES[:size]


@pytest.mark.parametrize("read", [plain, packed, stream, packed_stream])
def test_of_a_long_log_both_ends_stay_and_no_half_line_at_the_gap(
    tmp_path: Path, read: Reader
) -> None:
    data = read(tmp_path / "log", LINES)

    assert data.startswith(LINES[:100])
    assert data.endswith(b"line 998\nline 999\n")
    assert set(data[100:].splitlines()) <= set(LINES.splitlines())
    assert len(data) <= 200


@pytest.mark.parametrize("piece", [1, 7, 99, 1000, 100_000])
def test_how_the_bytes_arrive_changes_nothing(piece: int) -> None:
    whole = ends_of(iter([LINES]), 100)

    pieces = (LINES[at : at + piece] for at in range(0, len(LINES), piece))

    assert ends_of(pieces, 100) == whole


def test_an_attempt_reads_its_own_part_of_an_appended_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"an older attempt\nmine\n")

    assert read_log(tmp_path / "log", offset=17) == b"mine\n"
    assert read_log(tmp_path / "log", offset=999) == b""
