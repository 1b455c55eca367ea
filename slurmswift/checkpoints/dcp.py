"""Folders of torch.distributed.checkpoint: ``.metadata`` says which bytes of which file are there.

It is written last, beside itself, and renamed: a save that was cut short has none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, FrozenSet, Iterator, List, Optional, Set, Tuple

from slurmswift.checkpoints import stub_pickle
from slurmswift.checkpoints.checkpoint import Problem, State
from slurmswift.checkpoints.contents import Contents, DamagedError, opened
from slurmswift.checkpoints.files import Files, damaged, missing
from slurmswift.checkpoints.format import Expected, Findings, Format, named
from slurmswift.checkpoints.stub_pickle import Stub, pairs_of
from slurmswift.checkpoints.torch_items import Item, check_items, check_outer_ends

METADATA = ".metadata"
DATA = r"__\d+_\d+\.distcp"
# Names that trainers give to a step's folder, torchtitan's step-1000 among them.
STEP_FOLDER = r"(?:checkpoint|ckpt|step|iter|iteration|global_?step)[-_=]?(\d{1,18})"
CHECKPOINTS_FOLDER = ("checkpoints?",)  # torchtitan's, Accelerate's, Lightning's: one level below

# About 160 bytes an item, and 3 an opcode: read in a second or two.
_MAX_QUICK_BYTES = 4 << 20
_MAX_BYTES = 1 << 30
_MAX_DEEP_OPCODES = 200_000_000
_NAME = re.compile(rb"__\d{1,9}_\d{1,9}\.distcp")
_FIRST, _LAST = b"\x80", b"."  # bytes of a pickle
_SOMETHING = Item(0, 0, archive=False)
_TRANSFORMS = b"transform_descriptors"


@dataclass(frozen=True)
class Metadata:
    """What ``.metadata`` lists."""

    items: Dict[str, List[Item]]  # by the file that they are in; none where they are too many
    entries: FrozenSet[str]  # the state's names, such as model.0.weight; empty where too many


def folder_problems(
    files: Files, folder: str = "", *, deep: bool = False
) -> Tuple[Optional[Metadata], Tuple[Problem, ...]]:
    """Judge the part of a checkpoint that one ``.metadata`` describes."""
    inside = files.below(folder) if folder else files
    prefix = f"{folder}/" if folder else ""
    if METADATA not in inside.names:
        return None, (missing(f"{prefix}{METADATA}", "missing: the save did not finish"),)
    try:
        metadata = read_metadata(inside.path / METADATA, deep=deep)
    except DamagedError as error:
        return None, (damaged(f"{prefix}{METADATA}", str(error)),)
    found = (
        Problem(f"{prefix}{problem.file}", problem.message, problem.state)
        for problem in _data_problems(inside, metadata, deep=deep)
    )
    return metadata, tuple(found)


def read_metadata(path: Path, *, deep: bool = False) -> Metadata:
    """Return what the pickle lists; of one that is very large, unless ``deep``, only the files."""
    with opened(path) as file:
        if file.size == 0:
            raise DamagedError("empty")
        if file.size > _MAX_BYTES:
            raise DamagedError(f"larger than {_MAX_BYTES} bytes")
        if file.size > _MAX_QUICK_BYTES and not deep:
            return _names_in(file)
        data = file.read(0, file.size)
    body = stub_pickle.load(data, most_opcodes=_MAX_DEEP_OPCODES if deep else _MAX_QUICK_BYTES)
    if not isinstance(body, Stub) or not data.endswith(_LAST):
        raise DamagedError("damaged: not the metadata of torch.distributed.checkpoint")
    items: Dict[str, List[Item]] = {}
    for _, place in pairs_of(body.get("storage_data")):
        name, item = _item(place)
        items.setdefault(name, []).append(item)
    if not items:
        raise DamagedError("damaged: it lists no data")
    entries = pairs_of(body.get("state_dict_metadata"))
    return Metadata(items, frozenset(name for name, _ in entries if isinstance(name, str)))


def _item(place: object) -> Tuple[str, Item]:
    if not isinstance(place, Stub):
        raise DamagedError("damaged: an item without a place")
    name, offset, length = (place.get(key) for key in ("relative_path", "offset", "length"))
    if not isinstance(name, str) or not isinstance(offset, int) or not isinstance(length, int):
        raise DamagedError("damaged: an item without a place")
    if offset < 0 or length < 0:
        raise DamagedError("damaged: an item at no place")
    # An extension, such as compression, changes the bytes.
    return name, Item(offset, length, archive=not place.get("transform_descriptors"))


def _names_in(file: Contents) -> Metadata:
    """Find the files' names without reading the pickle: each is written out at least once."""
    if file.read(0, 1) != _FIRST or file.read(file.size - 1, 1) != _LAST:
        raise DamagedError("damaged: not a whole pickle")
    names: Set[str] = set()
    packed = False
    step, overlap = 1 << 20, 64
    for offset in range(0, file.size, step):
        part = file.read(offset, min(step + overlap, file.size - offset))
        names.update(name.decode() for name in _NAME.findall(part))
        packed = packed or _TRANSFORMS in part
    if not names:
        raise DamagedError("damaged: it lists no data")
    # Packed data begins and ends as its packer likes.
    some = [_SOMETHING] if packed else []
    return Metadata(dict.fromkeys(names, some), frozenset())


