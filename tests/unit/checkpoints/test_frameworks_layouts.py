"""What the layouts of frameworks ask for beyond whole files: ranks, parts, trackers, names."""

from __future__ import annotations

import pickle
import zipfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from slurmswift.checkpoints import Expected, Pattern, State, judge, list_checkpoints
from tests.support.checkpoint_folder import safetensors, save, torch_like


def torch_file(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", pickle.dumps(value, 2))
    return path


def accelerate_state(folder: Path, name: str = "step_5", ranks: int = 2) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(safetensors())
    for file in ("optimizer.bin", *(f"random_states_{rank}.pkl" for rank in range(ranks))):
        (path / file).write_bytes(torch_like())
    return path


def problems(path: Path, **known: Any) -> tuple[str, ...]:
    return judge(path, Expected(**known)).problems


def test_accelerate_names_its_folders_by_itself_one_level_below(tmp_path: Path) -> None:
    for number in (0, 1):
        accelerate_state(tmp_path / "checkpoints", f"checkpoint_{number}")

    assert [(item.step, item.format, item.whole) for item in list_checkpoints(tmp_path)] == [
        (1, "accelerate", True),
        (0, "accelerate", True),
    ]


def test_accelerate_the_last_rank_is_missed_where_the_ranks_are_known(tmp_path: Path) -> None:
    path = accelerate_state(tmp_path, ranks=2)

    assert problems(path, world_size=2) == ()
    assert problems(path, world_size=3) == ("random_states_2.pkl: missing",)


def test_accelerate_a_rank_before_the_last_is_always_missed(tmp_path: Path) -> None:
    path = accelerate_state(tmp_path, ranks=3)
    (path / "random_states_1.pkl").unlink()

    assert problems(path) == ("random_states_1.pkl: missing",)


def test_a_rank_of_a_made_up_number_costs_no_memory(tmp_path: Path) -> None:
    path = accelerate_state(tmp_path)
    (path / f"random_states_{10**15}.pkl").write_bytes(torch_like())

    assert len(problems(path)) == 20


def test_accelerate_before_the_first_rank_wrote_the_save_is_not_over(tmp_path: Path) -> None:
    path = accelerate_state(tmp_path, ranks=1)
    (path / "random_states_0.pkl").unlink()
    (path / "optimizer.bin").write_bytes(torch_like()[:-1])

    assert judge(path).state is State.INCOMPLETE
    assert judge(path).format == "accelerate"


def test_accelerate_a_tag_of_deepspeed_holds_model_and_optimizer(tmp_path: Path) -> None:
    path = accelerate_state(tmp_path)
    (path / "model.safetensors").unlink()
    (path / "optimizer.bin").unlink()
    torch_file(path / "pytorch_model" / "mp_rank_00_model_states.pt", {})

    assert problems(path) == ()


def legacy(folder: Path, parts: list[str], **arguments: object) -> Path:
    state = {"args": Namespace(**arguments), "iteration": 20, "optimizer": {}}
    path = folder / "iter_0000020"
    for part in parts:
        torch_file(path / part / "model_optim_rng.pt", state)
    return path


@pytest.mark.parametrize(
    ("tensor", "pipeline", "there", "lacking"),
    [
        (2, 1, ["mp_rank_00"], "mp_rank_01"),
        (1, 2, ["mp_rank_00_000"], "mp_rank_00_001"),
        (2, 2, ["mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000"], "mp_rank_01_001"),
    ],
)
def test_megatron_each_part_of_the_model_must_be_there(
    tmp_path: Path, tensor: int, pipeline: int, there: list[str], lacking: str
) -> None:
    path = legacy(
        tmp_path,
        there,
        tensor_model_parallel_size=tensor,
        pipeline_model_parallel_size=pipeline,
        train_iters=20,
    )

    assert problems(path) == (f"{lacking}/model_optim_rng.pt: missing",)

    torch_file(path / lacking / "model_optim_rng.pt", {})

    assert judge(path).whole
    assert judge(path).finished


def test_megatron_a_distributed_optimizer_has_a_file_in_each_part(tmp_path: Path) -> None:
    path = legacy(tmp_path, ["mp_rank_00", "mp_rank_01"])
    torch_file(path / "mp_rank_01" / "distrib_optim.pt", {})

    assert problems(path) == ("mp_rank_00/distrib_optim.pt: missing",)
    assert problems(path, weights_only=True) == ()


def test_megatron_a_state_of_another_iteration_is_damage(tmp_path: Path) -> None:
    path = legacy(tmp_path, ["mp_rank_00"]).rename(tmp_path / "iter_0000030")

    assert judge(path).state is State.CORRUPT
    assert "iteration is 20, the folder's name says 30" in problems(path)[0]


def test_megatron_made_up_sizes_are_not_counted_out(tmp_path: Path) -> None:
    path = legacy(tmp_path, ["mp_rank_00"], tensor_model_parallel_size=2**40)

    assert problems(path) == ()


def megatron_swift(folder: Path, tracker: str = "20") -> Path:
    path = folder / "checkpoint-20"
    torch_file(path / "iter_0000020" / "common.pt", {"iteration": 20})
    (path / "iter_0000020" / "metadata.json").write_text('{"sharded_backend": "torch_dist"}')
    (path / "latest_checkpointed_iteration.txt").write_text(tracker)
    (path / "args.json").write_text("{}")
    (path / "model.safetensors").write_bytes(safetensors())
    return path


def test_megatron_swift_the_tracker_comes_before_the_data_of_an_async_save(
    tmp_path: Path,
) -> None:
    judged = judge(megatron_swift(tmp_path))

    assert (judged.format, judged.state) == ("megatron-swift", State.INCOMPLETE)
    assert judged.problems == ("iter_0000020/.metadata: missing: the save did not finish",)


def test_megatron_swift_weights_alone_are_in_the_safetensors(tmp_path: Path) -> None:
    path = megatron_swift(tmp_path)

    assert problems(path, weights_only=True) == ()

    (path / "model.safetensors").write_bytes(safetensors()[:-1])

    assert "its header says" in problems(path, weights_only=True)[0]


@pytest.mark.parametrize("tracker", ["10", "", "release", "20" * 200])
def test_megatron_swift_a_tracker_must_name_the_iteration_there_is(
    tmp_path: Path, tracker: str
) -> None:
    path = megatron_swift(tmp_path, tracker)

    assert "latest_checkpointed_iteration.txt: it does not say 20" in problems(
        path, weights_only=True
    )


def lightning(path: Path, **state: object) -> Path:
    whole = {"pytorch-lightning_version": "2", "optimizer_states": [], "global_step": 7}
    return torch_file(path, {**whole, **state})


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("epoch=1-step=30.ckpt", 30),
        ("epoch=1-step=30-v2.ckpt", 30),
        ("step=30-val_loss=0.5.ckpt", 30),
        ("last.ckpt", 7),
        ("hpc_ckpt_3.ckpt", 7),
        ("epoch=1-global_step=x.ckpt", 7),
    ],
)
def test_lightning_the_name_tells_the_step_or_the_file_does(
    tmp_path: Path, name: str, step: int
) -> None:
    lightning(tmp_path / name)

    assert [(item.step, item.whole) for item in list_checkpoints(tmp_path)] == [(step, True)]


