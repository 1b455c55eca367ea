"""DeepSpeed's folders, alone and in Trainer's: every rank's part has to be there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from slurmswift.checkpoints import Checkpoint, Expected, State, find_resume_point, judge
from tests.support.checkpoint_folder import save, save_deepspeed, save_with_deepspeed, torch_like


def test_alone_it_is_known_by_its_files_and_its_step_by_its_tag(tmp_path: Path) -> None:
    for step in (2, 10):
        save_deepspeed(tmp_path / f"global_step{step}")
    found = find_resume_point(tmp_path, Expected(world_size=2)).checkpoint

    assert found is not None
    assert (found.step, found.format, found.state) == (10, "deepspeed", State.COMPLETE)


def test_in_trainers_folder_it_is_judged_as_that(tmp_path: Path) -> None:
    judged = judge(save_with_deepspeed(tmp_path, 8), Expected(world_size=2))

    assert (judged.format, judged.state, judged.problems) == ("hf-deepspeed", State.COMPLETE, ())


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("bf16", [False, True])
def test_no_file_of_a_rank_may_be_missing(tmp_path: Path, stage: int, *, bf16: bool) -> None:
    path = save_deepspeed(tmp_path / "global_step4", dp=3, mp=2, stage=stage, bf16=bf16)
    names = sorted(file.name for file in path.iterdir())

    assert len(names) == {0: 2, 1: 8, 2: 8, 3: 12}[stage]
    assert judge(path, Expected(world_size=6)).usable
    for name in names:
        (path / name).rename(tmp_path / "kept")
        judged = judge(path)

        assert judged.state is State.INCOMPLETE
        assert judged.problems[0].startswith(f"{name}: missing")
        (tmp_path / "kept").rename(path / name)


def test_a_save_of_which_only_the_first_rank_wrote_is_seen_though_latest_names_it(
    tmp_path: Path,
) -> None:
    path = save_deepspeed(tmp_path / "global_step4", dp=4)
    for rank in (1, 2, 3):
        (path / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt").unlink()
    (tmp_path / "latest").write_text("global_step4")

    assert [problem.partition(":")[0] for problem in judge(path).problems] == [
        f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in (1, 2, 3)
    ]


def test_before_any_weights_are_written_it_is_incomplete(tmp_path: Path) -> None:
    path = save_deepspeed(tmp_path / "global_step4")
    (path / "mp_rank_00_model_states.pt").unlink()

    assert judge(path).state is State.INCOMPLETE


@pytest.mark.parametrize(
    ("stage", "ranks", "usable"), [(0, 4, True), (1, 4, False), (3, 1, False), (2, 2, True)]
)
def test_zero_cannot_go_on_with_another_number_of_ranks(
    tmp_path: Path, stage: int, ranks: int, *, usable: bool
) -> None:
    judged = judge(
        save_deepspeed(tmp_path / "global_step4", stage=stage), Expected(world_size=ranks)
    )

    assert judged.whole
    assert judged.usable is usable
    assert ("2 ranks saved" in judged.unfit) is not usable


def test_one_that_does_not_fit_is_passed_over_with_the_reason(tmp_path: Path) -> None:
    save_with_deepspeed(tmp_path, 4, ranks=2)
    save_with_deepspeed(tmp_path, 8, ranks=4)
    found = find_resume_point(tmp_path, Expected(world_size=2))

    assert found.checkpoint is not None
    assert found.checkpoint.step == 4
    assert "4 ranks saved and this run has 2" in found.passed_over[0].why_not


def _without_latest(path: Path) -> None:
    (path / "latest").unlink()


def _tag_of_nothing(path: Path) -> None:
    (path / "latest").write_text("global_step7")


def _stale(path: Path) -> None:
    shutil.copytree(path / "global_step8", path / "global_step7")
    (path / "latest").write_text("global_step7")


def _empty(path: Path) -> None:
    (path / "latest").write_text("")


def _out(path: Path) -> None:
    save_deepspeed(path.parent / "global_step9")
    (path / "latest").write_text("../global_step9")


def _folder_gone(path: Path) -> None:
    shutil.rmtree(path / "global_step8")


@pytest.mark.parametrize(
    "damage", [_without_latest, _tag_of_nothing, _stale, _empty, _out, _folder_gone]
)
def test_latest_has_to_name_the_newest_folder_that_is_there(tmp_path: Path, damage: object) -> None:
    path = save_with_deepspeed(tmp_path, 8)
    assert callable(damage)
    damage(path)
    judged = judge(path)

    assert judged.format == "hf-deepspeed"
    assert not judged.whole
    assert judged.problems[0].startswith("latest: ")


def _first_problem(path: Path) -> str:
    judged: Checkpoint = judge(path)
    return judged.problems[0] if judged.problems else ""


def test_trainers_schedule_is_needed_unless_deepspeed_has_it(tmp_path: Path) -> None:
    path = save_with_deepspeed(tmp_path, 8)
    (path / "scheduler.pt").unlink()

    assert _first_problem(path) == "scheduler.pt: missing"

    state = {"dp_world_size": 2, "mp_world_size": 1, "lr_scheduler": {"x": 1}, "param_shapes": [1]}
    (path / "global_step8" / "mp_rank_00_model_states.pt").write_bytes(torch_like(state))

    assert _first_problem(path) == ""


def test_trainers_last_file_has_to_be_there_too(tmp_path: Path) -> None:
    path = save_with_deepspeed(tmp_path, 8)
    (path / "trainer_state.json").unlink()

    assert (judge(path).format, judge(path).state) == ("hf-deepspeed", State.INCOMPLETE)


def test_a_torn_file_of_a_rank_is_damage(tmp_path: Path) -> None:
    path = save_with_deepspeed(tmp_path, 8)
    name = "global_step8/zero_pp_rank_1_mp_rank_00_optim_states.pt"
    (path / name).write_bytes(torch_like()[:-1])

    assert judge(path).state is State.CORRUPT
    assert _first_problem(path).startswith(name)


@pytest.mark.parametrize(
    "state",
    [
        None,
        {"dp_world_size": 2},
        {"dp_world_size": "2", "mp_world_size": 1},
        {"dp_world_size": -1, "mp_world_size": 1},
        {"dp_world_size": 10**6, "mp_world_size": 10**6},
        {"dp_world_size": 10**30, "mp_world_size": 1},
    ],
)
def test_a_made_up_number_of_ranks_is_damage(tmp_path: Path, state: object) -> None:
    path = save_deepspeed(tmp_path / "global_step4")
    (path / "mp_rank_00_model_states.pt").write_bytes(torch_like(state))

    assert judge(path).state is State.CORRUPT
    assert _first_problem(path).startswith("mp_rank_00_model_states.pt: ")


def test_weights_alone_will_do_where_the_recipe_says_so(tmp_path: Path) -> None:
    path = save_deepspeed(tmp_path / "global_step4", stage=2)
    for file in path.glob("*optim_states.pt"):
        file.unlink()

    assert not judge(path).whole
    assert judge(path, Expected(weights_only=True)).whole


def test_accelerates_folder_and_trainers_own_are_not_taken_for_it(tmp_path: Path) -> None:
    trainer = save(tmp_path, 8)
    accelerate = save_with_deepspeed(tmp_path / "other", 1)
    (accelerate / "trainer_state.json").unlink()
    (accelerate / "random_states_0.pkl").write_bytes(torch_like())

    assert judge(trainer).format == "hf-trainer"
    assert judge(accelerate).format == "accelerate"
