"""What ms-swift is started with: its sub-commands as modules, and the words that make it resumable.

The wrappers ``swift`` and ``megatron`` are never started: signalled, they die and leave their ranks
behind. torchrun starts the module that the wrapper would have started (ms-swift 4.6:
swift/cli/main.py and swift/cli/_megatron/main.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Mapping, Sequence, Tuple

from slurmswift.domain.arguments import Words, read_command
from slurmswift.domain.schema import UnreadableError

SWIFT = "swift"
MEGATRON_SWIFT = "megatron-swift"


@dataclass(frozen=True)
class Flavour:
    """One of ms-swift's two trainers."""

    wrapper: str
    subcommands: Mapping[str, str]
    # Added where the recipe does not say otherwise: (flag, value, why).
    added: Tuple[Tuple[str, str, str], ...]


_FOLDER = ("--output_dir", "{output_dir}", "one folder for the checkpoints of all attempts")
_NO_VERSION = ("--add_version", "false", "else each attempt makes a folder of its own in there")
_TIMEOUT = ("--ddp_timeout", "1800", "ms-swift's own is 208 days: a hang would never end")
_CALLBACK = (
    "--callbacks",
    "graceful_exit",
    "saves and leaves when asked to, ahead of the time limit",
)
FLAVOURS: Mapping[str, Flavour] = {
    SWIFT: Flavour(
        "swift",
        {name: f"swift.cli.{name}" for name in ("pt", "sft", "rlhf")},
        (_FOLDER, _NO_VERSION, _CALLBACK, _TIMEOUT),
    ),
    # It has no such callback: ahead of a time limit its save interval has to do.
    MEGATRON_SWIFT: Flavour(
        "megatron",
        {name: f"swift.cli._megatron.{name}" for name in ("pt", "sft", "rlhf")},
        (_FOLDER, _NO_VERSION, _TIMEOUT),
    ),
}


def read_swift_command(text: str, framework: str = SWIFT) -> Words:
    """Return what torchrun starts for ``sft`` and its like; a script or module of one's own."""
    flavour = FLAVOURS[framework]
    words = text.split()
    if words[:1] == [flavour.wrapper] and len(words) > 1:
        raise UnreadableError(
            f"{text!r} would put the {flavour.wrapper} wrapper between Slurm and the ranks",
            f"write command: {words[1]}",
        )
    module = flavour.subcommands.get(text)
    return ("-m", module) if module is not None else read_command(text)


def with_added(arguments: Sequence[str], framework: str = SWIFT) -> Words:
    """Return the user's words, in front of them each added word that they do not say."""
    said = {_name(word) for word in arguments if word.startswith("-")}
    added: List[str] = []
    for flag, value, _ in FLAVOURS[framework].added:
        if _name(flag) not in said:
            added += [flag, value]
    return (*added, *arguments)


def unread_file(arguments: Sequence[str]) -> str:
    """Return the file of arguments that comes first: the wrapper alone would have read it."""
    first = "".join(arguments[:1])
    return first if first.endswith((".yaml", ".yml", ".json")) else ""


def megatron_resume_flag(arguments: Sequence[str]) -> str:
    """Return the flag by which ``megatron sft`` and its like go on from a checkpoint.

    A LoRA's checkpoint holds the adapters alone: the model stays what the recipe says.
    """
    tuner = _value(arguments, "tuner_type") or "full"
    return "--mcore_model" if tuner == "full" else "--mcore_adapter"


def _value(arguments: Sequence[str], name: str) -> str:
    """Return what the last such argument says; nothing where there is none."""
    found = ""
    for number, word in enumerate(arguments):
        if word.startswith("-") and _name(word) == name:
            following = arguments[number + 1 : number + 2]
            found = word.partition("=")[2] or "".join(following)
    return found


def _name(word: str) -> str:
    return word.split("=", maxsplit=1)[0].lstrip("-").replace("-", "_")
