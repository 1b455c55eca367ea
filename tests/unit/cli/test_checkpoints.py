"""`checkpoints` of a folder, of one checkpoint and of a run: what is shown, and the exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurmswift.atomic import write_json
from slurmswift.cli.boundary import run_cli
from slurmswift.domain.lifecycle import RunStatus
from slurmswift.domain.plan import Plan
from slurmswift.domain.run import Quarantined, RunState
from slurmswift.files.run_directory import RunDirectory
from slurmswift.files.state_folder import IndexEntry, StateFolder
from tests.support.checkpoint_folder import safetensors, save, save_with_deepspeed
from tests.support.job_script import PLAN

RUN_ID = "tiny-250101-abcde"
KEYS = {
    *("path", "step", "format", "state", "problems", "finished", "unfit", "bytes", "changed"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    monkeypatch.setenv("SLURMSWIFT_STATE", str(tmp_path / "state"))
    return StateFolder(tmp_path / "state")


def answer(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Any:
    assert run_cli(["checkpoints", *words, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def shown(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert run_cli(["checkpoints", *words]) == status
    return capsys.readouterr().out


def old(path: Path) -> Path:
    for file in (*path.rglob("*"), path):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    return path


def torn(folder: Path, step: int) -> Path:
    path = save(folder, step)
    (path / "trainer_state.json").unlink()
    return old(path)


def make_run(
    folder: Path, state: StateFolder, *, status: RunStatus, quarantine: str = "", **plan: Any
) -> RunDirectory:
    path = folder / RUN_ID
    path.mkdir()
    run = RunDirectory(path)
    made: Plan = replace(
        PLAN,
        run_id=RUN_ID,
        run_dir=str(path),
        checkpoint_directory=str(path / "output"),
        **plan,
    )
    write_json(path / "plan.json", made.to_json())
    kept = (Quarantined(quarantine, "the same failure twice", 1.0),) if quarantine else ()
    run.write_state(
        RunState(
            run_id=RUN_ID,
            status=status,
            name="tiny",
            cluster="here",
            epoch=1,
            job_id="7",
            restart_count=0,
            attempt=1,
            job_state=None,
            reason="",
            submitted_at=1.0,
            quarantine=kept,
        )
    )
    state.add(IndexEntry(RUN_ID, path, "here"))
    return run


def test_the_newest_whole_one_is_where_a_resume_would_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "output"
    whole = old(save(output, 4))
    torn(output, 8)

    told = answer(capsys, str(output))

    assert told["resume_from"] == str(whole)
    assert [set(item) for item in told["checkpoints"]] == [KEYS, KEYS]
    assert [(item["step"], item["state"]) for item in told["checkpoints"]] == [
        (8, "incomplete"),
        (4, "complete"),
    ]
    assert told["checkpoints"][0]["problems"][0].startswith("trainer_state.json: missing")
    assert told["checkpoints"][1]["bytes"] == sum(file.stat().st_size for file in whole.iterdir())
    assert told["checkpoints"][1]["changed"] == 1_700_000_000


def test_a_person_reads_a_table_the_problems_and_where_a_resume_would_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = old(save(tmp_path, 4))
    torn(tmp_path, 8)

    lines = shown(capsys, str(tmp_path)).splitlines()

    assert lines[0].split() == ["STEP", "AGE", "SIZE", "FORMAT", "STATE", "CHECKPOINT"]
    assert lines[1].split()[-3:] == ["hf-trainer", "incomplete", "checkpoint-8"]
    assert lines[2].split()[-3:] == ["hf-trainer", "complete", "checkpoint-4"]
    assert "  checkpoint-8: trainer_state.json: missing: the save did not finish" in lines
    assert lines[-1] == f"A resume would start from {whole} (step 4 of 100)."


def test_it_fails_where_nothing_whole_is_there_though_something_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn(tmp_path, 8)

    assert answer(capsys, str(tmp_path), status=1)["resume_from"] is None
    assert "no checkpoint can be used" in shown(capsys, str(tmp_path), status=1)


def test_an_empty_folder_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, str(tmp_path)) == {"resume_from": None, "checkpoints": [], "aside": []}
    assert "no checkpoint in it" in shown(capsys, str(tmp_path))


def test_a_finished_training_is_not_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, 8, max_steps=8)

    assert answer(capsys, str(tmp_path))["resume_from"] is None
    assert "Finished: step 8 of 8." in shown(capsys, str(tmp_path))


def test_what_is_saved_this_moment_is_being_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (save(tmp_path, 8) / "trainer_state.json").unlink()

    assert answer(capsys, str(tmp_path), status=1)["checkpoints"][0]["state"] == "being written"


def test_one_checkpoint_can_be_named_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path, 8)
    save(tmp_path, 9)
    monkeypatch.chdir(tmp_path)

    assert [item["step"] for item in answer(capsys, "checkpoint-8")["checkpoints"]] == [8]
    assert answer(capsys, "checkpoint-8")["resume_from"] == str(path)


@pytest.mark.parametrize("name", ["nothing", "a-file"])
def test_what_is_neither_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "a-file").write_text("x")

    assert run_cli(["checkpoints", str(tmp_path / name)]) == 6
    assert "no " in capsys.readouterr().err


def test_names_from_others_steer_no_terminal_and_make_up_no_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    top = tmp_path / "output\nA resume would start from /evil"
    save(top, 4)
    path = save(top / "v1-\x1b[2J", 8)
    (path / "\x1b]0;owned\x07\nchecked.pt").write_bytes(b"x")
    (top / ".bad-checkpoint-9\nchecked.pt-001").mkdir()

    text = shown(capsys, str(top))

    assert "owned" in text
    assert "\x1b" not in text
    evil = ("checked.pt", "A resume would start from /evil")
    assert not any(line.startswith(evil) for line in text.splitlines())


def test_deep_reads_what_a_quick_look_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = old(save(tmp_path, 8))
    data = bytearray((path / "optimizer.pt").read_bytes())
    data[data.index(b"data.pkl") + len(b"data.pkl")] ^= 1
    (path / "optimizer.pt").write_bytes(data)
    old(path)

    assert answer(capsys, str(tmp_path))["checkpoints"][0]["state"] == "complete"
    told = answer(capsys, str(tmp_path), "--deep", status=1)
    assert told["checkpoints"][0]["problems"] == [
        "optimizer.pt: damaged: its sum is wrong (model/data.pkl)"
    ]


def test_digests_are_as_sha256sum_checks_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, record = tmp_path / "out\nput\\", tmp_path / "SHA256SUMS"
    path = save(output, 8)
    torn(output, 9)

    assert run_cli(["checkpoints", str(output), "--digests", str(record)]) == 0
    capsys.readouterr()
    check = ["sha256sum", "--check", "--quiet", str(record)]
    assert subprocess.run(check, check=False).returncode == 0
    assert record.read_text().count("\n") == 3  # the files of the whole one

    (path / "model.safetensors").write_bytes(safetensors()[:-1] + b"x")  # one changed weight
    assert subprocess.run(check, check=False, capture_output=True).returncode == 1


def test_a_run_is_judged_by_its_plan_and_its_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own_state: StateFolder
) -> None:
    bad = tmp_path / RUN_ID / "output" / "checkpoint-12"
    make_run(
        tmp_path, own_state, status=RunStatus.FAILED, quarantine=str(bad), framework="torchrun"
    )
    output = bad.parent
    fits = old(save_with_deepspeed(output, 4, ranks=4))
    old(save_with_deepspeed(output, 8, ranks=2))
    old(save_with_deepspeed(output, 12, ranks=4))

    for name in ("tiny", RUN_ID, str(tmp_path / RUN_ID)):
        told = answer(capsys, name)

        assert told["resume_from"] == str(fits)
        assert [item["unfit"].partition(":")[0] for item in told["checkpoints"]] == [
            "in quarantine",
            "2 ranks saved and this run has 4",
            "",
        ]
    assert "not used" in shown(capsys, RUN_ID)


@pytest.mark.parametrize(
    "plan", [{"framework": "command"}, {"framework": "torchrun", "sbatch": (("nodes", "1-2"),)}]
)
def test_where_nobody_knows_how_many_ranks_there_will_be_nothing_is_unfit(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    own_state: StateFolder,
    plan: dict[str, Any],
) -> None:
    make_run(tmp_path, own_state, status=RunStatus.FAILED, **plan)
    old(save_with_deepspeed(tmp_path / RUN_ID / "output", 8, ranks=3))

    assert answer(capsys, RUN_ID)["checkpoints"][0]["unfit"] == ""


def test_what_lies_aside_gets_its_name_back_and_the_run_remembers_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own_state: StateFolder
) -> None:
    run = make_run(tmp_path, own_state, status=RunStatus.HELD)
    output = run.path / "output"
    for step, name in ((8, ".bad-checkpoint-8-002"), (4, ".set-aside-checkpoint-4")):
        save(output, step).rename(output / name)
    save(output, 4)

    assert len(answer(capsys, RUN_ID)["aside"]) == 2
    assert "--restore makes it checkpoint-8 again" in shown(capsys, RUN_ID)
    told = answer(capsys, RUN_ID, "--restore", status=1)

    assert [item["home"] for item in told["restored"]] == [str(output / "checkpoint-8")]
    assert [item["home"] for item in told["taken"]] == [str(output / "checkpoint-4")]
    assert (output / "checkpoint-8").is_dir()
    (line,) = run.journal.read_text().splitlines()
    assert json.loads(line)["event"] == "restored"


def test_a_run_under_way_keeps_them_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own_state: StateFolder
) -> None:
    run = make_run(tmp_path, own_state, status=RunStatus.RUNNING)
    aside = run.path / "output" / ".bad-checkpoint-8-002"
    save(run.path / "output", 8).rename(aside)

    assert run_cli(["checkpoints", RUN_ID, "--restore"]) == 6
    assert "is RUNNING" in capsys.readouterr().err
    assert aside.is_dir()


def test_the_command_line_says_what_does_not_go_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["checkpoints", str(tmp_path), "--restore", "--deep"]) == 2
    assert "--restore only renames" in capsys.readouterr().err


def test_other_commands_do_not_load_the_formats() -> None:
    code = (
        "import sys; from slurmswift.cli import app; "
        "sys.exit(any(name.startswith('slurmswift.checkpoints') for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
