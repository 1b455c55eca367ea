"""What was going on when slurmswift was killed, and what must be true afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slurmswift.domain.lifecycle import AT_REST, RunStatus
from tests.support.crash_site import NODE_FAULT, PEER_LOST, USERS_FAULT, Site
from tests.support.fake_slurm.world import MIN_JOB_AGE, World

# Longer than an sbatch may take: then a submission in doubt is settled.
PATIENCE = 200.0


@dataclass(frozen=True)
class Story:
    """One command, killed somewhere, in one situation."""

    before: Callable[[Site], None]
    command: Callable[[Site], list[str]]
    after: Callable[[Site], None]


def trains_once(site: Site) -> None:
    """One attempt trains, the run knows it, and no other job is left."""
    (job,) = site.training()
    state = site.run().read_state()
    assert [other.job_id for other in site.alive()] == [job.job_id]
    assert (state.job_id, state.restart_count) == (job.job_id, job.restarts)
    assert state.status is RunStatus.RUNNING
    assert str(state.epoch) == job.arguments[0]


def nothing_left(site: Site) -> None:
    assert not site.training()
    assert not site.alive()
    assert site.run().read_state().status is RunStatus.CANCELLED


def _submitted(site: Site) -> None:
    """Not in the index: then nothing was submitted, and submitting again is all there is to do."""
    if site.entries():
        trains_once(site)
    else:
        assert not site.jobs()


def _stopped(site: Site) -> None:
    if not site.run().stop_requested():
        trains_once(site)
        site.ok("stop", "tiny")
        site.go_on(1, 10)
    nothing_left(site)


def _stopped_in_doubt(site: Site) -> None:
    if not site.run().stop_requested():
        site.go_on(PATIENCE, 10)
        trains_once(site)
        site.ok("stop", "tiny")
        site.go_on(1, 10)
    nothing_left(site)


def _resumed(site: Site) -> None:
    """Killed before it was decided, a resume has not been: its owner says it again."""
    if site.run().read_state().status in AT_REST:
        assert not site.alive()
        site.ok("resume", "tiny")
        site.go_on(1, 10)
    trains_once(site)


def _submit(site: Site) -> list[str]:
    return ["submit", str(site.recipe)]


def _watch(_site: Site) -> list[str]:
    return ["watch", "--once"]


def _stop(_site: Site) -> list[str]:
    return ["stop", "tiny"]


def _resume(_site: Site) -> list[str]:
    return ["resume", "tiny"]


def _nothing(_site: Site) -> None:
    pass


def _running(site: Site) -> None:
    site.ok("submit", str(site.recipe))
    site.go_on(1)


def _failed(site: Site) -> None:
    _running(site)
    site.fail(PEER_LOST)


def _failed_by_a_node(site: Site) -> None:
    _running(site)
    site.fail(NODE_FAULT)


def _failed_and_purged(site: Site) -> None:
    _failed(site)
    site.let_pass(MIN_JOB_AGE + 1)


def _requeued_and_held(site: Site) -> None:
    """A watcher was cut off between requeuehold and release."""
    _failed_by_a_node(site)
    _change(site, lambda world: world.faults.append(["scontrol update", "away"]))
    site.pass_once()
    (job,) = site.alive()
    assert job.held


def _stopped_while_slurm_was_away(site: Site) -> None:
    _running(site)
    _change(site, lambda world: world.faults.append(["scontrol", "away"]))
    assert site.command("stop", "tiny").status == 5


def _in_doubt(fault: str) -> Callable[[Site], None]:
    def before(site: Site) -> None:
        _change(site, lambda world: world.faults.append(["sbatch", fault]))
        assert site.command("submit", str(site.recipe)).status == 5
        site.let_pass(PATIENCE)

    return before


def _young_doubt(site: Site) -> None:
    _change(site, lambda world: world.faults.append(["sbatch", "in"]))
    assert site.command("submit", str(site.recipe)).status == 5
    site.let_pass(1)


def _cancelled(site: Site) -> None:
    _running(site)
    site.ok("stop", "tiny")
    site.go_on(1)
    assert site.run().read_state().status is RunStatus.CANCELLED


def _given_up(site: Site) -> None:
    _running(site)
    site.fail(USERS_FAULT)
    site.pass_once()
    assert site.run().read_state().status is RunStatus.FAILED


def _change(site: Site, change: Callable[[World], object]) -> None:
    with site.world.open() as world:
        change(world)


STORIES = {
    "submit": Story(_nothing, _submit, _submitted),
    "watch, first look": Story(lambda site: site.ok(*_submit(site)), _watch, trains_once),
    "watch, requeue": Story(_failed, _watch, trains_once),
    "watch, requeue off a node": Story(_failed_by_a_node, _watch, trains_once),
    "watch, requeue begun by another": Story(_requeued_and_held, _watch, trains_once),
    "watch, new job": Story(_failed_and_purged, _watch, trains_once),
    "watch, doubt, in": Story(_in_doubt("in"), _watch, trains_once),
    "watch, doubt, lost": Story(_in_doubt("lost"), _watch, trains_once),
    "watch, stop": Story(_stopped_while_slurm_was_away, _watch, nothing_left),
    "stop": Story(_running, _stop, _stopped),
    "stop, failed": Story(_failed, _stop, _stopped),
    "stop, requeued and held": Story(_requeued_and_held, _stop, _stopped),
    "stop, in doubt": Story(_young_doubt, _stop, _stopped_in_doubt),
    "resume, cancelled": Story(_cancelled, _resume, _resumed),
    "resume, failed": Story(_given_up, _resume, _resumed),
}
