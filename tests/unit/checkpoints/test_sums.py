"""Sums of sparse files, and what only --deep sees in a file."""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmswift.checkpoints.contents import Contents, DamagedError, opened
from slurmswift.checkpoints.safetensors_file import check_safetensors_file
from slurmswift.checkpoints.sums import crc_after_zeros, crc_of
from slurmswift.checkpoints.torch_file import check_torch_file


@settings(deadline=None)
@given(data=st.binary(max_size=50), zeros=st.integers(0, 300_000))
def test_zeros_are_summed_without_being_there(data: bytes, zeros: int) -> None:
    assert crc_after_zeros(zlib.crc32(data), zeros) == zlib.crc32(bytes(zeros), zlib.crc32(data))


def test_a_sparse_file_is_summed_as_if_it_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.write(os.urandom(5000))
        file.seek(9 << 20)
        file.write(os.urandom(5000))
        file.truncate(20 << 20)
    whole = path.read_bytes()
    read: list[int] = []
    original = Contents.read

    def counted(self: Contents, offset: int, length: int) -> bytes:
        read.append(length)
        return original(self, offset, length)

    monkeypatch.setattr(Contents, "read", counted)

    with opened(path) as sparse:
        assert crc_of(sparse, 100, len(whole) - 100) == zlib.crc32(whole[100:])
        assert crc_of(sparse, 4 << 20, 1 << 20) == zlib.crc32(bytes(1 << 20))
    assert sum(read) < 4 << 20


def test_terabytes_of_zeros_in_an_archive_are_summed_at_once(tmp_path: Path) -> None:
    path, size = tmp_path / "optimizer.pt", 1 << 40
    _sparse_archive(path, size, crc_after_zeros(0, size))

    check_torch_file(path)
    check_torch_file(path, deep=True)
    _sparse_archive(path, size, crc_after_zeros(0, size) ^ 1)
    with pytest.raises(DamagedError, match="never written"):
        check_torch_file(path)


def _sparse_archive(path: Path, size: int, crc: int) -> None:
    """As torch.save leaves a terabyte of zeros on a file system that stores none."""
    name = b"model/data/0"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", b"\x80\x02N.")
        start = archive.fp.tell()  # type: ignore[union-attr]
    data = path.read_bytes()[:start]
    (pickled,) = struct.unpack_from("<I", data, 14)
    with path.open("wb") as file:
        file.write(data)
        file.write(struct.pack("<4s5HIIIHH", b"PK\3\4", 45, 0, 0, 0, 0, crc, 0, 0, len(name), 0))
        file.write(name)
        end = file.tell() + size
        file.seek(end)
        entries = _entry(b"model/data.pkl", pickled, 4, 0) + _entry(name, crc, size, start)
        file.write(entries)
        file.write(
            struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, len(entries), end)
        )
        file.write(struct.pack("<4sIQI", b"PK\6\7", 0, end + len(entries), 1))
        file.write(struct.pack("<4s4HIIH", b"PK\5\6", 0, 0, 2, 2, len(entries), 0xFFFFFFFF, 0))


def _entry(name: bytes, crc: int, size: int, offset: int) -> bytes:
    extra = struct.pack("<HHQQQ", 1, 24, size, size, offset)
    sizes = (crc, 0xFFFFFFFF, 0xFFFFFFFF, len(name), len(extra), 0, 0, 0, 0, 0xFFFFFFFF)
    return struct.pack("<4s6HIIIHHHHHII", b"PK\1\2", 45, 45, 0, 0, 0, 0, *sizes) + name + extra


def _torch(path: Path, *, packing: int = zipfile.ZIP_STORED) -> bytes:
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("model/data.pkl", b"\x80\x02N.")
        archive.writestr("model/data/0", os.urandom(100) * 20)
    return path.read_bytes()


@pytest.mark.parametrize("at", ["model/data.pkl", "model/data/0"])
def test_one_changed_bit_of_a_file_of_torch_is_seen_by_deep(tmp_path: Path, at: str) -> None:
    path = tmp_path / "model.pt"
    data = bytearray(_torch(path))
    data[data.index(at.encode()) + len(at) + 1] ^= 1
    path.write_bytes(data)

    check_torch_file(path)
    with pytest.raises(DamagedError, match=f"its sum is wrong .{at}"):
        check_torch_file(path, deep=True)


def test_what_is_packed_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/data.pkl", bytes(100 << 20))

    with pytest.raises(DamagedError, match="is compressed"):
        check_torch_file(path, deep=True)


def test_entries_that_lie_over_each_other_are_not_summed_a_million_times(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    data = _torch(path)
    start = data.index(b"PK\1\2")
    first = data[start : data.index(b"PK\1\2", start + 4)]
    second = data[start + len(first) : data.index(b"PK\5\6")]
    many = first + second * 60_000
    end = struct.pack("<4s4HIIH", b"PK\5\6", 0, 0, 60_001, 60_001, len(many), start, 0)
    path.write_bytes(data[:start] + many + end)

    with pytest.raises(DamagedError, match="more bytes than the file has"):
        check_torch_file(path, deep=True)


def _safetensors(path: Path, tensors: dict[str, object], size: int) -> Path:
    header = json.dumps(tensors).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + os.urandom(size))
    return path


def _tensor(start: int, end: int, shape: object = (2, 2), dtype: object = "F32") -> object:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("tensors", "why"),
    [
        ({"a": _tensor(0, 16), "b": _tensor(16, 32)}, ""),
        ({"b": _tensor(16, 32), "a": _tensor(0, 16)}, ""),
        ({"a": _tensor(0, 16), "c": _tensor(16, 16, (0, 5)), "b": _tensor(16, 32)}, ""),
        ({"a": _tensor(0, 32, (64,), "F4")}, ""),
        ({"a": _tensor(0, 32, (), "F128")}, ""),  # of a later release
        ({"__metadata__": {"format": "pt"}, "a": _tensor(0, 32, (32,), "U8")}, ""),
        ({"a": _tensor(0, 16), "b": _tensor(12, 32, (5,))}, "'b' begins at 12, not at 16"),
        ({"a": _tensor(0, 12, (3,)), "b": _tensor(16, 32)}, "'b' begins at 16, not at 12"),
        ({"a": _tensor(8, 32, (6,))}, "'a' begins at 8, not at 0"),
        ({"a": _tensor(0, 32)}, "'a' is not as long as"),
        ({"a": _tensor(0, 32, (-2, -4))}, "'a' is not as long as"),
        ({"a": _tensor(0, 32, (2**62, 2**62))}, "'a' is not as long as"),
        ({"a": _tensor(0, 32, "8")}, "'a' is not as long as"),
        ({"a": _tensor(0, 32, [2**62] * 10_000)}, "'a' is not as long as"),
    ],
)
def test_deep_asks_where_each_tensor_lies(
    tmp_path: Path, tensors: dict[str, object], why: str
) -> None:
    path = _safetensors(tmp_path / "model.safetensors", tensors, 32)

    check_safetensors_file(path)
    if not why:
        check_safetensors_file(path, deep=True)
        return
    with pytest.raises(DamagedError, match=why):
        check_safetensors_file(path, deep=True)
