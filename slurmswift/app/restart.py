"""The acts upon Slurm (submit, requeue, cancel), each journaled before it is done."""

from __future__ import annotations

from dataclasses import replace

from slurmswift.app.chronicle import Chronicle
from slurmswift.app.tools import Tools
from slurmswift.domain import hostlist, policy
from slurmswift.domain.exclusion import excluded_nodes
from slurmswift.domain.job import FINAL_STATES, JobState, QueueRow
from slurmswift.domain.lifecycle import RunStatus
from slurmswift.domain.observation import Look, Unknown, jobs_of_epoch
from slurmswift.domain.phase import Over
from slurmswift.domain.plan import Plan
from slurmswift.domain.run import Intent
from slurmswift.errors import SlurmRefusedError, SlurmUnavailableError
from slurmswift.slurm.client import SUBMIT_SECONDS, ActResult
from slurmswift.slurm.commands import slurm_time

# A requeued job is PENDING within KillWait and some seconds; a single pass stays that long.
PENDING_SECONDS = 60.0
# Whatever the policy says: a requeue of a CANCELLED job revives what its owner ended, and one of a
# COMPLETING job hides that he did (SLURM.md 4).
_REQUEUABLE = FINAL_STATES - {JobState.CANCELLED}
# By so much the clocks of the login node and of the controller may differ.
CLOCKS_DIFFER_SECONDS = 600.0
# So many submissions in a row that nobody knows the answer to are no bad luck any more.
MAX_DOUBTS = 5
# 22.05 starts a job in the second of its end and slurmd then refuses it (SLURM.md 9).
SETTLE_SECONDS = 2.0


def submit_epoch(chronicle: Chronicle, tools: Tools, exclude: tuple[str, ...], now: float) -> str:
    """Grant a new epoch and submit it; return the job id.

    SlurmRefusedError: nothing is queued. SlurmUnavailableError: the intent stays open, and the
    next pass looks whether the job is in. Should both jobs turn up, the gate lets one train.
    """
    run = chronicle.run
    epoch = run.claim_epoch()
    intent = Intent("submit", epoch, None, exclude, hold=False, at=tools.now())
    chronicle.note("intent", now, act="submit", epoch=epoch, exclude=list(exclude))
    chronicle.save(
        replace(chronicle.state, epoch=epoch, job_id=None, restart_count=0, intent=intent)
    )
    last = _last_attempt(chronicle)
    chronicle.grant(epoch=epoch, job_id=None, last_attempt=last, at=now)
    environment = run.read_environment()
    if "SLURM_CONF" in tools.environ:
        environment["SLURM_CONF"] = tools.environ["SLURM_CONF"]
    try:
        job_id = tools.slurm.submit(
            str(run.script),
            epoch,
            exclude=hostlist.compress(exclude),
            env=environment,
            umask=run.read_umask(),
        )
    except SlurmRefusedError as error:
        # sbatch has more ways to fail than we know, and the job may be in all the same.
        if _new_jobs(chronicle, tools.slurm.look(since=intent.at - CLOCKS_DIFFER_SECONDS)):
            raise SlurmUnavailableError(f"{error}; yet Slurm shows the job") from error
        raise
    _submitted(chronicle, job_id, last, tools.now())
    return job_id


def _submitted(chronicle: Chronicle, job_id: str, last_attempt: int, now: float) -> None:
    epoch = chronicle.state.epoch
    present = chronicle.run.read_grant()
    if present is not None and present.epoch > epoch:
        # sbatch took so long that a watcher, or a person, went on: theirs is the run now.
        chronicle.note("passed", now, epoch=epoch, job_id=job_id, granted=present.epoch)
        raise SlurmUnavailableError(
            f"job {job_id} came too late: {present.by} has submitted the run again meanwhile"
        )
    chronicle.grant(epoch=epoch, job_id=job_id, last_attempt=last_attempt, at=now)
    chronicle.note("submitted", now, epoch=epoch, job_id=job_id)
    known = replace(chronicle.state, job_id=job_id, intent=None, not_before=None)
    chronicle.move(RunStatus.SUBMITTED, f"submitted as job {job_id}", now, of=known)


