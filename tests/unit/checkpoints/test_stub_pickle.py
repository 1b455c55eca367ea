"""Reading pickles without running them: every protocol, and every way to make a reader suffer."""

from __future__ import annotations

import collections
import contextlib
import os
import pickle
import pickletools
import resource
import struct
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmswift.checkpoints.contents import DamagedError
from slurmswift.checkpoints.stub_pickle import OPCODES, Stub, item_of, load, pairs_of

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)
    | st.text() | st.binary(),
    lambda inner: st.lists(inner)
    | st.tuples(inner, inner)
    | st.dictionaries(st.text() | st.integers(-1000, 1000), inner),
    max_leaves=20,
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    name: str
    offset: int


class Slotted:
    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 7


class Runs:
    """Would write a file, were it unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


@settings(deadline=None)
@given(value=plain, protocol=st.sampled_from([2, 3, 4, 5]))
def test_plain_values_come_back_as_they_were(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    # In protocol 2 bytes are made by a call: those come back as a Stub.
    hypothesis.assume(b"R" not in [code.code.encode() for code, _, _ in pickletools.genops(data)])

    assert load(data) == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_is_read(protocol: int) -> None:
    value = {"dp_world_size": 4, "a": [True, False, None, 1.5, -3, (1, 2), (1, 2, 3, 4)], "b": {}}

    assert load(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_objects_become_stubs_with_their_state(protocol: int) -> None:
    stub = load(pickle.dumps(Place("model", 42), protocol))

    assert isinstance(stub, Stub)
    assert (stub.get("name"), stub.get("offset"), stub.get("other")) == ("model", 42, None)


def test_slots_are_state_too() -> None:
    stub = load(pickle.dumps(Slotted()))

    assert isinstance(stub, Stub)
    assert stub.get("size") == 7


def test_mappings_of_other_kinds_are_read_as_pairs() -> None:
    value = load(pickle.dumps(collections.OrderedDict(a=1, b=2)))

    assert isinstance(value, Stub)
    assert list(pairs_of(value)) == [("a", 1), ("b", 2)]
    assert (item_of(value, "b"), item_of(value, "c"), item_of({"b": 3}, "b")) == (2, None, 3)


def test_objects_that_are_keys_keep_their_values() -> None:
    value = load(pickle.dumps({Place("a", 1): "x", (1, (2, 3)): "y"}))

    assert isinstance(value, dict)
    assert sorted(value.values()) == ["x", "y"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_that_it_names_runs(protocol: int, tmp_path: Path) -> None:
    bomb = pickle.dumps({"a": Runs(tmp_path / "ran")}, protocol)
    value = load(bomb)

    assert isinstance(value, dict)
    assert isinstance(value["a"], Stub)
    assert value["a"].name in {"posix.mkdir", "nt.mkdir"}
    assert not (tmp_path / "ran").exists()
    pickle.loads(bomb)  # noqa: S301 - the bomb is real
    assert (tmp_path / "ran").exists()


def test_every_opcode_but_those_that_need_more_than_the_file_is_known() -> None:
    known = {ord(code.code) for code in pickletools.opcodes}
    left_out = {"STOP", "NEXT_BUFFER", "READONLY_BUFFER", "EXT1", "EXT2", "EXT4"}

    assert known - set(OPCODES) == {
        ord(code.code) for code in pickletools.opcodes if code.name in left_out
    }


WHOLE = pickle.dumps({"a": [1, "two", 3.0], "b": Place("c", 4)})


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_cut_anywhere_is_damage(length: int) -> None:
    with pytest.raises(DamagedError):
        load(WHOLE[:length])


@settings(deadline=None, max_examples=300)
@given(data=st.binary(max_size=200))
def test_noise_is_damage_or_a_value_and_nothing_else(data: bytes) -> None:
    with contextlib.suppress(DamagedError):
        load(data)


def nested_tuples(depth: int) -> bytes:
    return b"\x80\x04)" + b"2\x86" * depth


HOSTILE = {
    "bytes of 2**62": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"x.",
    "text of 2**63": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 63) + b"x.",
    "negative length": b"\x80\x02T" + struct.pack("<i", -5) + b".",
    "long of 2**31": b"\x80\x02\x8b" + struct.pack("<i", (1 << 31) - 1) + b"x.",
    "a number of a million digits": b"I" + b"9" * 1_000_000 + b"\n.",
    "an endless loop of opcodes": b"\x80\x04" + b"N0" * 3_000_000,
    "ten million empty dicts": b"\x80\x04" + b"}" * 10_000_000,
    "calls something that is no global": b"\x80\x04K\x01)R.",
    "no stop": b"\x80\x04N",
    "an extension": b"\x80\x04\x82\x01.",
    "a buffer from elsewhere": b"\x80\x05\x97.",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_pickles_are_damage_within_bounds(data: bytes) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedError):
        load(data)

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # 1 GiB, in KiB


def test_a_memo_index_of_two_billion_takes_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    assert load(b"\x80\x04N" + b"r" + struct.pack("<I", (1 << 32) - 1) + b".") is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 17


def test_a_key_whose_hash_takes_forever_is_not_hashed() -> None:
    # {((((),()),((),())),...): None}: the hash of a tuple of 60 levels takes 2**60 steps.
    value = load(b"\x80\x04}" + nested_tuples(60)[2:] + b"Ns.")

    assert isinstance(value, dict)
    assert list(value.values()) == [None]


def test_nesting_without_end_neither_recurses_nor_overflows() -> None:
    assert load(nested_tuples(100_000) + b".") is not None
    assert isinstance(load(b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b"."), list)
