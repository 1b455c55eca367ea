"""The preflight with real processes and sockets: a node's answer, the first one's conclusion."""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path

import pytest

from slurmswift.domain.preflight import CheckResult
from slurmswift.domain.records import Fields, Rendezvous
from slurmswift.node import checks
from slurmswift.node.check_nodes import Answers, Pieces, gather, judge, parse_answer
from slurmswift.node.checks import Check, Found, Place, look_at_all
from slurmswift.node.meeting import Listener, NoMeetingError, call
from slurmswift.node.ports import free_port
from slurmswift.node.preflight import answer_line, pieces

PORT = CheckResult("port", "n1", ok=True, value=1, limit=2, message="")


def place(tmp_path: Path, port: int = 1, **environment: str) -> Place:
    return Place(
        node="n1",
        attempt_dir=tmp_path,
        word="w0",
        interface="",
        framework="torchrun",
        meeting=Rendezvous("n0", "127.0.0.1", port),
        environment=environment,
    )


def answers(**nodes: list[dict[str, object]]) -> Answers:
    whole = {"ok": True, "value": None, "limit": None, "message": ""}
    return {
        node: tuple(Fields({**whole, **item}, node) for item in items)
        for node, items in nodes.items()
    }


def test_the_listener_is_reached_and_tells_the_time() -> None:
    port = free_port()
    with Listener(port, "w0"):
        assert abs(call("127.0.0.1", port, "w0")) < 1.0
    with pytest.raises(
        NoMeetingError, match=r"127.0.0.1:\d+ cannot be reached: Connection refused"
    ):
        call("127.0.0.1", port, "w0")
    # Whoever called closed first: the ranks can listen at once.
    with socket.socket() as ranks:
        ranks.bind(("", port))


def test_somebody_else_at_the_port_is_no_rendezvous() -> None:
    port = free_port()
    with Listener(port, "another"), pytest.raises(NoMeetingError, match="somebody else answers"):
        call("127.0.0.1", port, "w0")


def test_a_check_that_hangs_or_breaks_does_not_pass_and_hides_no_other(tmp_path: Path) -> None:
    def hang(_: Place) -> Found:
        time.sleep(60)
        return Found(ok=True)

    def break_(_: Place) -> Found:
        raise IndexError("no such row")

    rows = (
        Check("hangs", "", "", "", hang, 0.3),
        Check("breaks", "", "", "", break_),
        Check("passes", "", "", "", lambda _: Found(ok=True)),
    )
    found = look_at_all(place(tmp_path), rows)

    assert {name: one.ok for name, one in found.items()} == {
        "hangs": False,
        "breaks": False,
        "passes": True,
    }
    assert found["hangs"].message == "did not come back within 0 s"
    assert found["breaks"].message == "IndexError: no such row"


@pytest.mark.parametrize(
    ("program", "ok", "message"),
    [
        ('echo \'["2.5", ["gloo"]]\'', True, "torch 2.5"),
        ("echo '[\"2.5\", []]'", False, "torch 2.5 has no backend gloo"),
        ('echo "ImportError: libfoo.so" >&2; exit 1', False, "ImportError: libfoo.so"),
        ("exit 3", False, "import torch ended 3"),
    ],
)
def test_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, program: str, ok: bool, message: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{program}\n")
    python.chmod(0o755)
    monkeypatch.setenv("SLURMSWIFT_PYTHON", str(python))
    found = checks.look_at_torch(place(tmp_path))

    assert (found.ok, found.message) == (ok, message)


def test_gpus_are_counted_where_there_is_something_to_count_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    asked = place(tmp_path, SLURM_GPUS_ON_NODE="2")

    assert checks.look_at_gpus(place(tmp_path)).message == "no GPUs were asked for"
    assert checks.look_at_gpus(asked).message == "no tool that lists GPUs is on this node"
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: A100 (UUID: GPU-1)'\n")
    tool.chmod(0o755)
    found = checks.look_at_gpus(asked)
    assert (found.ok, found.value, found.limit) == (False, 1, 2)
    assert found.message == "1 of 2 GPUs answer"


