"""Folders of torch.distributed.checkpoint, made without torch."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slurmswift.checkpoints import Checkpoint, Expected, State, dcp, judge
from tests.support.checkpoint_folder import torch_like

ITEM = torch_like()


@dataclass
class Place:
    relative_path: Any
    offset: Any
    length: Any


@dataclass
class PackedPlace(Place):
    transform_descriptors: Any = ("zstd",)


@dataclass
class Metadata:
    state_dict_metadata: dict[str, int]
    storage_data: dict[int, Place]


class Runs:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def write(
    folder: Path, places: list[Place], *, names: tuple[str, ...] = ("model.w", "optim.w")
) -> Path:
    path = folder / "step-7"
    path.mkdir()
    metadata = Metadata(dict.fromkeys(names, 0), dict(enumerate(places)))
    (path / ".metadata").write_bytes(pickle.dumps(metadata))
    return path


def two_items(folder: Path, kind: type[Place] = Place) -> Path:
    path = write(
        folder, [kind("__0_0.distcp", 0, len(ITEM)), kind("__0_0.distcp", len(ITEM), len(ITEM))]
    )
    (path / "__0_0.distcp").write_bytes(ITEM * 2)
    return path


def why(path: Path, **known: Any) -> str:
    return "; ".join(judge(path, Expected(**known)).problems)


def test_what_the_metadata_lists_is_there(tmp_path: Path) -> None:
    judged = judge(two_items(tmp_path))

    assert (judged.format, judged.step, judged.problems) == ("dcp", 7, ())


def test_a_file_must_end_where_its_last_item_ends(tmp_path: Path) -> None:
    path = two_items(tmp_path)
    (path / "__0_0.distcp").write_bytes(ITEM)

    assert f"{len(ITEM)} bytes; .metadata says {2 * len(ITEM)}" in why(path)


@pytest.mark.parametrize(
    ("position", "word"),
    [
        (0, "does not start"),
        (len(ITEM) - 22, "the item at byte 0 is cut"),
        (len(ITEM), f"the item at byte {len(ITEM)} does not start"),
        (2 * len(ITEM) - 22, f"the item at byte {len(ITEM)} is cut"),
    ],
)
def test_each_item_must_begin_and_end(tmp_path: Path, position: int, word: str) -> None:
    path = two_items(tmp_path)
    data = bytearray(ITEM * 2)
    data[position : position + 4] = bytes(4)
    (path / "__0_0.distcp").write_bytes(data)

    assert judge(path).state is State.CORRUPT
    assert word in why(path)


def test_changed_bytes_in_the_middle_are_for_the_deep_look(tmp_path: Path) -> None:
    path = two_items(tmp_path)
    data = (ITEM * 2).replace(b"\x80\x02N", b"\x80\x03N", 1)
    (path / "__0_0.distcp").write_bytes(data)

    assert judge(path).whole
    assert "the item at byte 0 is damaged (model/data.pkl)" in why(path, deep=True)


def test_of_packed_items_only_the_sizes_are_known(tmp_path: Path) -> None:
    path = two_items(tmp_path, PackedPlace)
    (path / "__0_0.distcp").write_bytes(b"x" * 2 * len(ITEM))

    assert judge(path).whole
    assert judge(path, Expected(deep=True)).whole

    (path / "__0_0.distcp").write_bytes(b"x")

    assert "bytes; .metadata says" in why(path)


def test_without_its_metadata_the_save_did_not_finish(tmp_path: Path) -> None:
    path = two_items(tmp_path)
    (path / ".metadata").rename(path / ".metadata.tmp")

    assert judge(path).state is State.INCOMPLETE
    assert why(path) == ".metadata: missing: the save did not finish"


def test_a_save_of_the_model_alone_is_whole_only_where_that_will_do(tmp_path: Path) -> None:
    path = write(tmp_path, [Place("__0_0.distcp", 0, len(ITEM))], names=("model.w",))
    (path / "__0_0.distcp").write_bytes(ITEM)

    assert why(path) == "optimizer: .metadata lists no state of an optimizer"
    assert judge(path, Expected(weights_only=True)).whole


@pytest.mark.parametrize(
    "place",
    [
        Place("../../etc/passwd", 0, 5),
        Place("/etc/passwd", 0, 5),
        Place("__0_0.distcp", -1, 5),
        Place("__0_0.distcp", 2**63, 2**63),
        Place("__0_0.distcp", 0, 5),
        Place(7, 0, 5),
        Place("__0_0.distcp", "0", None),
    ],
    ids=lambda place: str(place)[6:40],
)
def test_a_place_that_cannot_be_is_damage_and_nothing_outside_is_read(
    tmp_path: Path, place: Place
) -> None:
    path = write(tmp_path, [place])
    (path / "__0_0.distcp").write_bytes(ITEM)

    assert not judge(path).whole
    assert why(path)


def test_a_metadata_that_would_run_runs_nothing(tmp_path: Path) -> None:
    path = two_items(tmp_path)
    (path / ".metadata").write_bytes(pickle.dumps(Runs(tmp_path / "made")))

    assert judge(path).state is State.CORRUPT
    assert not (tmp_path / "made").exists()


def _large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Place] = Place) -> Path:
    path = two_items(tmp_path, kind)
    monkeypatch.setattr(dcp, "_MAX_QUICK_BYTES", 10)
    return path


def _judged(path: Path, data: bytes | None) -> Checkpoint:
    file = path / "__0_0.distcp"
    file.unlink(missing_ok=True)
    if data is not None:
        file.write_bytes(data)
    return judge(path)


def test_of_a_large_metadata_only_the_names_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _large(tmp_path, monkeypatch)

    assert judge(path).whole
    assert _judged(path, None).problems == ("__0_0.distcp: missing; .metadata lists it",)
    assert not _judged(path, ITEM + ITEM[:-1]).whole
    assert not _judged(path, b"").whole
    assert _judged(path, ITEM).whole, "as the documentation says: a deep look sees that"


def test_a_large_metadata_of_packed_data_says_that_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _large(tmp_path, monkeypatch, PackedPlace)

    assert _judged(path, b"packed").whole
    assert not _judged(path, b"").whole


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: b"x" + data[1:]])
def test_a_large_metadata_that_is_cut_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    path = _large(tmp_path, monkeypatch)
    (path / ".metadata").write_bytes(change((path / ".metadata").read_bytes()))

    assert why(path) == ".metadata: damaged: not a whole pickle"
