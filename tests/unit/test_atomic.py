"""Files are old or new, and only regular files are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmswift import atomic
from slurmswift.errors import StateError


def test_a_written_file_is_whole_private_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "a 'b\".json"
    atomic.write_json(target, {"schema": 1, "name": 'é\n"'})

    assert target.read_text() == '{"schema": 1, "name": "\\u00e9\\n\\""}\n'
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_rename_keeps_the_old_file_and_removes_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "run.json"
    atomic.write_atomically(target, b"old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="No space"):
        atomic.write_atomically(target, b"new")

    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_create_once_has_one_winner(tmp_path: Path) -> None:
    won = [atomic.create_once(tmp_path / "stop", text) for text in (b"first", b"second")]

    assert won == [True, False]
    assert (tmp_path / "stop").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["stop"]


def test_a_line_after_a_torn_one_starts_on_its_own(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b'{"torn":')
    atomic.append_line(journal, "{}")
    atomic.append_line(journal, "[]")

    assert journal.read_bytes() == b'{"torn":\n{}\n[]\n'


def _link(path: Path) -> None:
    target = path.parent / "elsewhere"
    target.write_text("{}")
    path.symlink_to(target)


@pytest.mark.parametrize("make", [_link, os.mkfifo, os.mkdir], ids=["link", "fifo", "folder"])
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, make: object) -> None:
    path = tmp_path / "grant.json"
    assert callable(make)
    make(path)
    with pytest.raises(StateError, match="not a regular file"):
        atomic.read_json(path)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"\xff", b"[" * 100_000], ids=["empty", "cut", "binary", "deep"]
)
def test_damaged_json_is_reported_with_its_path(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "grant.json"
    path.write_bytes(text)
    with pytest.raises(StateError, match=r"grant\.json: damaged"):
        atomic.read_json(path)


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(b"x" * 11)
    seen: list[bytes] = [atomic.read_regular(path, limit=11)]
    with pytest.raises(StateError, match="larger than 10 bytes"):
        atomic.read_regular(path, limit=10)

    assert seen == [b"x" * 11]


def test_a_missing_file_is_told_apart_from_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        atomic.read_json(tmp_path / "grant.json")
