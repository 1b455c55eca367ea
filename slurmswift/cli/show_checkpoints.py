"""Prints `checkpoints`."""

from __future__ import annotations

from pathlib import Path

from slurmswift.app.checkpoints import Survey, digests, restore_all, survey
from slurmswift.app.tools import Tools
from slurmswift.atomic import write_atomically
from slurmswift.checkpoints import Checkpoint
from slurmswift.cli import output
from slurmswift.errors import ExitStatus

_HEADS = ("STEP", "AGE", "SIZE", "FORMAT", "STATE", "CHECKPOINT")
_MOST_PROBLEMS = 3  # of one checkpoint in the table; --json has all
_THOUSAND = 1000
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_AGES = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def show_checkpoints(
    tools: Tools, wanted: str, *, deep: bool, record: Path | None, as_json: bool
) -> int:
    """Print what was found; the exit status is 1 where nothing is whole though something is."""
    found = survey(wanted, tools, deep=deep or record is not None)
    if record is not None:
        lines = "".join(f"{line}\n" for line in digests(found.checkpoints))
        write_atomically(record, lines.encode("utf-8", "surrogateescape"))
    if as_json:
        output.say_json(found.to_json())
    else:
        _print(found)
    return int(ExitStatus.RUN_FAILED if found.nothing_whole else ExitStatus.OK)


def show_restored(tools: Tools, wanted: str, *, as_json: bool) -> int:
    """Give back the names; the exit status is 1 where one could not be given back."""
    done = restore_all(wanted, tools)
    if as_json:
        body = {"restored": done.back, "taken": done.taken}
        output.say_json(
            {
                key: [{"path": str(item.path), "home": str(item.home)} for item in items]
                for key, items in body.items()
            }
        )
    else:
        for item in done.back:
            _say(f"{item.path.name} is {item.home} again")
        for item in done.taken:
            _say(f"{item.path} stays: there is another {item.home.name} by now")
        if not done.back and not done.taken:
            _say("nothing lies aside")
    return int(ExitStatus.RUN_FAILED if done.taken else ExitStatus.OK)


def _print(found: Survey) -> None:
    if not found.checkpoints:
        _say(f"{found.folder}: no checkpoint in it")
    else:
        output.table([_HEADS, *(_row(found, item) for item in found.checkpoints)])
        for item in found.checkpoints:
            _print_problems(found, item)
        output.say()
        _say(_start(found))
    for aside in found.aside:
        _say(f"aside: {aside.path} (--restore makes it {aside.home.name} again)")


def _row(found: Survey, item: Checkpoint) -> tuple[str, ...]:
    state = "finished" if item.whole and item.finished else item.state.value
    if item.whole and not item.usable:
        state = "not used"
    age = _age(found.now - item.changed) if item.changed else "-"
    return (
        str(item.step),
        age,
        _size(item.bytes),
        item.format,
        state,
        _one_line(_name(found, item)),
    )


def _name(found: Survey, item: Checkpoint) -> str:
    path = Path(item.path)
    return str(path.relative_to(found.folder) if found.folder in path.parents else path)


def _print_problems(found: Survey, item: Checkpoint) -> None:
    problems = item.problems or ((item.unfit,) if item.unfit and not item.usable else ())
    for problem in problems[:_MOST_PROBLEMS]:
        _say(f"  {_name(found, item)}: {problem}")
    more = len(problems) - _MOST_PROBLEMS
    if more > 0:
        _say(f"  {_name(found, item)}: and {more} more (--json)")


def _start(found: Survey) -> str:
    newest = found.resume_point.checkpoint
    if newest is None:
        return "A resume would start from the beginning: no checkpoint can be used."
    if newest.finished:
        return f"Finished: step {newest.step} of {newest.max_steps}. It would not be resumed."
    of = f" of {newest.max_steps}" if newest.max_steps else ""
    return f"A resume would start from {newest.path} (step {newest.step}{of})."


def _say(text: str) -> None:
    output.say(_one_line(text))


def _one_line(text: str) -> str:
    """Names come from others: a line break in one must not make up a line of ours."""
    return text.replace("\n", "\\n").replace("\t", "\\t")


def _age(seconds: float) -> str:
    for unit, word in _AGES:
        if seconds >= unit:
            return f"{seconds / unit:.0f} {word}"
    return f"{max(seconds, 0):.0f} s"


def _size(count: int) -> str:
    if count < 0:
        return "-"
    unit, size = 0, float(count)
    while round(size) >= _THOUSAND and unit < len(_UNITS) - 1:
        size, unit = size / _THOUSAND, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"
