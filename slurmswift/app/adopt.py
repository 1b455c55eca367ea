"""Takes a run directory back into the index: moved, restored, or its index lost."""

from __future__ import annotations

from pathlib import Path

from slurmswift.app.tools import Tools
from slurmswift.errors import StateError
from slurmswift.files.run_directory import RunDirectory
from slurmswift.files.state_folder import IndexEntry


def adopt(folder: Path, tools: Tools) -> IndexEntry:
    """Return the new index entry. StateError where the folder is not a whole run's directory."""
    path = folder.absolute()
    run = RunDirectory(path)
    state, plan = run.read_state(), run.read_plan()
    if Path(plan.run_dir) != path:
        raise StateError(
            f"{path}: this run was made for {plan.run_dir}, and its script says so: move it back"
            " there, then adopt it"
        )
    entry = IndexEntry(state.run_id, path, state.cluster)
    tools.state.add(entry)
    return entry
