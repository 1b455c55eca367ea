"""Checkpoints made to harm whoever looks at them: judged or refused within bounds, nothing runs.

Each is judged by a process of its own that may have a gigabyte and a minute of CPU, and no more.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmswift.checkpoints import State, files, find_resume_point, judge, search
from slurmswift.checkpoints.contents import DamagedError
from tests.support.checkpoint_folder import save, save_with_deepspeed, torch_like

MEMORY = 1 << 30
SECONDS = 60
HUGE = 5 << 30
LOOK = """\
import sys
from slurmswift.checkpoints import Expected, judge
judged = judge(sys.argv[1], Expected(deep=sys.argv[2] == "deep", now=2e9))
print(judged.state.value)
print(*judged.problems[:50], sep="\\n")
"""


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def look(path: Path, *, deep: bool = False) -> str:
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(path), "deep" if deep else "quick"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_limit,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Runs:
    """Would make a folder, were it unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("deep", [False, True], ids=["quick", "deep"])
def test_no_pickle_of_any_file_runs(tmp_path: Path, *, deep: bool) -> None:
    ran = tmp_path / "ran"
    path = save_with_deepspeed(tmp_path, 8)
    trap = torch_like({"dp_world_size": 2, "mp_world_size": 1, "x": Runs(ran)})
    for name in ("training_args.bin", "pytorch_model.bin", "scheduler.pt", "rng_state_0.pth"):
        (path / name).write_bytes(trap)
    for file in (path / "global_step8").iterdir():
        file.write_bytes(trap)
    dcp = tmp_path / "step-9"
    dcp.mkdir()
    (dcp / ".metadata").write_bytes(pickle.dumps(Runs(ran)))

    look(path, deep=deep)
    look(dcp, deep=deep)
    assert not ran.exists()
    with zipfile.ZipFile(path / "training_args.bin") as archive:
        pickle.loads(archive.read("model/data.pkl"))  # noqa: S301 - the trap is real
    assert ran.exists()


