"""Finds runs: by id, by a unique beginning of one, or by name."""

from __future__ import annotations

from collections.abc import Sequence

from slurmswift.domain.run import RunState
from slurmswift.errors import StateError
from slurmswift.files.run_directory import RunDirectory
from slurmswift.files.state_folder import IndexEntry, StateFolder


def find_run(folder: StateFolder, wanted: str) -> IndexEntry:
    """Return the one run that ``wanted`` means; a name means its newest run."""
    entries = folder.entries()
    exact = [entry for entry in entries if entry.run_id == wanted]
    if exact:
        return exact[0]
    named = [entry for entry in entries if entry.run_id.rsplit("-", 2)[0] == wanted]
    if named:
        return max(named, key=_submitted_at)
    begins = [entry for entry in entries if entry.run_id.startswith(wanted)]
    if len(begins) == 1:
        return begins[0]
    if begins:
        raise StateError(f"{wanted!r} is the beginning of several runs: {_listed(begins)}")
    known = f"; your runs: {_listed(entries[-8:])}" if entries else "; you have no runs yet"
    raise StateError(f"no run {wanted!r} in {folder.path}{known}")


def others_of_that_name(folder: StateFolder, wanted: str, entry: IndexEntry) -> int:
    """How many other runs the name would have meant, to say so."""
    if wanted == entry.run_id:
        return 0
    return sum(
        other.run_id.rsplit("-", 2)[0] == wanted and other.run_id != entry.run_id
        for other in folder.entries()
    )


def _submitted_at(entry: IndexEntry) -> float:
    try:
        return read_state(entry).submitted_at
    except StateError:
        return 0.0


def read_state(entry: IndexEntry) -> RunState:
    return RunDirectory(entry.run_dir).read_state()


def _listed(entries: Sequence[IndexEntry]) -> str:
    return ", ".join(entry.run_id for entry in entries)
