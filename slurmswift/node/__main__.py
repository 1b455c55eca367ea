"""Dispatches what the job's script asks of ``node.pyz``; what breaks in here is told as ours."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

# Each in its module: the agent of a thousand nodes need not load what judges an end.
SUBCOMMANDS: Dict[str, Tuple[str, str]] = {
    "begin": ("begin", "begin"),
    "check-nodes": ("check_nodes", "check_nodes"),
    "preflight": ("preflight", "preflight"),
    "agent": ("agent", "agent"),
    "finish": ("finish", "finish"),
    "ranks": ("local_ranks", "ranks"),
}
# For the script, and for `finish`: neither the training nor the node is to blame.
BUG = 119


def main(arguments: List[str]) -> int:
    name = arguments[0] if arguments else ""
    if name not in SUBCOMMANDS:
        sys.stderr.write(f"node.pyz: say one of: {', '.join(SUBCOMMANDS)}\n")
        return 2
    try:
        return _command(name)(arguments[1:])
    except OSError as error:
        # A disk that is full, a mount that is gone: the node's, and in the words that say so.
        _say(f"{name}: {error}")
        return 1
    except Exception as error:  # noqa: BLE001 - it must not look like an exception of the training
        _tell_bug(name, arguments, error)
        return BUG


def _command(name: str) -> Callable[[List[str]], int]:
    module, function = SUBCOMMANDS[name]
    command: Callable[[List[str]], int] = getattr(
        import_module(f"slurmswift.node.{module}"), function
    )
    return command


def _tell_bug(name: str, arguments: List[str], error: Exception) -> None:
    """Keep the traceback out of the log, which is read for the training's own."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}, line {last.lineno}"
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    file = _bug_file(name, arguments)
    try:
        if file is not None:
            file.write_text(text, encoding="utf-8")
    except OSError:
        file = None
    kept = f"; the whole of it is in {file}" if file else ""
    _say(f"a bug in slurmswift itself ({name}, {place}): {type(error).__name__}{kept}")


def _bug_file(name: str, arguments: List[str]) -> Optional[Path]:
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename.split(".")[0]
    folder = os.environ.get("ATTEMPT_DIR", "")
    for option, value in zip(arguments, arguments[1:]):
        if option == "--attempt-dir":
            folder = value
    return Path(folder) / f"bug-{name}-{node}.txt" if folder else None


def _say(message: str) -> None:
    sys.stderr.write(f"slurmswift: {message}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
