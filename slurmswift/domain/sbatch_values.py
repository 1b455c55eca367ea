"""How the values of sbatch's options are read, so that a slip is met before the queue."""

from __future__ import annotations

import re
from typing import Callable, Dict, List, Optional, Tuple

from slurmswift.domain.placeholders import check_placeholders
from slurmswift.domain.sbatch_options import (
    Kind,
    SbatchOption,
    find_option,
    suggest_option,
)
from slurmswift.domain.schema import (
    Entry,
    Listing,
    Problems,
    Scalar,
    Table,
    UnreadableError,
    read_scalar,
)
from slurmswift.domain.schema_values import a_path, one_line, truth, whole_number
from slurmswift.domain.slurm_time import likely_mistake, parse_slurm_time

SbatchPairs = Tuple[Tuple[str, Optional[str]], ...]  # option, and its value; None for a flag
OFF = ""  # the value of an option that is switched off: a recipe may undo its profile's

_MEMORY = re.compile(r"[0-9]+[KMGT]?B?", re.IGNORECASE)
_MEMORY_MEANT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGTP])i?B?", re.IGNORECASE)
_NODES = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_GPUS = re.compile(r"(?:[A-Za-z0-9_.-]+:)?[0-9]{1,4}")
_SHELLS = re.compile(r"\$(\{|\(|[A-Za-z_])")
_MANY = 10**9


def _text(text: str) -> str:
    one_line(text)
    if text == "":
        raise UnreadableError("is empty", "write a value, or remove the line")
    if _SHELLS.search(text):
        raise UnreadableError(
            f"'{text}': sbatch replaces no variables", "write the value itself, not the variable"
        )
    return check_placeholders(text)


def _time(text: str) -> str:
    parse_slurm_time(text)
    return text


def _memory(text: str) -> str:
    if _MEMORY.fullmatch(text):
        return text
    meant = _MEMORY_MEANT.fullmatch(text)
    if meant is None:
        raise UnreadableError(f"'{text}' is not an amount of memory", "write it like 64G or 512M")
    number, unit = float(meant.group(1)), meant.group(2).upper()
    while not number.is_integer() or unit == "P":
        number, unit = number * 1024, {"P": "T", "T": "G", "G": "M", "M": "K"}.get(unit, "")
        if not unit:
            number = 0.0
    fix = f"write {int(number)}{unit}" if number else "write it like 64G or 512M"
    raise UnreadableError(f"'{text}' is not an amount of memory for Slurm", fix)


def _nodes(text: str) -> str:
    match = _NODES.fullmatch(text)
    if match is None:
        raise UnreadableError(f"'{text}' is not a number of nodes", "write it like 4, or 2-4")
    low, high = int(match.group(1)), int(match.group(2) or match.group(1))
    if low < 1:
        raise UnreadableError("a training needs a node at least", "write 1 or more")
    if high < low:
        raise UnreadableError(f"'{text}': the smaller number comes first", f"write {high}-{low}")
    return text


def _gpus(text: str) -> str:
    if all(_GPUS.fullmatch(part) and not part.startswith("gpu:") for part in text.split(",")):
        return text
    bare = text[4:] if text.startswith("gpu:") else ""
    fix = f"write {bare}" if bare and _GPUS.fullmatch(bare) else "write it like 8, or a100:8"
    raise UnreadableError(f"'{text}' is not a number of GPUs", fix)


def _node_names(text: str) -> str:
    _text(text)
    if "/" in text:
        raise UnreadableError(
            f"'{text}': slurmswift adds nodes of its own, so a file cannot stand here",
            "write the nodes' names: node[01-04],node07",
        )
    return text


def _count(text: str) -> str:
    return str(whole_number(1, _MANY)(text))


_READ: Dict[Kind, Callable[[str], str]] = {
    Kind.FLAG: _text,
    Kind.TEXT: _text,
    Kind.OPTIONAL: _text,
    Kind.WORDS: _text,
    Kind.COUNT: _count,
    Kind.TIME: _time,
    Kind.MEMORY: _memory,
    Kind.NODES: _nodes,
    Kind.GPUS: _gpus,
    Kind.NODE_NAMES: _node_names,
    Kind.PATH: a_path,
}
_MAY_BE_LISTS = frozenset({Kind.WORDS, Kind.NODE_NAMES})


def read_sbatch(table: Table, problems: Problems, *, path: str = "sbatch") -> SbatchPairs:
    """Return the options that a table asks for, noting what cannot be."""
    pairs: List[Tuple[str, Optional[str]]] = []
    for entry in table.entries:
        key = f"{path}.{entry.key}"
        option = find_option(entry.key)
        if option is None:
            problems.add(entry.place, key, "no such option of sbatch", suggest_option(entry.key))
        elif option.refused:
            problems.add(entry.place, key, option.refused, option.instead)
        else:
            pairs += _read_option(option, entry, problems, key=key)
    return tuple(pairs)


def _read_option(
    option: SbatchOption, entry: Entry, problems: Problems, *, key: str
) -> SbatchPairs:
    """Return the option with its value, or nothing where it is wrong."""
    node = entry.value
    if option.kind in (Kind.FLAG, Kind.OPTIONAL) and isinstance(node, Scalar):
        switch = _switch(option, node, problems, key=key)
        if switch is not None:
            return ((option.name, None if switch else OFF),)
        if option.kind is Kind.FLAG:
            return ()
    if isinstance(node, Listing) and option.kind in _MAY_BE_LISTS:
        words = [read_scalar(item, _READ[option.kind], problems, key=key) for item in node.items]
        joined = ",".join(word for word in words if word is not None)
        return ((option.name, joined),) if joined else ()
    value = read_scalar(node, _READ[option.kind], problems, key=key)
    if value is None:
        return ()
    if option.kind is Kind.TIME and likely_mistake(value):
        problems.warn(entry.value.place, key, likely_mistake(value))
    return ((option.name, value),)


def _switch(option: SbatchOption, node: Scalar, problems: Problems, *, key: str) -> Optional[bool]:
    """Return whether a bare option is asked for; None where the text is a value, or wrong."""
    if node.is_null:
        return True
    try:
        return truth(node.text)
    except UnreadableError as error:
        if option.kind is Kind.FLAG:
            problems.add(node.place, key, f"takes no value: {error.message}", error.fix)
        return None


def fewest_nodes(nodes: str) -> int:
    """Return how many nodes a run needs at least: ``2-4`` is 2."""
    return int(nodes.partition("-")[0])


def gpus_of_node(pairs: SbatchPairs) -> Optional[int]:
    """Return the GPUs of each node, where the request says it; None where it does not."""
    given = dict(pairs)
    if given.get("gpus-per-node"):
        return sum(int(part.rpartition(":")[2]) for part in str(given["gpus-per-node"]).split(","))
    counts = [
        int(part.rpartition(":")[2]) if part.rpartition(":")[2].isdigit() else 1
        for part in str(given.get("gres") or "").split(",")
        if part == "gpu" or part.startswith("gpu:")
    ]
    return sum(counts) if counts else None
