"""Which checkpoint a resume starts from, of whatever lies in the folder."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from pathlib import Path

import pytest

from slurmswift.checkpoints import (
    State,
    find_resume_point,
    judge,
    list_checkpoints,
    newest_whole,
)
from tests.support.checkpoint_folder import safetensors, save, torch_like


def test_an_empty_or_missing_folder_has_no_resume_point(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        found = find_resume_point(folder)

        assert (found.checkpoint, found.passed_over) == (None, ())
        assert list_checkpoints(folder) == ()


def test_newest_is_by_step_not_by_name_or_time(tmp_path: Path) -> None:
    for step in (100, 9, 20):
        save(tmp_path, step)

    assert [item.step for item in list_checkpoints(tmp_path)] == [100, 20, 9]


def test_a_newer_one_that_is_not_whole_is_passed_over_with_its_reason(tmp_path: Path) -> None:
    whole, torn = save(tmp_path, 4), save(tmp_path, 8)
    (torn / "trainer_state.json").unlink()
    (torn / "optimizer.pt").write_bytes(torch_like()[:-1])
    found = find_resume_point(tmp_path)

    assert found.checkpoint is not None
    assert found.checkpoint.path == str(whole)
    assert [(item.path, item.state) for item in found.passed_over] == [
        (str(torn), State.INCOMPLETE)  # its save did not finish: torn files belong to that
    ]
    assert "trainer_state.json: missing" in found.passed_over[0].problems[0]
    assert newest_whole(list_checkpoints(tmp_path)) == found.checkpoint


def test_every_start_of_ms_swift_has_its_own_folder(tmp_path: Path) -> None:
    older = save(tmp_path / "v0-20250101-120000", 8)
    newer = save(tmp_path / "v1-20250102-120000", 8)
    save(tmp_path / "other", 99)
    os.utime(older, (1, 1))

    assert [item.path for item in list_checkpoints(tmp_path)] == [str(newer), str(older)]


@pytest.mark.parametrize(
    "name",
    ["checkpoint-8-merged", "checkpoint-8.bad", ".bad-checkpoint-8", "checkpoint-", "checkpoint-x",
     "tmp-checkpoint-8", "checkpoint-8.tmp"],
)  # fmt: skip
def test_other_names_are_no_resume_points(tmp_path: Path, name: str) -> None:
    save(tmp_path, 8).rename(tmp_path / name)

    assert list_checkpoints(tmp_path) == ()


def test_a_link_to_a_checkpoint_is_not_one(tmp_path: Path) -> None:
    elsewhere = save(tmp_path / "elsewhere", 8)
    output = tmp_path / "output"
    output.mkdir()
    (output / "checkpoint-8").symlink_to(elsewhere)
    (output / "checkpoint-9").write_text("a file")

    assert list_checkpoints(output) == ()


def test_a_link_out_of_a_checkpoint_is_not_followed(tmp_path: Path) -> None:
    path = save(tmp_path / "output", 8)
    weights = path / "model.safetensors"
    weights.rename(tmp_path / "weights")
    weights.symlink_to(tmp_path / "weights")

    assert judge(path).state is State.INCOMPLETE
    assert "a link out of the checkpoint" in judge(path).problems[0]


def test_a_link_inside_a_checkpoint_is_as_good_as_the_file(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    (path / "model.safetensors").rename(path / "weights.safetensors")
    (path / "model.safetensors").symlink_to("weights.safetensors")

    assert judge(path).state is State.COMPLETE


def test_a_finished_run_is_seen_as_such(tmp_path: Path) -> None:
    save(tmp_path, 100, max_steps=100)
    found = find_resume_point(tmp_path)

    assert found.checkpoint is not None
    assert found.checkpoint.finished
    assert not judge(save(tmp_path, 99)).finished


def test_without_max_steps_nothing_is_said_to_be_finished(tmp_path: Path) -> None:
    assert not judge(save(tmp_path, 8, max_steps=-1)).finished


def test_weights_alone_would_resume_with_a_fresh_optimizer(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    (path / "optimizer.pt").unlink()

    assert judge(path).state is State.INCOMPLETE
    assert judge(path).problems == ("optimizer: no file of the optimizer's state",)


def test_hf_trainers_schedule_must_be_there_too(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    (path / "training_args.bin").write_bytes(torch_like())

    assert judge(path).problems == ("scheduler.pt: missing",)

    (path / "scheduler.pt").write_bytes(torch_like())

    assert judge(path).state is State.COMPLETE


def test_a_state_of_another_step_is_damage(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    path = path.rename(tmp_path / "checkpoint-9")

    assert judge(path).state is State.CORRUPT
    assert judge(path).problems == (
        "trainer_state.json: global_step is 8, the folder's name says 9",
    )


def test_a_save_in_progress_is_incomplete(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    (path / "checkpoint-is-incomplete.txt").touch()

    assert judge(path).state is State.INCOMPLETE


def test_left_overs_of_a_killed_writer_are_not_judged(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    (path / ".tmpAbC123").write_bytes(b"torn")
    (path / "model.pt.tmp").write_bytes(b"torn")

    assert judge(path).state is State.COMPLETE


def test_each_shard_and_the_index_have_to_be_there(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    (path / "model.safetensors").unlink()
    (path / "model-00002-of-00003.safetensors").write_bytes(safetensors())

    assert judge(path).problems == (
        "model-00001-of-00003.safetensors: missing",
        "model-00003-of-00003.safetensors: missing",
        "model.safetensors.index.json: missing",
    )


def test_a_file_that_the_index_lists_has_to_be_there(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    index = {"weight_map": {"w": "model.safetensors", "b": "more.safetensors"}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))

    assert judge(path).problems == (
        "more.safetensors: missing; model.safetensors.index.json lists it",
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (safetensors()[:-1], "its header says"),
        (safetensors() + b"x", "its header says"),
        (safetensors()[:20], "cut"),
        (b"\xff" * 8, "the header's length is damaged"),
        (struct.pack("<Q", 2) + b"{x", "not JSON"),
        (struct.pack("<Q", 2) + b"[]", "not an object"),
        (struct.pack("<Q", 7) + b'{"w":1}', "damaged at 'w'"),
        (struct.pack("<Q", 4), "cut"),
        (b"1234567", "cut"),
    ],
)
def test_a_damaged_safetensors_file_is_seen(tmp_path: Path, data: bytes, why: str) -> None:
    path = save(tmp_path, 8)
    (path / "model.safetensors").write_bytes(data)

    assert judge(path).state is State.CORRUPT
    assert why in judge(path).problems[0]


def test_lost_blocks_of_a_safetensors_file_are_seen(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    whole = _big_safetensors(1 << 20)
    with (path / "model.safetensors").open("wb") as file:
        file.write(whole[:4096])
        file.truncate(len(whole))

    assert "never written" in judge(path).problems[0]


def _big_safetensors(size: int) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}})
    return struct.pack("<Q", len(header)) + header.encode() + os.urandom(size)


def test_a_pipe_planted_under_a_files_name_does_not_stop_us(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    (path / "model.safetensors").unlink()
    os.mkfifo(path / "model.safetensors")

    assert judge(path).problems == ("model.safetensors: not a regular file",)


def test_a_zip_of_somebody_else_is_no_file_of_torch(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    with zipfile.ZipFile(path / "optimizer.pt", "w") as archive:
        archive.writestr("readme", "hello")

    assert judge(path).problems == (
        "optimizer.pt: a zip archive, but not of torch.save: no data.pkl in it",
    )


def test_judging_what_is_not_named_checkpoint_n_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a checkpoint by its name"):
        judge(tmp_path)
