"""``check-nodes``: asks every node before the training, and judges the answers on the first."""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from slurmswift.atomic import write_atomically, write_json
from slurmswift.domain.preflight import CheckResult, LeftOut, PreflightRecord, summary
from slurmswift.domain.records import Fields, Rendezvous, StartRecord
from slurmswift.errors import StateError
from slurmswift.node.attempt import Attempt
from slurmswift.node.checks import TORCH_SECONDS, training_python
from slurmswift.node.ending import write_exit
from slurmswift.node.meeting import Listener
from slurmswift.node.ports import ephemeral_range, meet_elsewhere
from slurmswift.node.preflight import BOOTSTRAP

# srun gives up a node whose slurmd does not answer after twice MessageTimeout (10 s).
DEADLINE_SECONDS = TORCH_SECONDS + 30.0
CLOCK_SECONDS = 5.0
_SRUN_END_SECONDS = 10.0
_PORT_TRIES = 3
_PIECE_FIELDS = 5  # word, node, number, how many, part

Answers = Dict[str, Tuple[Fields, ...]]


def check_nodes(arguments: List[str]) -> int:
    """Return 0 where the agents may start; 1 where exit.json names the node and the check."""
    options = _parse(arguments)
    attempt = Attempt.at(options.attempt_dir)
    began = time.monotonic()
    word = secrets.token_hex(8)
    start, listener, port = _listen(attempt, attempt.start(), word)
    mark = attempt.path / f".preflight-{word}"
    write_atomically(mark, word.encode("ascii") + b"\n")
    try:
        answers = {} if listener is None else _ask(options, start, word, listener)
        marks = {path.name for path in attempt.path.iterdir()}
    finally:
        for path in attempt.path.glob(f"{mark.name}*"):
            path.unlink()
    asked = start.nodes if listener is not None else ()
    seen = [node for node in asked if f"{mark.name}-{node}" in marks]
    record = judge(asked, answers, port, seen, time.monotonic() - began)
    write_json(attempt.path / "preflight.json", record.to_json())
    failed = summary(record)
    if failed is None:
        _say(f"preflight: {len(start.nodes)} nodes passed in {record.seconds:.1f} s")
        return 0
    _say(f"preflight: {failed}")
    write_exit(
        attempt,
        status=1,
        cause_hint="preflight",
        message=failed,
        nodes_expected=len(start.nodes),
        nodes_silent=record.nodes_silent,
    )
    return 1


def judge(
    nodes: Sequence[str],
    answers: Answers,
    port: CheckResult,
    seen: Sequence[str],
    seconds: float,
) -> PreflightRecord:
    """Put the nodes' answers together with what only the first node can say."""
    checks, left_out = [port], []
    for node, fields in answers.items():
        for item in fields:
            name, message = item.get("check", str), item.get("message", str)
            ok = item.optional("ok", bool)
            if ok is None:
                left_out.append(LeftOut(name, node, message))
                continue
            if name == "run_directory" and ok and node not in seen:
                ok, message = False, "what it wrote there is not seen by the first node"
            value, limit = item.scalar("value"), item.scalar("limit")
            checks.append(CheckResult(name, node, ok, value, limit, message))
    checks = _judge_clocks(checks)
    silent = tuple(node for node in nodes if node not in answers)
    # For one node that does not answer the launch, srun ends the others before they can: these
    # were there, as what they wrote shows.
    silent = tuple(node for node in silent if node not in seen) or silent
    ok = not silent and all(check.ok for check in checks)
    return PreflightRecord(ok, tuple(checks), silent, tuple(left_out), round(seconds, 1))


def _judge_clocks(checks: List[CheckResult]) -> List[CheckResult]:
    """Compare with the middle one: if the first node's clock is off, it is not all the others'."""
    offsets = {
        check.node: float(check.value)
        for check in checks
        if check.check == "clock" and isinstance(check.value, (int, float))
    }
    if not offsets:
        return checks
    ordered = sorted(offsets.values())
    # Of two in the middle, the one nearer to the first node's.
    middle = min(ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1], key=abs)
    return [
        _clock(check.node, offsets[check.node] - middle)
        if check.check == "clock" and check.node in offsets
        else check
        for check in checks
    ]


def _clock(node: str, off: float) -> CheckResult:
    words = f"{abs(off):.1f} s {'ahead of' if off > 0 else 'behind'} the other nodes"
    return CheckResult(
        "clock", node, abs(off) <= CLOCK_SECONDS, round(off, 3), CLOCK_SECONDS, words
    )


