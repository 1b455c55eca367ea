"""Slurm's answers go wrong: one attempt trains all the same, and silence changes nothing (I1, I6).

The job of a submission in doubt is told by its epoch, which stands in its command.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurmswift.app.submit import Request, submit
from slurmswift.domain.lifecycle import RunStatus
from slurmswift.errors import SlurmUnavailableError
from slurmswift.slurm.client import Slurm
from slurmswift.slurm.runner import CommandResult
from tests.support.crash_site import PEER_LOST, USERS_FAULT, Site
from tests.support.crash_stories import PATIENCE, trains_once
from tests.support.fake_slurm.world import MIN_JOB_AGE, START, Row, World

# START is 15:06:40 UTC.
BEFORE_MIDNIGHT = START + (24 * 3600 - 15 * 3600 - 6 * 60 - 40) - 60


@pytest.fixture(autouse=True)
def _no_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def _faults(site: Site, *faults: tuple[str, str]) -> None:
    with site.world.open() as world:
        world.faults += [list(fault) for fault in faults]


def _heal(site: Site) -> None:
    with site.world.open() as world:
        world.faults.clear()


def _submit_in_doubt(site: Site, fault: str) -> None:
    _faults(site, ("sbatch", fault))
    assert site.command("submit", str(site.recipe)).status == 5


def _assert_fine(site: Site) -> None:
    trains_once(site)
    site.assert_whole()
    site.assert_no_epoch_twice()
    assert not site.overlaps


@pytest.mark.parametrize("at", [START, BEFORE_MIDNIGHT])
@pytest.mark.parametrize("patience", [PATIENCE, PATIENCE + MIN_JOB_AGE])
@pytest.mark.parametrize("fault", ["in", "strange", "lost", "away", "late:100"])
def test_sbatch_reports_an_error(site: Site, fault: str, at: float, patience: float) -> None:
    """A time-out although the job is in or will be, a time-out that was true: one job."""
    with site.world.open() as world:
        world.now = at
    _submit_in_doubt(site, fault)
    site.go_on(1, patience, 10)
    _assert_fine(site)
    assert len(site.jobs()) == 1


def test_without_accounting_squeue_tells(site: Site) -> None:
    _faults(site, ("sacct", "disabled*"))
    _submit_in_doubt(site, "in")
    site.go_on(1, PATIENCE, 10)
    _assert_fine(site)
    assert len(site.jobs()) == 1


@pytest.mark.parametrize(
    ("restarted", "accounting"), [(False, "disabled*"), (True, "disabled*"), (False, "silent*")]
)
def test_what_slurm_has_forgotten_is_not_trained_again(
    site: Site, accounting: str, *, restarted: bool
) -> None:
    """squeue no longer knows the job, and accounting never did: its own records tell."""
    if restarted:
        site.ok("submit", str(site.recipe))
        site.go_on(1)
        _new_submission_in_doubt(site, "in", 0)
    else:
        _submit_in_doubt(site, "in")
    _faults(site, ("sacct", accounting))
    site.let_pass(1)
    site.start_waiting()
    site.finish()
    site.let_pass(PATIENCE + MIN_JOB_AGE)
    site.pass_once()
    site.go_on(10, 1000)
    assert site.run().read_state().status is RunStatus.COMPLETED
    assert len(site.jobs()) == 1 + restarted


@pytest.mark.parametrize("text", [PEER_LOST, USERS_FAULT])
def test_a_failure_that_slurm_has_forgotten_is_not_tried_again(site: Site, text: str) -> None:
    """Without accounting nobody can tell that its owner did not cancel it."""
    _faults(site, ("sacct", "disabled*"))
    _submit_in_doubt(site, "in")
    site.let_pass(1)
    site.start_waiting()
    site.fail(text)
    site.let_pass(PATIENCE + MIN_JOB_AGE)
    site.pass_once()
    site.go_on(10, 1000, 10)
    assert site.run().read_state().status is RunStatus.HELD
    assert len(site.jobs()) == 1


def test_the_job_comes_after_all_patience(site: Site) -> None:
    """The second job trains; the first is turned away at the gate whenever it turns up."""
    _submit_in_doubt(site, "late:500")
    site.go_on(PATIENCE, 400, 10)
    _assert_fine(site)
    first, second = site.jobs()
    assert (first.arguments, second.arguments) == (["2"], ["1"])
    assert (first.row.state, second.row.state) == ("RUNNING", "COMPLETED")


@pytest.mark.parametrize("age", [0.0, 700.0, MIN_JOB_AGE + 700.0])
def test_a_straggler_is_not_taken_for_the_answer(site: Site, age: float) -> None:
    """In doubt again, a job of an older epoch is about: it is not the one that is looked for."""
    _submit_in_doubt(site, "late:500")
    site.go_on(PATIENCE, 400)  # epoch 2 trains; then epoch 1 comes, and is turned away
    assert [job.row.state for job in site.jobs()] == ["RUNNING", "COMPLETED"]
    site.let_pass(MIN_JOB_AGE + 1 if age else 0)
    _new_submission_in_doubt(site, "lost", age)
    site.go_on(PATIENCE, 10)
    _assert_fine(site)


def _new_submission_in_doubt(site: Site, fault: str, age: float) -> None:
    """The attempt fails, its job cannot be requeued, and sbatch gives no clear answer."""
    site.let_pass(age)
    site.fail(PEER_LOST)
    site.let_pass(MIN_JOB_AGE + 1)
    _faults(site, ("sbatch", fault))
    site.pass_once()
    assert site.run().read_state().job_id is None


@pytest.mark.parametrize("fault", ["in", "strange", "lost", "away", "late:100", "late:500"])
def test_a_restart_in_doubt(site: Site, fault: str) -> None:
    site.ok("submit", str(site.recipe))
    site.go_on(1)
    _new_submission_in_doubt(site, fault, 0)
    site.go_on(1, PATIENCE, 10, 400, 10)
    _assert_fine(site)


def test_what_the_owner_cancelled_while_in_doubt_stays_so(site: Site) -> None:
    _submit_in_doubt(site, "in")
    with site.world.open() as world:
        world.end(world.jobs[0], "CANCELLED", "0:0", os.getuid())
    site.go_on(PATIENCE, 10)
    assert site.run().read_state().status is RunStatus.CANCELLED
    assert len(site.jobs()) == 1


BLIND = [
    [("squeue", "away*")],
    [("squeue", "garbage*")],
    [("sacct", "away*"), ("squeue", "away*")],
    [("sacct", "garbage*"), ("squeue", "garbage*")],
    [("scontrol", "away*")],
    [("scontrol", "garbage*")],
]


@pytest.mark.parametrize("faults", [*BLIND, [("sacct", "away*")], [("sacct", "garbage*")]])
def test_in_doubt_and_blind(site: Site, faults: list[tuple[str, str]]) -> None:
    """Nothing is submitted while nobody can tell whether the job is in."""
    _submit_in_doubt(site, "late:1000")
    _faults(site, *faults)
    for _ in range(4):
        site.let_pass(PATIENCE)
        site.pass_once()
    assert site.run().read_state().status is RunStatus.PLANNED
    assert not site.jobs()
    _heal(site)
    site.go_on(PATIENCE, 10)
    _assert_fine(site)
    assert len(site.jobs()) == 1


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("faults", BLIND)
def test_unknown_changes_nothing(site: Site, faults: list[tuple[str, str]], *, ended: bool) -> None:
    """While it runs, and when it has failed: nothing is decided in the dark."""
    site.ok("submit", str(site.recipe))
    site.go_on(1)
    if ended:
        site.fail(PEER_LOST)
    before = site.run().read_state()
    _faults(site, *faults)
    for _ in range(6):
        site.let_pass(PATIENCE)
        site.pass_once()
    state = site.run().read_state()
    assert (state.status, state.ends, state.epoch) == (before.status, (), 1)
    assert len(site.jobs()) == 1
    _heal(site)
    site.go_on(1, 10)
    _assert_fine(site)


@pytest.mark.parametrize("fault", ["away*", "garbage*", "lagging*", "silent*"])
def test_accounting_is_away(site: Site, fault: str) -> None:
    """What fails meanwhile is not acted upon until accounting says how it ended."""
    site.ok("submit", str(site.recipe))
    site.go_on(1)
    _faults(site, ("sacct", fault))
    site.go_on(10, 10)
    _assert_fine(site)
    site.fail(PEER_LOST)
    for _ in range(3):
        site.let_pass(20)
        site.pass_once()
    assert site.run().read_state().ends == ()
    _heal(site)
    site.go_on(1, 10)
    _assert_fine(site)
    assert len(site.jobs()) == 1


def test_the_id_is_anothers(site: Site) -> None:
    """Slurm lost its state and gives the id to a job of another name: that one is not looked at."""
    site.ok("submit", str(site.recipe))
    site.go_on(1)

    def somebody_elses(world: World) -> None:
        (job,) = world.jobs
        script = site.folder / "other.sbatch"
        script.write_text("#!/bin/bash\n#SBATCH --job-name=other\n")
        world.jobs.clear()
        world.next_id = int(job.job_id)
        other = world.add(str(script), [], "", "other")
        other.row = Row("COMPLETED", "0:0", world.now, world.now, world.now, "n1")

    with site.world.open() as world:
        somebody_elses(world)
    site.let_pass(60)
    site.pass_once()
    state = site.run().read_state()
    assert (state.status, state.ends) == (RunStatus.RUNNING, ())
    for _ in range(15):
        site.go_on(60)
    _assert_fine(site)


def test_the_id_of_a_running_job_of_another_name(site: Site) -> None:
    site.ok("submit", str(site.recipe))
    site.go_on(1)
    with site.world.open() as world:
        (job,) = world.jobs
        script = site.folder / "other.sbatch"
        script.write_text("#!/bin/bash\n#SBATCH --job-name=other\n")
        world.jobs.clear()
        world.next_id = int(job.job_id)
        other = world.add(str(script), [], "", "other")
        other.row = Row("RUNNING", "0:0", world.now, world.now, None, "n1")
    site.ok("stop", "tiny")
    for _ in range(15):
        site.let_pass(60)
        site.pass_once()
    with site.world.open() as world:
        assert [job.row.state for job in world.jobs] == ["RUNNING"], "it cancelled another's job"


def test_a_refusal_takes_the_run_back(site: Site) -> None:
    _faults(site, ("sbatch", "refused"))
    assert site.command("submit", str(site.recipe)).status == 4
    assert not site.entries()
    assert not list((site.folder / "runs").iterdir())


def test_sbatch_takes_longer_than_anybody_waits_for(site: Site) -> None:
    """A watcher goes on meanwhile. The late answer changes nothing any more."""
    tools = site.tools()

    def slow(argv: Sequence[str], **named: Any) -> CommandResult:
        if argv[0] == "sbatch":
            site.let_pass(PATIENCE)
            site.pass_once()
            site.start_waiting()
        return site.call(argv, **named)

    with pytest.raises(SlurmUnavailableError, match="too late"):
        submit(Request(site.recipe), replace(tools, slurm=Slurm(slow)))
    site.go_on(10, 10)
    _assert_fine(site)
    assert [(job.arguments, job.row.state) for job in site.jobs()] == [
        (["2"], "RUNNING"),
        (["1"], "COMPLETED"),
    ]
