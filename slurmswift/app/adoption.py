"""Accounts for what others started: Slurm's own restarts, and jobs that a person submitted."""

from __future__ import annotations

from dataclasses import replace

from slurmswift.app.chronicle import Chronicle
from slurmswift.app.ends import attempt_end, record_end
from slurmswift.app.facts import AttemptStory, attempt_story
from slurmswift.app.lost import node_failure
from slurmswift.domain import hostlist, policy
from slurmswift.domain.job import AccountRow, JobState, QueueRow
from slurmswift.domain.lifecycle import RunStatus
from slurmswift.domain.observation import Look, Unknown
from slurmswift.domain.phase import Over
from slurmswift.domain.run import AvoidedNode, RunState
from slurmswift.slurm.client import Slurm


def adopt_restarts(
    chronicle: Chronicle, slurm: Slurm, look: Look, row: QueueRow, now: float
) -> None:
    """The job's restart counter rose without us: write down each attempt that ended, and follow.

    The restarts count in the budgets like ours do; the gate, which knows how many attempts may
    start, stops a job that Slurm would restart for ever.
    """
    state = chronicle.state
    rows = _rows_of(look, state)
    for count in range(state.restart_count, row.restart_count):
        if chronicle.state.status is RunStatus.COMPLETED:
            return
        if not chronicle.state.has_ended(count):
            over = _over(rows, row.restart_count - count)
            _conclude(chronicle, slurm, over, count, now)
    chronicle.save(
        replace(
            chronicle.state,
            restart_count=row.restart_count,
            intent=None,
            not_before=None,
            job_state=row.state.value,
        )
    )


def follow_the_grant(chronicle: Chronicle, now: float) -> None:
    """A person submitted the script by hand, and it took the next epoch: that job is the run's."""
    state = chronicle.state
    grant = chronicle.run.read_grant()
    if grant is None or grant.epoch <= state.epoch or grant.job_id is None:
        return
    chronicle.note("adopted", now, job_id=grant.job_id, epoch=grant.epoch, by=grant.by)
    chronicle.save(
        replace(
            state,
            epoch=grant.epoch,
            job_id=grant.job_id,
            restart_count=0,
            intent=None,
            not_before=None,
            reason=f"follows job {grant.job_id}, submitted {grant.by}",
        )
    )


def _conclude(
    chronicle: Chronicle, slurm: Slurm, over: Over, restart_count: int, now: float
) -> None:
    job_id = str(chronicle.state.job_id)
    story = _with_lost_nodes(attempt_story(chronicle.run, job_id, restart_count, over), slurm)
    end = attempt_end(chronicle, story, over, restart_count=restart_count, now=now)
    if story.succeeded:
        end = replace(end, decision="finish", reason="every node's record says 0")
        record_end(chronicle, end, story, over, to=RunStatus.COMPLETED)
        return
    end = replace(end, decision="adopt", reason="Slurm put the job back in the queue itself")
    avoid: tuple[AvoidedNode, ...] = ()
    if end.node is not None and policy.row_for(end.cause).avoid_node:
        avoid = (AvoidedNode(end.node, end.evidence or end.cause, now),)
    record_end(chronicle, end, story, over, to=RunStatus.RESTARTING, avoid=avoid)


def _with_lost_nodes(story: AttemptStory, slurm: Slurm) -> AttemptStory:
    """Where the attempt itself names no node: one that Slurm cannot reach is the reason."""
    told = story.diagnosis
    vague = told.node is None and told.cause in ("unexplained", "sched-launch-failure")
    if story.start is None or not story.start.nodes or not vague:
        return story
    lost = slurm.lost_nodes(hostlist.compress(story.start.nodes))
    if not lost:
        return story
    words = {f"sinfo --nodes={node}": state for node, state in lost.items()}
    failure = node_failure(tuple(lost), words, rule="slurm-lost-the-node")
    if told.cause == "sched-launch-failure":
        evidence = (*told.evidence, *failure.evidence)
        failure = replace(told, node=failure.node, evidence=evidence, transient=True)
    return replace(story, diagnosis=failure)


def _rows_of(look: Look, state: RunState) -> list[AccountRow]:
    if isinstance(look.accounts, Unknown):
        return []
    mine = (state.job_id, state.run_id)
    return [row for row in look.accounts if (row.job_id, row.name) == mine and not row.step]


def _over(rows: list[AccountRow], before_last: int) -> Over:
    """Accounting's row of an earlier attempt; on 22.05 a requeue may have overwritten it."""
    if len(rows) <= before_last:
        return Over(JobState.REQUEUED, in_queue=True)
    row = rows[-1 - before_last]
    code = (row.exit_code.status, row.exit_code.signal)
    return Over(row.state, code, row.cancelled_by, nodes=row.nodes, in_queue=True)
