"""The page on checkpoints, from the table of formats."""  # noqa: INP001

from __future__ import annotations

from slurmswift.checkpoints.format import Format
from slurmswift.checkpoints.formats import FORMATS
from slurmswift.checkpoints.judging import QUIET_SECONDS

_CHANGED = f"changed in the last {QUIET_SECONDS:.0f} seconds"
_HEADER = f"""\
# Which checkpoints slurmswift understands

<!-- Printed by docs/generate.py from slurmswift/checkpoints/formats.py: do not edit. -->

A resume starts from the newest checkpoint that is whole and fits the run;
`slurmswift checkpoints DIR|RUN` shows what is there.
Nothing in a checkpoint is ever loaded: pickles are read by a reader that imports and calls nothing.
Nothing is ever removed.

A **quick** judgement reads the ends of files, and each file's own list of its content:
a safetensors header against the file's size, the directory at the end of a zip archive,
JSON as a whole, and blocks that were never written: a crash leaves such files of the right size.
`--deep` reads every byte: the sum of every entry of an archive,
and where each tensor of a safetensors file lies.
safetensors has no sums: a weight that changed on the disk is seen only by digests taken before
(`--digests FILE`, which `sha256sum --check FILE` compares).

| state | what it is | a resume |
|---|---|---|
| complete | every file that a resume reads is there and whole | starts from it, if it fits |
| incomplete | something is missing: the save did not finish, or saved less | passes it over |
| corrupt | something is there and is damaged | passes it over |
| being written | not whole, or saved over an older one, and {_CHANGED} | passes it over |

A complete one is not used where it does not fit: ZeRO's parts are for as many ranks as saved them,
and a checkpoint from which the run failed at the same step twice is in quarantine.
Without the optimizer's state it is incomplete: frameworks resume from such a one
with a fresh optimizer, and say nothing.
A finished one (its step is `max_steps`) is never resumed: it would train one step too many.
A link that leads out of a checkpoint is not followed.

What is passed over in the run's own output is renamed before the training starts
(`.bad-checkpoint-500-003`), for a trainer's rotation would count it and remove a good one for it;
`slurmswift checkpoints RUN --restore` gives it its name back.

With `checkpoints.format: auto` the first of these that recognises a checkpoint judges it.
"""


def checkpoints_page() -> str:
    """Return the page of all formats, in the order in which they are asked."""
    lines = [_HEADER, "| format | of | last written | a save under way, or cut short |"]
    lines += ["|---|---|---|---|"]
    for form in FORMATS:
        link = f"[`{form.name}`](#{form.name})"
        lines.append(f"| {link} | {form.title} | {form.last} | {form.in_progress} |")
    return "\n".join([*lines, "", *map(_section, FORMATS)])


def _section(form: Format) -> str:
    lines = [f"## {form.name}", "", f"{form.title}: {form.layout}."]
    if form.only_named:
        lines += ["", "Judged only where the recipe names it."]
    lists = (
        ("Only `--deep` sees", form.only_deep),
        ("Nothing sees", form.never),
        ("A resume does without, so their loss is no problem", form.ignored),
    )
    for title, items in lists:
        if items:
            lines += ["", f"{title}:", "", *(f"- {item}" for item in items)]
    return "\n".join([*lines, ""])