def settle_submission(chronicle: Chronicle, tools: Tools, look: Look, now: float) -> None:
    """A submission was begun and its answer is not known: find the job, or try a new epoch."""
    state = chronicle.state
    if isinstance(look.queue, Unknown) or isinstance(look.accounts, Unknown):
        return
    since = state.intent.at if state.intent else state.submitted_at
    # Until then whoever submits may still be at it.
    settled = now - since >= SUBMIT_SECONDS + SETTLE_SECONDS
    found = _new_jobs(chronicle, look)
    if chronicle.run.stop_requested():
        if found:
            tools.slurm.cancel(found, state.run_id)
        if settled:
            chronicle.move(RunStatus.CANCELLED, "stopped by its owner before it started", now)
        return
    if not settled:
        return
    if found:
        _submitted(chronicle, found[-1], _last_attempt(chronicle), now)
        return
    if state.epoch - len({end.epoch for end in state.ends}) >= MAX_DOUBTS:
        why = f"{MAX_DOUBTS} submissions in a row got no clear answer from sbatch"
        chronicle.move(RunStatus.HELD, why, now)
        return
    exclude = state.intent.exclude if state.intent else ()
    _resubmit(chronicle, tools, exclude, now)


def _new_jobs(chronicle: Chronicle, look: Look) -> tuple[str, ...]:
    """The jobs of the present epoch.

    Stragglers of older ones are none: the gate turns them away, and granted to one of them the run
    would wait for a job that never trains.
    """
    state = chronicle.state
    known = {end.job_id for end in state.ends}
    grant = chronicle.run.read_grant()
    if grant is not None and grant.epoch == state.epoch and grant.job_id not in {None, *known}:
        return (str(grant.job_id),)  # sbatch answered; what came after that was lost
    since = state.intent.at if state.intent else state.submitted_at
    since_text = slurm_time(since - CLOCKS_DIFFER_SECONDS)
    named = jobs_of_epoch(look, state.run_id, state.epoch, since_text)
    found = [job_id for job_id in named if not chronicle.run.was_turned_away(job_id)]
    # Without accounting a job that was over early is known to its own records alone.
    found += chronicle.run.jobs_past_the_gate(state.epoch)
    return tuple(sorted({*found} - known, key=int))


def restart(chronicle: Chronicle, tools: Tools, over: Over, now: float) -> None:
    """Put the run back in the queue: the same job where Slurm still has it, else a new one."""
    exclude = exclusions(chronicle, tools)
    if over.in_queue and over.state is not JobState.CANCELLED:
        done = _requeue(chronicle, tools, exclude, now)
        if done:
            return
    _resubmit(chronicle, tools, exclude, now)


def _requeue(chronicle: Chronicle, tools: Tools, exclude: tuple[str, ...], now: float) -> bool:
    """Requeue the job; False where Slurm will not, and a new submission is needed."""
    state = chronicle.state
    job_id = str(state.job_id)
    row = tools.slurm.job(job_id)
    if row is None:
        return False
    if row.state not in _REQUEUABLE or row.restart_count != state.restart_count:
        # The look of this pass is old: somebody cancelled or restarted the job since. Left alone.
        chronicle.save(replace(state, reason=f"squeue now shows the job {row.state.value}"))
        return True
    avoid = bool(exclude) and bool(state.avoid)
    chronicle.note(
        "intent", now, act="requeue", job_id=job_id, epoch=state.epoch, exclude=list(exclude)
    )
    intent = Intent("requeue", state.epoch, job_id, exclude, hold=avoid, at=now)
    chronicle.save(replace(state, intent=intent))
    chronicle.grant(epoch=state.epoch, job_id=job_id, last_attempt=_last_attempt(chronicle), at=now)
    act = tools.slurm.requeue(job_id, hold=avoid)
    if act.result is ActResult.DONE:
        finish_requeue(chronicle, tools, now)
        return True
    chronicle.note("refused", tools.now(), act="requeue", job_id=job_id, words=act.words)
    chronicle.save(replace(chronicle.state, intent=None))
    if act.result is ActResult.LATER:
        chronicle.move(RunStatus.RESTARTING, f"Slurm says of the requeue: {act.words}", now)
        return True
    return False


def finish_requeue(chronicle: Chronicle, tools: Tools, now: float) -> None:
    """See a requeue of ours through: pending, its exclusions set, released, started at once.

    Every step may be done twice; after a kill the next pass goes on from here.
    """
    intent = chronicle.state.intent
    if intent is None or intent.job_id is None:
        return
    row = _wait_until_pending(tools, intent.job_id)
    if row is None or row.state is JobState.COMPLETING:
        return
    if row.state in FINAL_STATES:
        if row.restart_count > chronicle.state.restart_count:
            # It took effect, and the job is over again: cancelled by its owner, most likely.
            chronicle.save(replace(chronicle.state, intent=None, restart_count=row.restart_count))
        return
    if chronicle.run.stop_requested():
        cancel(chronicle, tools, now)
        return
    if row.state is JobState.PENDING:
        if intent.hold:
            hosts = hostlist.compress(intent.exclude)
            said = tools.slurm.set_excluded(intent.job_id, hosts)
            tools.slurm.release(intent.job_id)
            chronicle.note(
                "excluded", tools.now(), job_id=intent.job_id, nodes=hosts, words=said.words
            )
        tools.sleep(SETTLE_SECONDS)
        # Saves requeue_delay, two minutes by default; a site may not allow it, and that is no loss.
        tools.slurm.start_now(intent.job_id)
    chronicle.note("requeued", tools.now(), job_id=intent.job_id, restart_count=row.restart_count)
    done = replace(chronicle.state, intent=None, restart_count=row.restart_count, not_before=None)
    chronicle.move(
        RunStatus.PENDING, f"job {intent.job_id} is back in the queue", tools.now(), of=done
    )