@pytest.mark.parametrize("below", ["checkpoints", "lightning_logs/version_3/checkpoints"])
def test_lightning_is_found_where_its_loggers_put_it(tmp_path: Path, below: str) -> None:
    path = lightning(tmp_path / below / "epoch=0-step=4.ckpt")

    assert [item.path for item in list_checkpoints(tmp_path)] == [str(path)]


def test_lightning_weights_alone_will_do_only_where_they_were_asked_for(tmp_path: Path) -> None:
    path = torch_file(tmp_path / "step=4.ckpt", {"pytorch-lightning_version": "2"})

    assert judge(path).state is State.INCOMPLETE
    assert judge(path, Expected(weights_only=True)).whole


def test_a_ckpt_of_somebody_else_is_not_lightnings(tmp_path: Path) -> None:
    path = torch_file(tmp_path / "step=4.ckpt", {"model": 1})

    assert "not of Lightning" in problems(path)[0]


def test_flash_the_tracker_tells_which_one_is_written(tmp_path: Path) -> None:
    old, new = save(tmp_path, 10), save(tmp_path, 20)
    (tmp_path / "dlrover_latest.txt").write_text("10")

    assert (judge(old).format, judge(old).whole) == ("flash", True)
    assert judge(new).state is State.INCOMPLETE
    assert problems(new) == ("dlrover_latest.txt: says 10: not every rank had written this one",)


