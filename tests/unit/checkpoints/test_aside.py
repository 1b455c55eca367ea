from __future__ import annotations

from pathlib import Path

from slurmswift.checkpoints import find_resume_point, list_checkpoints
from slurmswift.checkpoints.aside import list_aside, name_aside, restore
from tests.support.checkpoint_folder import save


def test_what_lies_aside_is_no_checkpoint_and_comes_back_as_it_was(tmp_path: Path) -> None:
    path = save(tmp_path / "v0-20250101-120000", 8)
    before = sorted((item.name, item.read_bytes()) for item in path.iterdir())
    path.rename(name_aside(path, 2))

    assert list_checkpoints(tmp_path) == ()
    (aside,) = list_aside(tmp_path)
    assert not aside.path.name.startswith("checkpoint-")
    assert restore(aside)
    assert sorted((item.name, item.read_bytes()) for item in path.iterdir()) == before
    assert find_resume_point(tmp_path).checkpoint is not None
    assert list_aside(tmp_path) == ()


def test_one_that_was_saved_in_its_place_since_stays(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    path.rename(tmp_path / ".set-aside-2-checkpoint-8")
    save(tmp_path, 8)
    (aside,) = list_aside(tmp_path)

    assert aside.home == path
    assert not restore(aside)
    assert aside.path.is_dir()