def _ask(options: argparse.Namespace, start: StartRecord, word: str, listener: Listener) -> Answers:
    meeting = start.rendezvous
    if meeting is None:
        return {}
    command = [
        *options.srun,
        *(training_python(), "-c", BOOTSTRAP, str(options.run_dir / "node.pyz"), word),
        *("preflight", "--attempt-dir", str(options.attempt_dir), "--word", word),
        f"--meeting={meeting.node},{meeting.address},{meeting.port}",
        f"--interface={options.interface}",
        f"--framework={options.framework}",
    ]
    with listener:
        return gather(command, start.nodes, word, seconds=options.deadline)


def _listen(
    attempt: Attempt, start: StartRecord, word: str
) -> Tuple[StartRecord, Optional[Listener], CheckResult]:
    """Hold the port that was chosen, or another: somebody may have been quicker."""
    meeting = start.rendezvous
    if meeting is None:
        raise StateError(f"{attempt.start_file}: no rendezvous was chosen")
    for tried in range(1, _PORT_TRIES + 1):
        try:
            listener = Listener(meeting.port, word)
        except OSError as error:
            if tried == _PORT_TRIES:
                why = f"none of {_PORT_TRIES} ports could be listened on: {error.strerror}"
                return start, None, _port(meeting, why, ok=False)
            start, meeting = meet_elsewhere(attempt, start, meeting)
        else:
            low, high = ephemeral_range()
            words = f"held; outgoing connections take {low} to {high}"
            return start, listener, _port(meeting, words, ok=True)
    raise AssertionError


def _port(meeting: Rendezvous, message: str, *, ok: bool) -> CheckResult:
    return CheckResult("port", meeting.node, ok, meeting.port, ephemeral_range()[0], message)


def gather(command: List[str], nodes: Sequence[str], word: str, *, seconds: float) -> Answers:
    """Run the step and return each node's answer, without waiting for what hangs after it."""
    deadline = time.monotonic() + seconds
    answers: Answers = {}
    step = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    # Slurm's TERM to the job: nothing here is worth waiting for.
    signal.signal(signal.SIGTERM, lambda *_: _give_up(step))

    together = Pieces(word)

    def read() -> None:
        for line in step.stdout or ():
            whole = together.add(line)
            found = None if whole is None else parse_answer(whole, word)
            if found is not None:
                answers[found[0]] = found[1]

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while reader.is_alive() and not set(nodes) <= set(answers):
        if time.monotonic() >= deadline:
            break
        reader.join(0.05)
    try:
        step.wait(max(0.0, min(_SRUN_END_SECONDS, deadline - time.monotonic())))
    except subprocess.TimeoutExpired:
        step.terminate()
    return {node: answers[node] for node in nodes if node in answers}


class Pieces:
    """Puts the lines of ``preflight.pieces`` together again, whatever comes between them."""

    def __init__(self, word: str) -> None:
        self._word = word
        self._parts: Dict[str, Dict[int, str]] = {}

    def add(self, line: str) -> Optional[str]:
        """Return the answer that this line completes; a line that is no piece stands for itself."""
        fields = line.rstrip("\r\n").split(" ", 4)
        if len(fields) != _PIECE_FIELDS or fields[0] != self._word:
            return line
        node, number, count = fields[1:4]
        if not (number.isdigit() and count.isdigit()):
            return None
        parts = self._parts.setdefault(node, {})
        parts[int(number)] = fields[4]
        if len(parts) < int(count):
            return None
        return "".join(part for _, part in sorted(self._parts.pop(node).items()))


def parse_answer(line: str, word: str) -> Optional[Tuple[str, Tuple[Fields, ...]]]:
    """Return a node's name and answers; None for what else a site prints into a step's output."""
    try:
        fields = Fields(json.loads(line), "a node's answer")
        if fields.get("preflight", str) != word:
            return None
        return fields.get("node", str), fields.objects("checks")
    except (ValueError, StateError):
        return None


def _give_up(step: subprocess.Popen[str]) -> None:
    step.terminate()
    sys.exit(1)


def _parse(arguments: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="node.pyz check-nodes", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--attempt-dir", type=Path, required=True)
    parser.add_argument("--interface", default="")
    parser.add_argument("--framework", default="")
    parser.add_argument("--deadline", type=float, default=DEADLINE_SECONDS)
    parser.add_argument("srun", nargs="+", help="what starts one task on each node")
    return parser.parse_args(arguments)


def _say(message: str) -> None:
    sys.stdout.write(f"slurmswift: {message}\n")
    sys.stdout.flush()
