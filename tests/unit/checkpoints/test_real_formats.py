"""Checkpoints that the real libraries wrote: whole, and with each of their files damaged."""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from slurmswift.checkpoints import Checkpoint, Expected, find_resume_point, judge
from slurmswift.checkpoints.formats import FORMATS
from tests.support.real_checkpoints import KINDS, Kind, RealCheckpoints

pytestmark = pytest.mark.torch

BY_NAME = {form.name: form for form in FORMATS}
SAFETENSORS = "*.safetensors"
TRAINERS = ("hf-trainer", "hf-deepspeed")
DAMAGES = ("removed", "emptied", "cut to 1%", "cut to 50%", "cut to 99%", "tail zeroed")


@dataclass(frozen=True)
class Unseen:
    """Damage that the quick judgement may miss, by the words of the format that say so."""

    words: str
    files: str  # a shell pattern
    damages: tuple[str, ...] = DAMAGES
    formats: tuple[str, ...] = tuple(BY_NAME)


UNSEEN = (
    Unseen("in the middle of a safetensors", SAFETENSORS, ("tail zeroed",)),
    Unseen("`scheduler.bin`", "scheduler.bin", ("removed",), ("accelerate",)),
    Unseen("training_args.bin", "training_args.bin"),
    Unseen("`config.json`, `generation_config.json`", "*config.json", ("removed",), TRAINERS),
    Unseen("`README.md`", "README.md", formats=TRAINERS),
    Unseen("`zero_to_fp32.py`", "zero_to_*.py", formats=("hf-deepspeed",)),
    Unseen("`model.safetensors` removed", "model.safetensors", ("removed",), ("hf-deepspeed",)),
    Unseen("`*.safetensors`, `config.json`", SAFETENSORS, formats=("megatron-swift",)),
    Unseen("`*.safetensors`, `config.json`", "config.json", formats=("megatron-swift",)),
)


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> RealCheckpoints:
    return RealCheckpoints(tmp_path_factory.mktemp("real-checkpoints"))


@pytest.fixture(params=KINDS.values(), ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


def _expected(kind: Kind, *, deep: bool = False) -> Expected:
    return Expected(weights_only=kind.weights_only, world_size=kind.maker.ranks, deep=deep)


@pytest.mark.parametrize("deep", [False, True], ids=["quick", "deep"])
def test_what_the_library_wrote_is_whole(real: RealCheckpoints, kind: Kind, *, deep: bool) -> None:
    path = real.path(kind.name)
    judged = judge(path, _expected(kind, deep=deep))

    assert judged.problems == ()
    assert judged.whole
    assert (judged.format, judged.step, judged.max_steps) == (
        kind.format,
        kind.step,
        kind.max_steps,
    )


def test_it_is_whole_too_where_nothing_is_known_of_the_run(
    real: RealCheckpoints, kind: Kind
) -> None:
    assert judge(real.path(kind.name), Expected(weights_only=kind.weights_only)).whole


def test_a_resume_starts_from_it(real: RealCheckpoints, kind: Kind) -> None:
    found = find_resume_point(real.folder(kind.name), _expected(kind))

    assert found.checkpoint is not None
    assert found.passed_over == ()
    assert found.checkpoint.step >= kind.step


def test_each_damaged_file_is_seen_or_known_to_be_unseen(
    real: RealCheckpoints, kind: Kind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = real.path(kind.name)
    path = tmp_path / source.name
    if source.is_dir():
        shutil.copytree(source, path)
    else:
        shutil.copy(source, path)
    tried = seen = 0
    unknown = []
    for file, damage in _damaged(path):
        tried += 1
        if not _whole(path, kind):
            seen += 1
        elif not _is_known(kind, file.name, damage):
            unknown.append(f"{file.relative_to(tmp_path)} {damage}")
    with capsys.disabled():
        print(f"\n{kind.name}: {seen} of {tried} damages seen ({seen / tried:.0%})", end=" ")  # noqa: T201

    assert unknown == []
    assert _whole(path, kind), "the damages were not undone"


def _damaged(path: Path) -> Iterator[tuple[Path, str]]:
    """Damage each file in each way, and undo it when the caller has looked."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    for file in sorted(files):
        whole, status = file.read_bytes(), file.stat()
        for damage in DAMAGES:
            if damage == "removed":
                file.unlink()
            else:
                file.write_bytes(_changed(whole, damage))
            yield file, damage
            file.write_bytes(whole)
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def _changed(data: bytes, damage: str) -> bytes:
    if damage == "tail zeroed":
        tail = min(len(data), max(64, len(data) // 10))
        return data[: len(data) - tail] + bytes(tail)
    share = {"emptied": 0, "cut to 1%": 1, "cut to 50%": 50, "cut to 99%": 99}[damage]
    return data[: len(data) * share // 100]


def _whole(path: Path, kind: Kind) -> bool:
    try:
        judged: Checkpoint = judge(path, _expected(kind))
    except ValueError:  # no checkpoint any more: nothing resumes from it
        return False
    # Of another format it would be resumed by other rules.
    return judged.whole


def _is_known(kind: Kind, name: str, damage: str) -> bool:
    form = BY_NAME[kind.format]
    told = " ".join((*form.only_deep, *form.never, *form.ignored))
    return any(
        unseen.words in told
        and kind.format in unseen.formats
        and fnmatch.fnmatch(name, unseen.files)
        and damage in unseen.damages
        for unseen in UNSEEN
    )
