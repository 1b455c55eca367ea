"""`diagnose` of whatever somebody has: a file, a pipe, a folder; and of what is none of them."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from slurmswift.cli.boundary import run_cli

RECORDED = Path(__file__).parents[2] / "recorded" / "torchrun"
FULL = (
    '[rank3]: Traceback (most recent call last):\n[rank3]:   File "/t/train.py", line 4, in save\n'
    "[rank3]: OSError: [Errno 28] No space left on device\n"
)
KEYS = {"cause", "category", "transient", "rank", "node", "evidence", "remedy", "rule"}


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMSWIFT_STATE", str(tmp_path / "state"))


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert run_cli(["diagnose", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "job.log"
    log.write_text("step 1\n" + FULL)

    told = answer(capsys, str(log))

    assert set(told) == KEYS
    assert (told["cause"], told["rank"], told["transient"]) == ("storage-full", 3, False)
    assert told["evidence"][0] == {
        "file": str(log),
        "line": 4,
        "text": "[rank3]: OSError: [Errno 28] No space left on device",
    }


def test_a_person_reads_what_failed_where_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.log"
    log.write_text(FULL.replace("device", "device \x1b]0;owned\x07"))

    assert run_cli(["diagnose", str(log)]) == 0

    said = capsys.readouterr().out
    assert "storage-full" in said
    assert "rank 3" in said
    assert f"{log}:3:" in said
    assert "remedy" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("cut", [0, 9])
def test_a_compressed_log_even_where_its_end_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cut: int
) -> None:
    log, data = tmp_path / "job.log.gz", gzip.compress((FULL + "x\n" * 9).encode())
    log.write_bytes(data[: len(data) - cut])

    assert answer(capsys, str(log))["cause"] == "storage-full"


@pytest.mark.parametrize("data", [FULL.encode(), gzip.compress(FULL.encode())])
def test_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    told = answer(capsys, "-")

    assert (told["cause"], told["evidence"][0]["file"]) == ("storage-full", "stdin")


@pytest.mark.parametrize(("name", "named"), [("node-gpu0{}", "gpu01"), ("job.node{}", "node1")])
def test_a_folder_of_per_node_files_names_the_node_that_failed_first(
    name: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in (0, 1):
        text = (RECORDED / f"1_sigkill_2nodes.node{node}.log").read_text()
        (tmp_path / f"{name.format(node)}.log").write_text(text)

    told = answer(capsys, str(tmp_path))

    assert (told["cause"], told["rank"], told["node"]) == ("comm-remote-peer-lost", 2, named)
    assert told["evidence"][0]["file"] == f"{name.format(1)}.log"


def test_a_file_of_one_rank_says_whose_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rank-0.log").write_text("step 1\nstep 2\n")
    (tmp_path / "rank-7.log").write_text(FULL.replace("[rank3]: ", ""))

    assert answer(capsys, str(tmp_path))["rank"] == 7


def test_no_link_leads_out_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "secret").write_text(FULL)
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.log").symlink_to(tmp_path / "secret")

    assert run_cli(["diagnose", str(folder)]) == 6
    assert "none of its logs can be read" in capsys.readouterr().err


def test_a_pipe_is_refused_and_does_not_block(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.log")

    assert run_cli(["diagnose", str(tmp_path / "pipe.log")]) == 6
    assert "not a regular file" in capsys.readouterr().err


def test_what_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["diagnose", str(tmp_path / "no.log")]) == 6
    assert "no file, folder or job of that name" in capsys.readouterr().err


def test_slurms_word_decides_between_look_alikes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.log"
    log.write_text("srun: error: n1: task 0: Killed\n")

    assert answer(capsys, str(log), "--state", "OUT_OF_MEMORY")["cause"] == "mem-host-oom"
    assert answer(capsys, str(log), "--state", "PREEMPTED")["cause"] == "sched-preempted"


def test_an_exit_code_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "job.log"
    log.write_text(FULL)

    assert run_cli(["diagnose", str(log), "--exit-code", "one"]) == 2
    assert "STATUS:SIGNAL" in capsys.readouterr().err
