"""Logs of any length in bounded memory, each byte looked at once, compressed or not."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmswift.domain.log_lines import Lines
from slurmswift.domain.long_log import Kept, Share
from slurmswift.files import log_bytes
from slurmswift.files.log_bytes import LogReader, read_log, read_stream

LINES = b"".join(b"line %d\n" % number for number in range(1000))
SMALL = Share(head=100, middle=300, tail=100, block=50)

Reader = Callable[[Path, bytes], Kept]


def plain(path: Path, data: bytes) -> Kept:
    path.write_bytes(data)
    return read_log(path, share=SMALL)


def packed(path: Path, data: bytes) -> Kept:
    path.write_bytes(gzip.compress(data))
    return read_log(path, share=SMALL)


def stream(_: Path, data: bytes) -> Kept:
    return read_stream(io.BytesIO(data), share=SMALL)


def packed_stream(_: Path, data: bytes) -> Kept:
    half = len(data) // 2
    joined = gzip.compress(data[:half]) + gzip.compress(data[half:])
    return read_stream(io.BytesIO(joined), share=SMALL)


each_reader = pytest.mark.parametrize("read", [plain, packed, stream, packed_stream])


@each_reader
@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 140])
def test_a_short_log_is_read_whole(tmp_path: Path, read: Reader, size: int) -> None:
    assert read(tmp_path / "log", LINES[:size]) == Kept(LINES[:size])


@each_reader
def test_of_a_long_quiet_log_both_ends_stay_in_whole_lines(tmp_path: Path, read: Reader) -> None:
    kept = read(tmp_path / "log", LINES)

    assert kept.data.startswith(LINES[:50])
    assert kept.data.endswith(b"line 998\nline 999\n")
    assert set(kept.data.splitlines()) <= set(LINES.splitlines())
    assert len(kept.data) <= 300


@each_reader
def test_an_error_in_the_middle_stays_with_its_surroundings(tmp_path: Path, read: Reader) -> None:
    error = b"OSError: [Errno 28] No space left on device\n"
    kept = read(tmp_path / "log", LINES[:4000] + b"\n" + error + LINES[4000:])

    assert error in kept.data
    assert LINES[3990:4000] + b"\n" + error in kept.data
    assert len(kept.data) <= 500


def test_an_attempt_reads_its_own_part_of_an_appended_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"an older attempt\nmine\n")

    assert read_log(tmp_path / "log", offset=17) == Kept(b"mine\n")
    assert read_log(tmp_path / "log", offset=999) == Kept(b"")


def test_looking_again_costs_the_new_bytes_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []

    def counting(data: bytes) -> list[int]:
        searched.append(len(data))
        return []

    monkeypatch.setattr(log_bytes, "GATE_FINDER", counting)
    log = tmp_path / "log"
    log.write_bytes(LINES)
    reader = LogReader(log, share=SMALL)
    reader.read()
    first = sum(searched)
    reader.read()
    again = sum(searched) - first
    with log.open("ab") as file:
        file.write(LINES)
    last = reader.read()
    # Beside them the one line that lies across two blocks, each time.
    blocks = sum(size for size in searched if size == SMALL.block)

    assert (again, reader.offset) == (0, 2 * len(LINES))
    assert 2 * len(LINES) - 2 * SMALL.block < blocks <= 2 * len(LINES)
    assert last == read_log_of(tmp_path, LINES + LINES)


def read_log_of(folder: Path, data: bytes) -> Kept:
    (folder / "other").write_bytes(data)
    return read_log(folder / "other", share=SMALL)


def test_a_log_that_was_replaced_or_cut_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n")
    reader = LogReader(log)
    reader.read()
    (tmp_path / "new").write_bytes(b"second and longer\n")
    (tmp_path / "new").replace(log)
    replaced = reader.read()
    log.write_bytes(b"cut\n")

    assert replaced == Kept(b"second and longer\n")
    assert reader.read() == Kept(b"cut\n")


def test_what_is_too_much_to_search_is_counted_so_that_lines_keep_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_bytes, "_PIECE", 100)
    log = tmp_path / "log"
    log.write_bytes(LINES)

    kept = LogReader(log, share=SMALL, most=2000).read()

    assert kept.data.endswith(b"line 999\n")
    assert Lines(kept.as_text("log")).at(len(kept.data) - 2).number == 1000


def test_a_line_behind_a_gap_has_its_number_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"of another attempt\n" + LINES)

    kept = read_log(tmp_path / "log", offset=19, share=SMALL)

    assert kept.gaps
    assert Lines(kept.as_text("log")).at(kept.data.index(b"line 998\n")).number == 999