def _sparse(path: Path, size: int, head: bytes = b"", tail: bytes = b"") -> None:
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)
        file.seek(size - len(tail))
        file.write(tail)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _dense_json(path: Path) -> None:
    """Of what is read as a whole the one that takes most memory: 32 MB of empty lists."""
    path.write_bytes(b"[" + b"[]," * ((32 << 20) // 3 - 2) + b"[]]")


def _header_of(length: int) -> bytes:
    return struct.pack("<Q", length)


def _many_tensors(path: Path) -> None:
    tensor = b'{"data_offsets":[0,0],"dtype":"U8","shape":[0]}'
    body = b"{" + b",".join(b'"%d":%s' % (number, tensor) for number in range(300_000)) + b"}"
    path.write_bytes(struct.pack("<Q", len(body)) + body)


def _zip_bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/data.pkl", bytes(200 << 20))


def _many_entries(path: Path) -> None:
    entry = struct.pack("<4s6HIIIHHHHHII", b"PK\1\2", *[0] * 16)
    count = (60 << 20) // len(entry)
    size, end = count * len(entry), 4 + count * len(entry)
    with path.open("wb") as file:
        file.write(b"PK\3\4" + entry * count)
        file.write(struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, 4))
        file.write(struct.pack("<4sIQI", b"PK\6\7", 0, end, 1))
        file.write(struct.pack("<4s4HIIH", b"PK\5\6", 0, 0, *[0xFFFF] * 2, size, 0xFFFFFFFF, 0))


def _pickle_of_nothing(path: Path) -> None:
    """A pickle that takes as many steps as it is long, stored as torch.save stores it."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", b"\x80\x02" + b"]" * (60 << 20))


# Which file, and what takes its place.
FILES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "state of 5 GB": ("trainer_state.json", lambda p: _sparse(p, HUGE, b"{", b"}")),
    "state of zeros": ("trainer_state.json", lambda p: _sparse(p, HUGE)),
    "index of 5 GB": ("model.safetensors.index.json", lambda p: _sparse(p, HUGE, b"{", b"}")),
    "arguments of 5 GB": ("args.json", lambda p: _sparse(p, HUGE, b"{", b"}")),
    "32 MB of lists": ("args.json", _dense_json),
    "an endless nesting": ("args.json", lambda p: _write(p, b"[" * 1_000_000)),
    "header of 2**63": ("model.safetensors", lambda p: _write(p, _header_of(1 << 63))),
    "header of 2**64-1": ("model.safetensors", lambda p: _sparse(p, HUGE, _header_of(2**64 - 1))),
    "header of 100 MB": ("model.safetensors", lambda p: _sparse(p, HUGE, _header_of(10**8))),
    "300,000 tensors": ("model.safetensors", _many_tensors),
    "zip bomb": ("optimizer.pt", _zip_bomb),
    "a million entries": ("optimizer.pt", _many_entries),
    "zip of holes": ("optimizer.pt", lambda p: _sparse(p, HUGE, b"PK\3\4")),
    "old pickle of 5 GB": ("optimizer.pt", lambda p: _sparse(p, HUGE, b"\x80\x02")),
    "endless pickle": ("training_args.bin", _pickle_of_nothing),
    "endless part": ("global_step8/mp_rank_00_model_states.pt", _pickle_of_nothing),
    "tag of 5 GB": ("latest", lambda p: _sparse(p, HUGE, b"global_step8")),
}


# What no length or sum belongs to can only be accepted, and what is only long.
HARMLESS = {"32 MB of lists", "300,000 tensors", "old pickle of 5 GB", "endless pickle"}


@pytest.mark.parametrize("kind", FILES)
def test_one_hostile_file_is_judged_within_bounds(tmp_path: Path, kind: str) -> None:
    name, make = FILES[kind]
    path = save_with_deepspeed(tmp_path, 8)
    (path / name).unlink(missing_ok=True)
    make(path / name)
    says = look(path, deep=True)  # which does all that a quick look does

    assert says.startswith("complete") is (kind in HARMLESS), says


@pytest.mark.parametrize("kind", ["state of 5 GB", "zip bomb", "zip of holes", "header of 100 MB"])
def test_a_quick_look_sees_the_same(tmp_path: Path, kind: str) -> None:
    name, make = FILES[kind]
    path = save_with_deepspeed(tmp_path, 8)
    (path / name).unlink(missing_ok=True)
    make(path / name)

    assert not look(path).startswith("complete")


def test_a_metadata_of_5_gb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "step-9"
    path.mkdir()
    _sparse(path / ".metadata", HUGE, b"\x80\x04", b".")

    assert look(path).startswith("corrupt")


@pytest.mark.parametrize("name", ["model.safetensors", "latest", "trainer_state.json"])
@pytest.mark.parametrize("target", ["/dev/zero", "/proc/self/environ", "outside", "itself", "pipe"])
def test_links_out_devices_and_pipes_are_not_read(tmp_path: Path, name: str, target: str) -> None:
    path = save_with_deepspeed(tmp_path / "output", 8)
    (path / name).rename(tmp_path / "outside")
    if target == "pipe":
        os.mkfifo(path / name)
    else:
        places = {"outside": tmp_path / "outside", "itself": path / name}
        (path / name).symlink_to(places.get(target, Path(target)))
    says = look(path)

    assert not says.startswith("complete")
    assert f"{name}: " in says


def test_a_linked_folder_of_parts_is_not_followed(tmp_path: Path) -> None:
    path = save_with_deepspeed(tmp_path / "output", 8)
    (path / "global_step8").rename(tmp_path / "elsewhere")
    (path / "global_step8").symlink_to(tmp_path / "elsewhere")

    assert "global_step8: a link out of the checkpoint" in look(path)


def test_a_folder_that_holds_itself_ends(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    (path / "again").symlink_to(path)
    (path / "below").mkdir()
    (path / "below" / "up").symlink_to("../below")

    assert look(path).startswith("complete")


def test_folders_without_end_are_left_at_some_depth(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    deep = path
    for _ in range(200):
        deep /= "d"
    deep.mkdir(parents=True)

    assert "deeper than" in look(path)


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MAX_FILES", 1000)
    path = save(tmp_path, 8)
    for number in range(1001):
        (path / f"{number}.txt").touch()

    assert judge(path).state is State.CORRUPT
    assert ".: more than 1000 files" in judge(path).problems


def test_after_many_damaged_files_no_more_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path, 8)
    for number in range(1000):
        (path / f"{number}.safetensors").write_bytes(b"x" * 9)
    looked: list[Path] = []

    def refuse(path: Path, *, deep: bool) -> None:
        looked.append(path)
        raise DamagedError(f"deep: {deep}")

    monkeypatch.setattr(files, "_CHECKS", (((".safetensors",), refuse),))

    assert len(judge(path).problems) < 250
    assert len(looked) < 250


def test_too_many_checkpoints_are_not_all_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_MAX_ENTRIES", 100)
    for version in range(50):
        for step in range(10):
            (tmp_path / f"v{version}-x" / f"checkpoint-{step}").mkdir(parents=True)

    assert len(find_resume_point(tmp_path).passed_over) < 150


@pytest.mark.sweep
def test_a_million_files_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    for number in range(1_000_000):
        os.close(os.open(path / f"{number}", os.O_CREAT | os.O_WRONLY))
    says = look(path)
    shutil.rmtree(path)

    assert not says.startswith("complete")
    assert "more than 100000 files" in says


def test_json_does_not_say_numbers_that_take_forever(tmp_path: Path) -> None:
    path = save(tmp_path, 8)
    (path / "args.json").write_text(json.dumps({"global_world_size": 1}).replace("1", "9" * 10**6))

    assert look(path).startswith("corrupt")
