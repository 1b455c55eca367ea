"""Slurm's words for states: who printed one decides what it means."""

from __future__ import annotations

import pytest

from slurmswift.domain.job import (
    AccountRow,
    ExitCode,
    JobState,
    Printer,
    last_attempt,
    parse_canceller,
    parse_state,
)


@pytest.mark.parametrize(
    ("text", "printer", "state"),
    [
        ("COMPLETED", Printer.SACCT, JobState.COMPLETED),
        ("CANCELLED by 0", Printer.SACCT, JobState.CANCELLED),
        ("CANCELLED", Printer.SQUEUE, JobState.CANCELLED),
        ("REQUEUED", Printer.SACCT, JobState.REQUEUED),
        ("REQUEUED", Printer.SQUEUE, JobState.PENDING),
        ("REQUEUE_HOLD", Printer.SQUEUE, JobState.PENDING),
        ("CONFIGURING", Printer.SQUEUE, JobState.RUNNING),
        ("COMPLETING", Printer.SQUEUE, JobState.COMPLETING),
        ("SOME_FUTURE_STATE", Printer.SACCT, JobState.UNRECOGNIZED),
        ("CANCELLED+", Printer.SACCT, JobState.UNRECOGNIZED),
        ("", Printer.SQUEUE, JobState.UNRECOGNIZED),
    ],
)
def test_a_state_column(text: str, printer: Printer, state: JobState) -> None:
    assert parse_state(text, printer) is state


@pytest.mark.parametrize(
    ("text", "uid"),
    [("CANCELLED by 1000", 1000), ("CANCELLED", None), ("FAILED", None), ("CANCELLED by x", None)],
)
def test_who_cancelled(text: str, uid: int | None) -> None:
    assert parse_canceller(text) == uid


def row(job_id: str, step: str, state: JobState) -> AccountRow:
    return AccountRow(job_id, step, state, None, ExitCode(0, 0), "s", "s", "e", "n1", "name")


def test_the_last_attempt_is_the_last_row_of_the_job_and_its_own_steps() -> None:
    rows = (
        row("7", "", JobState.NODE_FAIL),
        row("7", "batch", JobState.CANCELLED),
        row("8", "", JobState.RUNNING),
        row("7", "", JobState.FAILED),
        row("7", "0", JobState.OUT_OF_MEMORY),
    )

    found = last_attempt(rows, "7", "name")

    assert found is not None
    assert found.job.state is JobState.FAILED
    assert [step.step for step in found.steps] == ["0"]
    assert found.out_of_memory
    assert last_attempt(rows, "9", "name") is None
    assert last_attempt(rows, "7", "anothers") is None
