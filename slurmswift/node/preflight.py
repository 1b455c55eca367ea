"""``preflight``: one node's answer to the checks, on its output."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Dict, List, Optional

from slurmswift.domain.records import Rendezvous
from slurmswift.node.checks import Found, Place, look_at_all

# slurmstepd passes on at most 1024 bytes of a line at once (MAX_MSG_LEN, 22.05 to 26.05); the rest
# of a longer one comes mixed with what other nodes say in the same moment.
PIECE_LENGTH = 800

# Starts node.pyz on a node that may not have it: then that is the answer. Its arguments are
# node.pyz, the word, and the rest for node.pyz.
BOOTSTRAP = """\
import json, os, runpy, sys
pyz, word = sys.argv[1:3]
if os.path.isfile(pyz):
    sys.argv = [pyz, *sys.argv[3:]]
    runpy.run_path(pyz, run_name="__main__")
else:
    node = os.environ.get("SLURMD_NODENAME", "")
    why = os.path.dirname(pyz) + " is not the folder that the first node sees"
    bad = {"check": "run_directory", "node": node, "ok": False, "value": None, "limit": None}
    print(json.dumps({"preflight": word, "node": node, "checks": [dict(bad, message=why)]}))
"""


def preflight(arguments: List[str]) -> int:
    """Print the line and be gone, whatever still hangs: the first node waits for it."""
    options = _parse(arguments)
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename.split(".")[0]
    meeting_node, address, port = options.meeting.split(",")
    place = Place(
        node=node,
        attempt_dir=options.attempt_dir,
        word=options.word,
        interface=options.interface,
        framework=options.framework,
        meeting=Rendezvous(meeting_node, address, int(port)),
        environment=os.environ,
    )
    answer = answer_line(place, look_at_all(place))
    sys.stdout.write("".join(f"{piece}\n" for piece in pieces(answer, place.word, node)))
    sys.stdout.flush()
    os._exit(0)


def pieces(answer: str, word: str, node: str) -> List[str]:
    """Return an answer in lines that arrive whole: ``WORD NODE NUMBER OF-HOW-MANY part``."""
    parts = [answer[at : at + PIECE_LENGTH] for at in range(0, len(answer), PIECE_LENGTH)]
    return [f"{word} {node} {number} {len(parts)} {part}" for number, part in enumerate(parts)]


def answer_line(place: Place, found: Dict[str, Found]) -> str:
    checks = [
        {
            "check": name,
            "node": place.node,
            "ok": one.ok,
            "value": one.value,
            "limit": one.limit,
            "message": one.message,
        }
        for name, one in found.items()
    ]
    return json.dumps({"preflight": place.word, "node": place.node, "checks": checks})


def _parse(arguments: Optional[List[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="node.pyz preflight", description=__doc__)
    parser.add_argument("--attempt-dir", type=Path, required=True)
    parser.add_argument("--word", required=True)
    parser.add_argument("--meeting", required=True, help="NODE,ADDRESS,PORT")
    parser.add_argument("--interface", default="")
    parser.add_argument("--framework", default="")
    return parser.parse_args(arguments)
