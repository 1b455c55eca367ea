"""Trainer's folder: what each rank leaves, what a resume would silently do without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurmswift.checkpoints import Expected, State, json_file, judge
from tests.support.checkpoint_folder import safetensors, save, torch_like


class TrainingArguments:
    """By its pickle what Trainer's is: an object whose state has another object in it."""

    def __init__(self, ranks: object) -> None:
        self.distributed_state = PartialState(ranks)


class PartialState:
    def __init__(self, ranks: object) -> None:
        self.num_processes = ranks


def saved_by(folder: Path, ranks: int, *, step: int = 8, by_swift: bool = False) -> Path:
    path = save(folder, step)
    (path / "training_args.bin").write_bytes(torch_like(TrainingArguments(ranks)))
    if by_swift:
        (path / "args.json").write_text(json.dumps({"global_world_size": ranks}))
    (path / "scheduler.pt").write_bytes(torch_like())
    names = [f"rng_state_{rank}.pth" for rank in range(ranks)] if ranks > 1 else ["rng_state.pth"]
    for name in names:
        (path / name).write_bytes(torch_like())
    return path


@pytest.mark.parametrize("by_swift", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 11])
def test_each_ranks_random_state_has_to_be_there(
    tmp_path: Path, ranks: int, *, by_swift: bool
) -> None:
    path = saved_by(tmp_path, ranks, by_swift=by_swift)

    assert judge(path).problems == ()
    for file in sorted(path.glob("rng_state*")):
        file.rename(tmp_path / "kept")

        assert [problem.partition(":")[0] for problem in judge(path).problems] == [file.name]
        (tmp_path / "kept").rename(file)


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_without_shards_more_or_fewer_ranks_may_go_on(tmp_path: Path, ranks: int) -> None:
    assert judge(saved_by(tmp_path, 4), Expected(world_size=ranks)).usable


def test_where_nobody_says_how_many_a_later_rank_shows_those_before_it(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    for rank in (0, 1, 3):
        (path / f"rng_state_{rank}.pth").write_bytes(torch_like())

    assert [problem.partition(":")[0] for problem in judge(path).problems] == ["rng_state_2.pth"]


@pytest.mark.parametrize("ranks", [0, -1, "4", True, None, 10**9, 4.0])
def test_a_made_up_number_of_ranks_is_none(tmp_path: Path, ranks: object) -> None:
    path = save(tmp_path, 8)
    (path / "scheduler.pt").write_bytes(torch_like())
    (path / "args.json").write_text(json.dumps({"global_world_size": ranks}))

    assert judge(path).whole


def test_two_runs_that_did_not_join_write_over_each_other(tmp_path: Path) -> None:
    path = saved_by(tmp_path, 1)
    (path / "args.json").write_text(json.dumps({"global_world_size": 2}))

    assert judge(path).state is State.INCOMPLETE


def test_weights_alone_will_do_only_where_the_recipe_says_so(tmp_path: Path) -> None:
    path = saved_by(tmp_path, 2)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth"):
        (path / name).unlink()

    assert judge(path).state is State.INCOMPLETE
    assert judge(path, Expected(weights_only=True)).whole
    (path / "model.safetensors").unlink()
    assert not judge(path, Expected(weights_only=True)).whole


def test_an_adapter_is_the_weights_of_lora(tmp_path: Path) -> None:
    path = saved_by(tmp_path, 1)
    (path / "model.safetensors").rename(path / "adapter_model.safetensors")

    assert judge(path).problems == ("adapter_config.json: missing",)

    (path / "adapter_config.json").write_text("{}")

    assert judge(path).whole


def _sharded(folder: Path) -> Path:
    path = saved_by(folder, 1)
    (path / "model.safetensors").unlink()
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    for name, tensor in zip(names, "ab", strict=True):
        (path / name).write_bytes(safetensors(name=tensor))
    index = {"weight_map": dict(zip("ab", names, strict=True))}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    return path


def test_sharded_weights_are_whole_with_their_index(tmp_path: Path) -> None:
    assert judge(_sharded(tmp_path)).problems == ()


def test_a_shard_of_another_save_is_seen_by_its_tensors(tmp_path: Path) -> None:
    path = _sharded(tmp_path)
    (path / "model-00002-of-00002.safetensors").write_bytes(safetensors(name="c"))

    assert judge(path).state is State.CORRUPT
    assert judge(path).problems == (
        "model-00002-of-00002.safetensors: lacks 'b', which model.safetensors.index.json lists",
    )


def test_a_state_file_too_large_to_parse_still_tells_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_file, "_MAX_PARSED_BYTES", 100_000)
    monkeypatch.setattr(json_file, "_END_BYTES", 4096)
    path = save(tmp_path, 8)
    log = [{"loss": 1.0, "step": step, "global_step": 1} for step in range(20_000)]
    state = {"global_step": 8, "max_steps": 20, "log_history": log}
    text = json.dumps(state, indent=2, sort_keys=True)
    (path / "trainer_state.json").write_text(text)

    assert (judge(path).problems, judge(path).max_steps) == ((), 20)

    (path / "trainer_state.json").write_text(text[:-10])
    assert judge(path).state is State.CORRUPT
    (path / "trainer_state.json").write_text(text.replace('\n  "global_step": 8', '\n  "x": 8'))
    assert judge(path).state is State.CORRUPT
