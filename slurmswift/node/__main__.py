"""Dispatches what the job's script asks of ``node.pyz``."""

from __future__ import annotations

import sys
from typing import Callable, Dict, List

from slurmswift.node.agent import agent
from slurmswift.node.begin import begin
from slurmswift.node.finish import finish
from slurmswift.node.local_ranks import ranks

SUBCOMMANDS: Dict[str, Callable[[List[str]], int]] = {
    "begin": begin,
    "agent": agent,
    "finish": finish,
    "ranks": ranks,
}


def main(arguments: List[str]) -> int:
    command = SUBCOMMANDS.get(arguments[0]) if arguments else None
    if command is None:
        sys.stderr.write(f"node.pyz: say one of: {', '.join(SUBCOMMANDS)}\n")
        return 2
    return command(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