def _data_problems(files: Files, metadata: Metadata, *, deep: bool) -> Iterator[Problem]:
    for name in sorted(metadata.items):
        if name not in files.names:
            yield missing(name[:200], f"missing; {METADATA} lists it")
            continue
        try:
            _check_data(files.path / name, metadata.items[name], deep=deep)
        except DamagedError as error:
            yield Problem(name, str(error), State.CORRUPT)


def _check_data(path: Path, items: List[Item], *, deep: bool) -> None:
    with opened(path) as file:
        if not items:
            check_outer_ends(file)
            return
        if items == [_SOMETHING]:
            if file.size == 0:
                raise DamagedError("empty")
            return
        size = max(item.offset + item.length for item in items)
        if file.size != size:
            raise DamagedError(f"{file.size} bytes; {METADATA} says {size}")
        check_items(file, items, deep=deep)


def has_optimizer(metadata: Metadata) -> bool:
    """Whether a state of the optimizer is listed; True where it cannot be told."""
    return not metadata.entries or any("optim" in name.lower() for name in metadata.entries)


def _judge(files: Files, _step: int, expected: Expected) -> Findings:
    metadata, problems = folder_problems(files, deep=expected.deep)
    if metadata is not None and not expected.weights_only and not has_optimizer(metadata):
        problems += (missing("optimizer", f"{METADATA} lists no state of an optimizer"),)
    return Findings(problems=problems, unfinished=METADATA not in files.names, last=METADATA)


def _recognise(files: Files) -> bool:
    return METADATA in files.names or any(re.fullmatch(DATA, name) for name in files.names)


_IN_LARGE_ONES = (
    f"where `.metadata` is above {_MAX_QUICK_BYTES >> 20} MB: a `.distcp` that lacks whole items,"
    " and blocks that were never written"
)

FORMAT = Format(
    name="dcp",
    title="torch.distributed.checkpoint",
    find=named(STEP_FOLDER),
    recognise=_recognise,
    judge=_judge,
    below=(CHECKPOINTS_FOLDER,),
    layout="`step-N/` (or `checkpoint-N`, `ckpt_N`, `iter_N`, `global_stepN`) with `.metadata` and"
    " `__R_K.distcp`",
    last="`.metadata`, which is renamed to its name",
    in_progress="no `.metadata`",
    only_deep=(
        "changed bytes in the middle of a `.distcp`",
        _IN_LARGE_ONES,
    ),
)
