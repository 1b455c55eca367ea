"""What an observation lets us conclude: only what every witness says is over is over."""

from __future__ import annotations

import pytest

from slurmswift.domain.job import AccountedAttempt, AccountRow, ExitCode, JobState, QueueRow
from slurmswift.domain.observation import Look, NotFound, Observation, Seen, Unknown, observe
from slurmswift.domain.phase import (
    Blind,
    Ending,
    Live,
    Missing,
    Over,
    Restarted,
    phase_of,
)


def queued(state: JobState, restarts: int = 0) -> QueueRow:
    return QueueRow("7", state, restarts, "None", "n[1-2]", "run")


def accounted(
    state: JobState, *, end: str = "2026-01-01T00:00:00", by: int | None = None
) -> AccountedAttempt:
    row = AccountRow("7", "", state, by, ExitCode(1, 0), "s", "s", end, "n[1-2]", "run")
    return AccountedAttempt(row, ())


S = JobState


@pytest.mark.parametrize(
    ("observation", "kind"),
    [
        (Unknown("slurmctld is away"), Blind),
        (NotFound("7"), Missing),
        (Seen(queued(S.PENDING), None), Live),
        (Seen(queued(S.RUNNING), accounted(S.FAILED)), Live),
        (Seen(queued(S.SUSPENDED), None), Live),
        (Seen(queued(S.PENDING, restarts=1), accounted(S.NODE_FAIL)), Restarted),
        (Seen(queued(S.COMPLETING), accounted(S.FAILED)), Ending),
        (Seen(queued(S.UNRECOGNIZED), accounted(S.FAILED)), Ending),
        (Seen(queued(S.FAILED), None), Ending),
        (Seen(queued(S.FAILED), accounted(S.RUNNING)), Ending),
        (Seen(queued(S.FAILED), accounted(S.FAILED, end="Unknown")), Ending),
        (Seen(queued(S.FAILED), accounted(S.REQUEUED)), Ending),
        (Seen(queued(S.CANCELLED), accounted(S.RUNNING)), Ending),
        (Seen(None, accounted(S.RUNNING)), Ending),
        (Seen(queued(S.FAILED), accounted(S.FAILED)), Over),
        (Seen(queued(S.CANCELLED), accounted(S.REQUEUED)), Over),
        (Seen(queued(S.CANCELLED), accounted(S.FAILED)), Over),
        (Seen(queued(S.FAILED), accounted(S.OUT_OF_MEMORY)), Over),
        (Seen(queued(S.CANCELLED), accounted(S.CANCELLED, by=5)), Over),
        (Seen(None, accounted(S.NODE_FAIL)), Over),
    ],
)
def test_with_accounting(observation: Observation, kind: type) -> None:
    assert type(phase_of(observation, restart_count=0, has_accounting=True)) is kind


def test_without_accounting_slurmctld_alone_decides_and_never_names_a_canceller() -> None:
    over = phase_of(Seen(queued(S.CANCELLED), None), restart_count=0, has_accounting=False)

    assert isinstance(over, Over)
    assert not over.canceller_known


def test_a_cancel_carries_its_canceller() -> None:
    seen = Seen(queued(S.CANCELLED), accounted(S.CANCELLED, by=1000))

    over = phase_of(seen, restart_count=0, has_accounting=True)

    assert isinstance(over, Over)
    assert (over.cancelled_by, over.canceller_known, over.in_queue) == (1000, True, True)


def test_silence_of_accounting_is_not_absence() -> None:
    look = Look(queue=(), accounts=Unknown("slurmdbd is away"))

    assert observe(look, "7", "run") == Unknown("slurmdbd is away")


def test_a_job_in_the_queue_is_seen_while_accounting_is_silent() -> None:
    look = Look(queue=(queued(S.RUNNING),), accounts=Unknown("slurmdbd is away"))

    assert observe(look, "7", "run") == Seen(queued(S.RUNNING), None)


def test_a_job_known_to_nobody_is_not_found() -> None:
    assert observe(Look((), ()), "7", "run") == NotFound("7")
