"""What a person (or --json) is told about runs: status, and why."""

from __future__ import annotations

from collections.abc import Mapping

from slurmswift.app.starts import Starts
from slurmswift.checkpoints import find_resume_point
from slurmswift.domain import policy
from slurmswift.domain.lifecycle import TERMINAL, RunStatus
from slurmswift.domain.plan import Plan
from slurmswift.domain.run import AttemptEnd, RunState
from slurmswift.files import journal
from slurmswift.files.run_directory import RunDirectory
from slurmswift.files.state_folder import IndexEntry


def run_status(entry: IndexEntry) -> dict[str, object]:
    """One run as `status --json` prints it (docs/reference/json.md)."""
    run = RunDirectory(entry.run_dir)
    state = run.read_state()
    plan = run.read_plan()
    point = find_resume_point(plan.checkpoint_directory)
    newest = point.checkpoint
    last = state.ends[-1] if state.ends else None
    return {
        "run_id": state.run_id,
        "name": state.name,
        "status": state.status.value,
        "run_dir": str(run.path),
        "cluster": state.cluster,
        "job_id": state.job_id,
        "job_state": state.job_state,
        "attempt": max((a.number for a in run.attempts()), default=0),
        "restarts": state.restarts,
        "checkpoint": {"path": newest.path, "step": newest.step} if newest else None,
        "passed_over": [
            {"path": item.path, "why": "; ".join(map(str, item.problems))}
            for item in point.passed_over
        ],
        "diagnosis": None if last is None or last.decision == "finish" else _diagnosis(last),
        "reason": state.reason,
        "next": what_next(state, plan, stopping=run.stop_requested()),
    }


def _diagnosis(end: AttemptEnd) -> dict[str, object]:
    return {
        "cause": end.cause,
        "category": end.category,
        "transient": end.transient,
        "rank": end.rank,
        "node": end.node,
        "evidence": end.evidence,
        "remedy": end.remedy,
        "rule": end.rule,
    }


def what_next(state: RunState, plan: Plan, *, stopping: bool) -> str:
    """Say what happens next, and who has to act."""
    said = _NEXT.get(state.status)
    if state.status is RunStatus.FAILED and state.ends and state.ends[-1].remedy:
        said = f"nothing by itself: {state.ends[-1].remedy}"
    if stopping and state.status not in TERMINAL:
        said = "the watcher sees the job end, then the run is CANCELLED"
    if said is not None:
        return said
    limits = policy.Limits(plan.restart.max_restarts, plan.restart.budgets)
    left = policy.attempts_left(state.counted_ends, limits, state.restarts)
    return f"if this attempt fails for a passing reason, it is resumed ({left} attempts left)"


_NEXT = {
    RunStatus.COMPLETED: "nothing: the run is complete",
    RunStatus.CANCELLED: "nothing: the run was cancelled, and is never revived by itself",
    RunStatus.FAILED: "nothing by itself",
    RunStatus.HELD: "a person must look at it, then resume or stop it",
    RunStatus.RESTARTING: "the watcher puts it back in the queue",
}


def decisions(entry: IndexEntry) -> tuple[Mapping[str, object], ...]:
    """Every decision of a run with what it rests on, as `why --json` prints them."""
    run = RunDirectory(entry.run_dir)
    shown: list[dict[str, object]] = []
    starts = Starts(run)
    for line in journal.read(run.journal):
        event = line.get("event")
        if event == "decided":
            shown += starts.up_to(line.get("attempt"))
            keys = ("attempt", "observation", "diagnosis", "decision", "reason", "job_id", "step")
            shown.append({"time": line.get("at"), **{key: line.get(key) for key in keys}})
            shown[-1]["records_missing"] = line.get("records_missing")
        elif event in (
            "intent",
            "submitted",
            "requeued",
            "refused",
            "excluded",
            "stop",
            "restored",
        ):
            shown.append(
                {
                    "time": line.get("at"),
                    "attempt": None,
                    "observation": None,
                    "diagnosis": None,
                    "decision": event,
                    "reason": _act_words(line),
                }
            )
        elif event == "damaged":
            shown.append(
                {
                    "time": None,
                    "attempt": None,
                    "observation": f"line {line['line']} of {run.journal} is damaged",
                    "diagnosis": None,
                    "decision": None,
                    "reason": "its writer was interrupted, or the file was changed",
                }
            )
    return (*shown, *starts.rest())


_ACT_KEYS = ("act", "job_id", "epoch", "exclude", "nodes", "restart_count", "words", "by", "paths")


def _act_words(line: Mapping[str, object]) -> str:
    parts = []
    for key in _ACT_KEYS:
        value = line.get(key)
        if value not in (None, [], ""):
            parts.append(f"{key}={','.join(value) if isinstance(value, list) else value}")
    return " ".join(parts)


def next_of(entry: IndexEntry) -> str:
    run = RunDirectory(entry.run_dir)
    return what_next(run.read_state(), run.read_plan(), stopping=run.stop_requested())
