"""What ms-swift is started with: its sub-commands as modules, and the words that make it resumable.

The ``swift`` wrapper is never started: signalled, it dies and leaves its ranks behind. torchrun
starts the module that the wrapper would have started (ms-swift 4.6: swift/cli/main.py).
"""

from __future__ import annotations

from typing import List, Mapping, Sequence, Tuple

from slurmswift.domain.arguments import Words, read_command
from slurmswift.domain.schema import UnreadableError

SWIFT = "swift"
SUBCOMMANDS: Mapping[str, str] = {
    "pt": "swift.cli.pt",
    "sft": "swift.cli.sft",
    "rlhf": "swift.cli.rlhf",
}

# Added where the recipe does not say otherwise: (flag, value, why).
ADDED: Tuple[Tuple[str, str, str], ...] = (
    ("--output_dir", "{output_dir}", "one folder for the checkpoints of all attempts"),
    ("--add_version", "false", "else each attempt makes a folder of its own in there"),
    ("--callbacks", "graceful_exit", "saves and leaves when asked to, ahead of the time limit"),
    ("--ddp_timeout", "1800", "ms-swift's own is 208 days: a hang would never end"),
)


def read_swift_command(text: str) -> Words:
    """Return what torchrun starts for ``sft`` and its like; a script or module of one's own."""
    words = text.split()
    if words[:1] == [SWIFT] and len(words) > 1:
        raise UnreadableError(
            f"{text!r} would put the swift wrapper between Slurm and the ranks",
            f"write command: {words[1]}",
        )
    module = SUBCOMMANDS.get(text)
    return ("-m", module) if module is not None else read_command(text)


def with_added(arguments: Sequence[str]) -> Words:
    """Return the user's words, in front of them each word of ADDED that they do not say."""
    said = {_name(word) for word in arguments if word.startswith("-")}
    added: List[str] = []
    for flag, value, _ in ADDED:
        if _name(flag) not in said:
            added += [flag, value]
    # After the YAML file that may come first: of two the later one counts.
    first = 0 if not arguments or arguments[0].startswith("-") else 1
    return (*arguments[:first], *added, *arguments[first:])


def _name(word: str) -> str:
    return word.split("=", maxsplit=1)[0].lstrip("-").replace("-", "_")