def test_the_run_directory_is_the_same_only_with_the_word_in_it(tmp_path: Path) -> None:
    assert checks.look_at_run_directory(place(tmp_path)).ok is False
    (tmp_path / ".preflight-w0").write_text("w0\n")
    assert checks.look_at_run_directory(place(tmp_path)).ok is True
    assert (tmp_path / ".preflight-w0-n1").exists()


def test_what_a_site_prints_into_a_step_is_no_answer() -> None:
    line = json.dumps({"preflight": "w0", "node": "n1", "checks": []})

    assert parse_answer(line, "w0") == ("n1", ())
    for noise in ("Welcome to n1!", "[1, 2]", "7", line.replace("w0", "w1"), line[:-2]):
        assert parse_answer(noise, "w0") is None


def test_answers_longer_than_slurm_passes_on_at_once_arrive_whole(tmp_path: Path) -> None:
    """slurmstepd sends 1024 bytes of a line at most: two nodes' lines would come mixed."""
    spot = place(tmp_path)
    words = " ".join(f"word{number}" for number in range(400))
    answer = answer_line(spot, {"a": Found(ok=True), "b": Found(ok=False, message=words)})
    lines = {node: pieces(answer.replace("n1", node), "w0", node) for node in ("n1", "n2")}
    mixed = [line for both in zip(lines["n1"], lines["n2"], strict=True) for line in both]
    together = Pieces("w0")
    whole = [together.add(f"{line}\n") for line in ["Welcome!", *mixed]]

    assert all(len(line) < 1000 for line in mixed)
    assert whole[0] == "Welcome!\n"
    found = [parse_answer(text, "w0") for text in whole[1:] if text is not None]
    assert [one[0] for one in found if one] == ["n1", "n2"]
    assert all(one[1][1].get("message", str) == words for one in found if one)


def test_nobody_waits_for_a_step_that_has_answered_and_hangs() -> None:
    line = json.dumps({"preflight": "w0", "node": "n1", "checks": []})
    program = f"import time; print({line!r}, flush=True); time.sleep(60)"
    began = time.monotonic()
    found = gather([sys.executable, "-c", program], ["n1", "n2"], "w0", seconds=2.0)

    assert found == {"n1": ()}
    assert time.monotonic() - began < 10


def test_a_node_without_an_answer_is_named_and_those_ended_with_it_are_not() -> None:
    """srun ends the others when one does not answer the launch."""
    record = judge(["n1", "n2"], {}, PORT, ["n1"], 1.0)

    assert (record.ok, record.nodes_silent) == (False, ("n2",))


def test_what_a_node_wrote_must_be_seen_by_the_first_one() -> None:
    found = answers(n1=[{"check": "run_directory"}], n2=[{"check": "run_directory"}])
    record = judge(["n1", "n2"], found, PORT, ["n1"], 1.0)

    assert [(one.node, one.message) for one in record.failed] == [
        ("n2", "what it wrote there is not seen by the first node")
    ]


def test_what_was_left_out_says_why() -> None:
    found = answers(n1=[{"check": "gpus", "ok": None, "message": "none asked for"}])
    record = judge(["n1"], found, PORT, ["n1"], 1.0)

    assert record.ok
    assert [(one.check, one.node, one.why) for one in record.left_out] == [
        ("gpus", "n1", "none asked for")
    ]


@pytest.mark.parametrize(
    ("offsets", "bad"),
    [
        ([0.0, 1.0], []),
        ([0.0, 90.0], ["n2"]),
        ([0.0, -90.0], ["n2"]),
        ([0.0, 90.0, 0.5], ["n2"]),
        ([0.0, 90.0, 90.5], ["n1"]),  # the first node's own: all others are off from it
        ([0.0, 90.0, 90.0, 0.1], ["n2", "n3"]),
    ],
)
def test_a_clock_is_off_from_the_middle_one(offsets: list[float], bad: list[str]) -> None:
    nodes = [f"n{number}" for number in range(1, len(offsets) + 1)]
    found = answers(
        **{
            node: [{"check": "clock", "value": off}]
            for node, off in zip(nodes, offsets, strict=True)
        }
    )
    record = judge(nodes, found, PORT, nodes, 1.0)

    assert [one.node for one in record.failed] == bad
