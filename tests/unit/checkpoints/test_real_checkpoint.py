"""A checkpoint that torch really wrote, whole and with each of its files damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmswift.checkpoints import State, judge

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

STEP = 8


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("whole") / f"checkpoint-{STEP}"
    path.mkdir()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 64)).sum().backward()
    optimizer.step()
    torch.save(model.state_dict(), path / "model.pt")
    torch.save(optimizer.state_dict(), path / "optimizer.pt")
    (path / "trainer_state.json").write_text(json.dumps({"global_step": STEP, "max_steps": 20}))
    return path


@pytest.fixture
def checkpoint(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / saved.name))


def _rewrite(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    return damage


DAMAGES: dict[str, Callable[[Path], None]] = {
    "removed": Path.unlink,
    "emptied": _rewrite(lambda _: b""),
    "cut to one byte": _rewrite(lambda data: data[:1]),
    "cut to half": _rewrite(lambda data: data[: len(data) // 2]),
    "cut by one byte": _rewrite(lambda data: data[:-1]),
    "one byte more": _rewrite(lambda data: data + b"x"),
    "second half zeroed": _rewrite(
        lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2)
    ),
    "first half zeroed": _rewrite(lambda data: bytes(len(data) // 2) + data[len(data) // 2 :]),
}


def test_what_torch_wrote_is_whole(checkpoint: Path) -> None:
    judged = judge(checkpoint)

    assert judged.to_json() == {
        "path": str(checkpoint),
        "step": STEP,
        "format": "hf-trainer",
        "state": "complete",
        "problems": [],
        "finished": False,
        "unfit": "",
    }


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
@pytest.mark.parametrize("name", ["model.pt", "optimizer.pt", "trainer_state.json"])
def test_no_damaged_file_goes_unseen(
    checkpoint: Path, name: str, damage: Callable[[Path], None]
) -> None:
    damage(checkpoint / name)
    judged = judge(checkpoint)

    assert judged.state is not State.COMPLETE
    # "model" and "optimizer" for a removed file: any of its kind would have done.
    assert any(problem.startswith(name.split(".", maxsplit=1)[0]) for problem in judged.problems)


def test_a_file_with_lost_blocks_is_seen_though_its_size_is_right(checkpoint: Path) -> None:
    path = checkpoint / "model.pt"
    torch.save({"weights": torch.randn(1 << 18)}, path)
    size = path.stat().st_size
    whole = path.read_bytes()
    with path.open("wb") as file:
        file.write(whole[:4096])
        file.seek(size - 8192)
        file.write(whole[size - 8192 :])
    judged = judge(checkpoint)

    assert path.stat().st_size == size
    assert judged.state is State.CORRUPT
    assert "never written" in judged.problems[0]


def test_zeros_that_the_file_system_stores_as_a_hole_are_no_damage(checkpoint: Path) -> None:
    path = checkpoint / "optimizer.pt"
    torch.save({"state": torch.zeros(1 << 18)}, path)
    whole = path.read_bytes()
    with path.open("wb") as file:
        file.write(whole[:8192])
        file.seek(len(whole) - 8192)
        file.write(whole[-8192:])

    assert path.read_bytes() == whole
    assert judge(checkpoint).state is State.COMPLETE