def test_flash_a_damaged_file_is_damage_though_the_tracker_names_it(tmp_path: Path) -> None:
    path = save(tmp_path, 10)
    (tmp_path / "dlrover_latest.txt").write_text("10")
    (path / "optimizer.pt").write_bytes(torch_like()[:-1])

    assert judge(path).state is State.CORRUPT


@pytest.mark.parametrize("text", ["", "x", "-3"])
def test_flash_a_tracker_that_says_nothing_proves_nothing(tmp_path: Path, text: str) -> None:
    path = save(tmp_path, 10)
    (tmp_path / "dlrover_latest.txt").write_text(text)

    assert "says no step" in problems(path)[0]


def test_flash_each_rank_has_a_file(tmp_path: Path) -> None:
    path = torch_file(tmp_path / "20" / "rank_0.pt", {}).parent
    (tmp_path / "dlrover_latest.txt").write_text("20")

    assert judge(path, Expected(world_size=3)).whole, "without sharding one rank writes alone"

    torch_file(path / "rank_2.pt", {})

    assert problems(path) == ("rank_1.pt: missing",)


def generic(**pattern: Any) -> Expected:
    return Expected(format="generic", pattern=Pattern(**pattern))


def test_generic_the_recipes_pattern_finds_files_and_folders(tmp_path: Path) -> None:
    torch_file(tmp_path / "model-300.pt", {})
    torch_file(tmp_path / "model-400.pt" / "weights.pt", {})
    torch_file(tmp_path / "other-500.pt", {})

    assert [item.step for item in list_checkpoints(tmp_path, generic(directory=r"model-(\d+)\.pt"))
            ] == [400, 300]  # fmt: skip


@pytest.mark.parametrize("directory", [r"x-\d+", r"x-(.*)", r"x-5|y-(\d+)", r"(x)-5"])
def test_generic_a_pattern_without_a_step_finds_nothing(tmp_path: Path, directory: str) -> None:
    torch_file(tmp_path / "x-5", {})
    expected = generic(directory=directory)

    assert (directory == r"x-(.*)") is bool(list_checkpoints(tmp_path, expected))


def test_generic_the_sentinel_is_written_last(tmp_path: Path) -> None:
    path = torch_file(tmp_path / "checkpoint-5" / "weights.pt", {}).parent
    (path / "weights.pt").write_bytes(b"torn")
    judged = judge(path, generic(sentinel="DONE"))

    assert judged.state is State.INCOMPLETE
    assert judged.problems[0] == "DONE: missing: the save did not finish"

    (path / "DONE").touch()

    assert judge(path, generic(sentinel="DONE")).state is State.CORRUPT


def test_generic_each_pattern_must_match_a_file_that_is_not_empty(tmp_path: Path) -> None:
    path = torch_file(tmp_path / "checkpoint-5" / "weights.pt", {}).parent
    expected = generic(files=("*.pt", "state/*.dat"))

    assert judge(path, expected).problems == ("state/*.dat: no file of that name",)

    (path / "state").mkdir()
    (path / "state" / "a.dat").touch()

    assert judge(path, expected).problems == ("state/a.dat: empty",)

    (path / "state" / "a.dat").write_text("1")

    assert judge(path, expected).whole


def test_generic_judges_nothing_unless_it_is_named(tmp_path: Path) -> None:
    torch_file(tmp_path / "checkpoint-5" / "weights.pt", {})

    assert [item.format for item in list_checkpoints(tmp_path)] == ["hf-trainer"]
    assert [item.format for item in list_checkpoints(tmp_path, generic())] == ["generic"]
