"""Environment variables of a recipe: which names belong to somebody else, and what looks secret."""

from __future__ import annotations

import re
from typing import Optional, Sequence, Tuple

from slurmswift.domain.placeholders import check_placeholders
from slurmswift.domain.schema import NOT_YET, Entry, Problems, Table, UnreadableError, read_scalar
from slurmswift.domain.schema_values import variable_name

Variables = Tuple[Tuple[str, str], ...]

_SLURMS = "Slurm sets it in every job"
_RENDEZVOUS = "slurmswift sets it in every attempt: the nodes may be others each time"
_SHELLS = "it changes what the script's own shell does"
# First match decides. Names end in * where they stand for all that start so.
_OWNED: Sequence[Tuple[str, str]] = (
    ("SLURM_*", _SLURMS),
    ("SLURMD_*", _SLURMS),
    ("SBATCH_*", "sbatch's options are written under sbatch"),
    ("SLURMSWIFT_*", "slurmswift sets it in every attempt"),
    *((name, _RENDEZVOUS) for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "NNODES")),
    *((name, _RENDEZVOUS) for name in ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE")),
    *((name, _RENDEZVOUS) for name in ("LOCAL_WORLD_SIZE", "ATTEMPT_DIR", "RESUME_FROM")),
    *(
        (name, _SHELLS)
        for name in ("BASH_ENV", "ENV", "IFS", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT")
    ),
    *((name, _SHELLS) for name in ("UID", "EUID", "PPID", "GLOBIGNORE", "CDPATH")),
    ("BASH_*", _SHELLS),
    ("SW_*", "the job's script keeps its own under such names"),
    *((name, "framework command sets it") for name in ("OUTPUT_DIR", "CHECKPOINT_DIR")),
    ("NPROC_PER_NODE", "it is launch.processes_per_node"),
)
_SECRET = re.compile(r"TOKEN|SECRET|PASSW(OR)?D|CREDENTIAL|API_?KEY|(^|_)KEY$", re.IGNORECASE)
_SECRET_LENGTH = 8  # shorter ones are switches and counts: TOKENIZERS_PARALLELISM=false
_NO_SECRETS = re.compile(r"TOKENIZERS?_|_PATH$|_FILE$|_DIR$|MAX_TOKENS", re.IGNORECASE)
_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:(?!//).+")
_UNREPLACED = re.compile(r"\$\{?[A-Za-z_][A-Za-z0-9_]*")


def read_variables(table: Table, problems: Problems) -> Variables:
    """Return names and values, noting what cannot be set and warning of what looks wrong."""
    path = "environment.variables"
    read = (
        (entry.key, _value(entry, problems, key=f"{path}.{entry.key}")) for entry in table.entries
    )
    return tuple((name, value) for name, value in read if value is not None)


def _value(entry: Entry, problems: Problems, *, key: str) -> Optional[str]:
    try:
        variable_name(entry.key)
    except UnreadableError as error:
        problems.add(entry.place, key, error.message, error.fix)
        return None
    owner = _owner(entry.key)
    if owner:
        problems.add(entry.place, key, owner, "remove it")
        return None
    value = read_scalar(entry.value, check_placeholders, problems, key=key)
    if value is None:
        return None
    if _REFERENCE.fullmatch(value):
        kind = value.partition(":")[0]
        problems.add(
            entry.value.place,
            key,
            f"'{kind}:' is {NOT_YET}",
            "export the variable before you submit; the run keeps the environment of that moment",
        )
        return None
    _warn(entry, value, problems, key=key)
    return value


def _owner(name: str) -> str:
    for owned, why in _OWNED:
        if name == owned or (owned.endswith("*") and name.startswith(owned[:-1])):
            return why
    return ""


def _warn(entry: Entry, value: str, problems: Problems, *, key: str) -> None:
    place = entry.value.place
    variable = _UNREPLACED.search(value)
    named_secret = _SECRET.search(entry.key) and not _NO_SECRETS.search(entry.key)
    if named_secret and len(value) >= _SECRET_LENGTH and variable is None:
        problems.warn(
            place,
            key,
            "looks like a secret, and the run's script would hold it",
            "remove it here and export it before you submit",
        )
    if variable is not None:
        problems.warn(
            place,
            key,
            f"{variable.group().replace('{', '')} stays as it is: no variable is replaced here",
            "write the value itself, or an export line in environment.setup",
        )
