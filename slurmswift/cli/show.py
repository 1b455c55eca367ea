"""Prints `status` and `why`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from slurmswift.app import report
from slurmswift.app.runs import find_run, others_of_that_name
from slurmswift.app.tools import Tools
from slurmswift.cli import output
from slurmswift.domain.observation import Unknown
from slurmswift.errors import ExitStatus, SlurmswiftError
from slurmswift.files.state_folder import IndexEntry

_DAY = 86400.0


def show_status(tools: Tools, wanted: tuple[str, ...], *, live: bool, as_json: bool) -> int:
    """Print runs; the exit status is 1 where exactly one was asked for and it failed."""
    entries = [find_run(tools.state, name) for name in wanted] if wanted else _all(tools)
    bodies, damaged = [], None
    for entry in entries:
        try:
            bodies.append(report.run_status(entry))
        except SlurmswiftError as error:
            output.warn(f"{entry.run_id}: {error}")
            damaged = error
    if live:
        _add_live(tools, bodies)
    if as_json:
        output.say_json(bodies)
    elif wanted:
        for name, entry, body in zip(wanted, entries, bodies, strict=False):
            _note_others(tools, name, entry)
            _print_full(body)
    else:
        _print_lines(bodies)
    if damaged is not None:
        return int(damaged.exit_status)
    one_failed = len(wanted) == 1 and bodies[0]["status"] == "FAILED"
    return int(ExitStatus.RUN_FAILED if one_failed else ExitStatus.OK)


def show_why(tools: Tools, wanted: str, *, as_json: bool) -> None:
    entry = find_run(tools.state, wanted)
    decisions = report.decisions(entry)
    if as_json:
        output.say_json(decisions)
        return
    _note_others(tools, wanted, entry)
    output.say(f"run {entry.run_id}")
    for decision in decisions:
        _print_decision(decision)
    output.say(f"next: {report.next_of(entry)}")


def _all(tools: Tools) -> list[IndexEntry]:
    return list(tools.state.entries())


def _note_others(tools: Tools, wanted: str, entry: IndexEntry) -> None:
    others = others_of_that_name(tools.state, wanted, entry)
    if others:
        output.warn(f"{wanted}: the newest of {others + 1} runs of that name is {entry.run_id}")


def _add_live(tools: Tools, bodies: list[dict[str, object]]) -> None:
    look = tools.slurm.look(since=tools.now() - _DAY)
    if isinstance(look.queue, Unknown):
        output.warn(f"Slurm does not answer: {look.queue.why}")
        return
    queue = {row.job_id: row for row in look.queue}
    for body in bodies:
        row = queue.get(str(body["job_id"]))
        if row is not None:
            body["job_state"] = row.state.value
            body["job_reason"] = row.reason


def _print_lines(bodies: list[dict[str, object]]) -> None:
    if not bodies:
        output.say("no runs yet: slurmswift submit RECIPE makes one")
        return
    rows = [("RUN", "STATUS", "JOB", "ATTEMPT", "STEP", "REASON")]
    for body in bodies:
        checkpoint = body["checkpoint"]
        step = str(checkpoint["step"]) if isinstance(checkpoint, dict) else "-"
        job = str(body["job_id"] or "-")
        cells = (str(body["run_id"]), str(body["status"]), job, str(body["attempt"]), step)
        rows.append((*cells, str(body["reason"])[:100]))
    output.table(rows)


def _print_full(body: Mapping[str, object]) -> None:
    output.say(f"run        {body['run_id']}")
    output.say(f"status     {body['status']}: {body['reason']}")
    state = f", Slurm: {body['job_state']}" if body["job_state"] else ""
    output.say(f"job        {body['job_id']} on {body['cluster']}{state}")
    output.say(f"attempt    {body['attempt']}, {body['restarts']} restarts")
    checkpoint = body["checkpoint"]
    if isinstance(checkpoint, dict):
        output.say(f"checkpoint step {checkpoint['step']}: {checkpoint['path']}")
    else:
        output.say(f"checkpoint {'none whole' if body['passed_over'] else 'none yet'}")
    passed_over = body["passed_over"]
    for item in passed_over if isinstance(passed_over, list) else []:
        output.say(f"           not whole: {item['path']}: {item['why']}")
    diagnosis = body["diagnosis"]
    if isinstance(diagnosis, dict):
        _print_diagnosis("last end  ", diagnosis)
    output.say(f"directory  {body['run_dir']}")
    output.say(f"next       {body['next']}")


def _print_diagnosis(label: str, diagnosis: Mapping[str, object]) -> None:
    where = [
        f"{key} {diagnosis[key]}" for key in ("rank", "node") if diagnosis.get(key) is not None
    ]
    output.say(f"{label} {diagnosis['cause']}" + (f" ({', '.join(where)})" if where else ""))
    evidence = diagnosis.get("evidence")
    if isinstance(evidence, list):
        for item in evidence[:3]:
            if isinstance(item, dict):
                output.say(f"           {item['file']}:{item['line']}: {item['text']}")
    elif evidence:
        output.say(f"           {evidence}")
    if diagnosis.get("remedy"):
        output.say(f"           remedy: {diagnosis['remedy']}")


def _print_decision(decision: Mapping[str, object]) -> None:
    moment = decision.get("time")
    stamp = "?"
    if isinstance(moment, (int, float)):
        stamp = datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    diagnosis = decision.get("diagnosis")
    if not isinstance(diagnosis, dict):
        words = " ".join(str(decision[key]) for key in ("decision", "reason") if decision[key])
        output.say(f"{stamp}  {words or decision.get('observation')}")
        return
    output.say(f"{stamp}  attempt {decision['attempt']}: {decision['observation']}")
    _print_diagnosis("  cause   ", diagnosis)
    output.say(f"  decision {decision['decision']}: {decision['reason']}")
