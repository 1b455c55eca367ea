"""Prints `diagnose`."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from slurmswift.app.diagnose import Asked, diagnose_what
from slurmswift.app.tools import Tools
from slurmswift.cli import output
from slurmswift.domain.causes import CAUSES

_NAMED = 5  # logs that are named where none of their lines is shown
_HELPS = {
    True: "likely to help",
    False: "does not help: the same would happen again",
    None: "nobody can tell from this",
}


def show_diagnosis(tools: Tools, wanted: str, *, state: str, exit_code: str, as_json: bool) -> None:
    answer = diagnose_what(wanted, Asked(state, exit_code), tools, sys.stdin.buffer)
    for note in answer.notes:
        output.warn(note)
    if as_json:
        output.say_json(answer.diagnosis)
    else:
        _print(answer.diagnosis, answer.read)


def _print(diagnosis: Mapping[str, object], read: tuple[str, ...]) -> None:
    cause = CAUSES.get(str(diagnosis["cause"]))
    output.say(f"cause     {diagnosis['cause']}" + (f": {cause.meaning}" if cause else ""))
    first = [
        f"{key} {diagnosis[key]}" for key in ("rank", "node") if diagnosis.get(key) is not None
    ]
    if first:
        output.say(f"first     {', '.join(first)}")
    evidence = diagnosis.get("evidence")
    label = "evidence"
    for item in evidence if isinstance(evidence, list) else []:
        output.say(f"{label:<9} {item['file']}:{item['line']}: {item['text']}")
        label = ""
    if not evidence:
        output.say(f"read      {', '.join(read[:_NAMED])}" + (" ..." if len(read) > _NAMED else ""))
    if diagnosis["cause"] == "none":
        return
    transient = diagnosis.get("transient")
    output.say(f"resume    {_HELPS[transient if isinstance(transient, bool) else None]}")
    if diagnosis.get("remedy"):
        output.say(f"remedy    {diagnosis['remedy']}")