def hasten(chronicle: Chronicle, tools: Tools, row: QueueRow, now: float) -> None:
    """A restart of Slurm's own waits for requeue_delay: off the bad node, and at once, instead."""
    state = chronicle.state
    if state.avoid:
        hosts = hostlist.compress(exclusions(chronicle, tools))
        chronicle.note("intent", now, act="exclude", job_id=row.job_id, nodes=hosts)
        tools.slurm.set_excluded(row.job_id, hosts)
    tools.sleep(SETTLE_SECONDS)
    tools.slurm.start_now(row.job_id)


def _wait_until_pending(tools: Tools, job_id: str) -> QueueRow | None:
    deadline = tools.now() + PENDING_SECONDS
    while True:
        row = tools.slurm.job(job_id)
        if row is None or row.state is not JobState.COMPLETING or tools.now() >= deadline:
            return row
        tools.sleep(1.0)


def leave_behind(chronicle: Chronicle, tools: Tools, now: float) -> None:
    """Go on under a new epoch while the old job still holds a lost node; then end the old job."""
    old = chronicle.state.job_id
    _resubmit(chronicle, tools, exclusions(chronicle, tools), now)
    if old is not None and chronicle.state.job_id not in (None, old):
        chronicle.note("intent", tools.now(), act="cancel", job_id=old, reason="left behind")
        tools.slurm.cancel((old,), chronicle.state.run_id)


def _resubmit(chronicle: Chronicle, tools: Tools, exclude: tuple[str, ...], now: float) -> None:
    try:
        submit_epoch(chronicle, tools, exclude, now)
    except SlurmRefusedError as error:
        chronicle.note("refused", tools.now(), act="submit", words=str(error))
        chronicle.save(replace(chronicle.state, intent=None))
        chronicle.move(RunStatus.HELD, str(error), tools.now())
    except SlurmUnavailableError as error:
        chronicle.save(replace(chronicle.state, reason=f"submission in doubt: {error}"))


def cancel(
    chronicle: Chronicle, tools: Tools, now: float, *, reason: str = "stopped by its owner"
) -> None:
    """End the job: its owner said stop, or it is of a run that is complete."""
    job_id = chronicle.state.job_id
    if job_id is None:
        return
    chronicle.note("intent", now, act="cancel", job_id=job_id, reason=reason)
    tools.slurm.cancel((job_id,), chronicle.state.run_id)
    if chronicle.state.status is not RunStatus.COMPLETED:
        chronicle.save(replace(chronicle.state, reason=f"{reason}; Slurm is ending the job"))


def renew_grant(chronicle: Chronicle, now: float) -> None:
    """Count anew how many attempts may start: a checkpoint since may have renewed the budgets."""
    state = chronicle.state
    chronicle.grant(
        epoch=state.epoch, job_id=state.job_id, last_attempt=_last_attempt(chronicle), at=now
    )


def _last_attempt(chronicle: Chronicle) -> int:
    """The highest attempt number that may start before a decision is needed again."""
    state = chronicle.state
    plan = chronicle.run.read_plan()
    limits = policy.Limits(plan.restart.max_restarts, plan.restart.budgets)
    newest = max((attempt.number for attempt in chronicle.run.attempts()), default=0)
    return newest + max(1, policy.attempts_left(state.counted_ends, limits, state.restarts))


def exclusions(chronicle: Chronicle, tools: Tools) -> tuple[str, ...]:
    """The user's exclusions and ours; asks Slurm for its nodes only where we have any."""
    avoid = tuple(avoided.node for avoided in chronicle.state.avoid)
    if not avoid:
        return ()
    plan: Plan = chronicle.run.read_plan()
    wanted = [name for name in (plan.sbatch_value("partition") or "").split(",") if name]
    available = tools.slurm.usable_nodes(tuple(wanted))
    listed = hostlist.expand(plan.sbatch_value("nodelist") or "")
    if listed:
        # sbatch refuses a node that is both asked for and excluded.
        available -= set(listed)
    users = hostlist.expand(plan.sbatch_value("exclude") or "")
    return excluded_nodes(users, avoid, available=available, needed=plan.nodes)
