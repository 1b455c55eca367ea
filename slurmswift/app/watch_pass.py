"""One turn of the watcher over all of a user's runs on this cluster."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

from slurmswift.app.tools import Tools
from slurmswift.app.turn import Turn
from slurmswift.domain.lifecycle import AT_REST, RunStatus
from slurmswift.domain.run import RunState
from slurmswift.errors import SlurmswiftError
from slurmswift.files.run_directory import RunDirectory
from slurmswift.files.state_folder import IndexEntry

# sacct is asked from the oldest open submission, less what clocks and time zones may differ.
MARGIN_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class PassReport:
    """What a pass saw and did, a line each."""

    lines: tuple[str, ...]
    troubles: tuple[str, ...]
    open_runs: tuple[IndexEntry, ...]  # what the next pass will look at


def run_pass(tools: Tools, may_act: Callable[[], bool]) -> PassReport:
    """Look once at Slurm, then give each open run its turn.

    ``may_act`` is asked before each run's turn: a watcher that lost its lease stops there.
    SlurmUnavailableError where slurmctld does not say which cluster it is: nothing is touched.
    """
    troubles: list[str] = []
    opened = _open_runs(tools, troubles)
    if not opened:
        return PassReport((), tuple(troubles), ())
    cluster = tools.slurm.cluster_name()
    mine = [(entry, state) for entry, state in opened if entry.cluster == cluster]
    if not mine:
        return PassReport((), tuple(troubles), ())
    since = min(state.submitted_at for _, state in mine) - MARGIN_SECONDS
    turn = Turn(tools, tools.slurm.look(since=since), may_act)
    lines: list[str] = []
    for entry, _ in mine:
        if not may_act():
            troubles.append("another watcher took over; this one stops")
            break
        try:
            line = turn.take(RunDirectory(entry.run_dir))
        except (SlurmswiftError, OSError) as error:
            troubles.append(f"{entry.run_id}: {error}")
        except Exception as error:  # noqa: BLE001 - one run's trouble must not stop the others
            where = traceback.extract_tb(error.__traceback__)[-1]
            troubles.append(
                f"{entry.run_id}: a bug, and the run is left as it is: {type(error).__name__}:"
                f" {error} ({where.filename}:{where.lineno})"
            )
        else:
            lines += [line] if line else []
    return PassReport(tuple(lines), tuple(troubles), tuple(entry for entry, _ in mine))


def _open_runs(tools: Tools, troubles: list[str]) -> list[tuple[IndexEntry, RunState]]:
    found = []
    for entry in tools.state.entries(troubles):
        run = RunDirectory(entry.run_dir)
        try:
            state = run.read_state()
        except (SlurmswiftError, OSError, ValueError, OverflowError) as error:
            troubles.append(f"{entry.run_id}: {error}")
            continue
        held_but_stopped = state.status is RunStatus.HELD and run.stop_requested()
        if state.status not in AT_REST or held_but_stopped:
            found.append((entry, state))
    return found
