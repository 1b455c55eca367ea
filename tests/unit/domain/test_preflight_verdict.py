"""Which cause a failed preflight is, and which node is left out."""

from __future__ import annotations

import json

import pytest

from slurmswift.domain.diagnosis import AttemptFacts, Diagnosis, LogText, diagnose
from slurmswift.domain.preflight import CheckResult, PreflightRecord
from slurmswift.domain.records import ExitRecord
from slurmswift.node.checks import CHECKS, PORT_CHECK

NODES = ("n1", "n2", "n3")
LOG = "ModuleNotFoundError: No module named 'torch'\n"


def preflight(
    check: str, *bad: str, nodes: tuple[str, ...] = NODES, silent: tuple[str, ...] = ()
) -> PreflightRecord:
    results = tuple(
        CheckResult(check, node, node not in bad, None, None, "no good") for node in nodes
    )
    return PreflightRecord(not bad and not silent, results, silent, (), 1.0)


def diagnosed(record: PreflightRecord, **more: object) -> Diagnosis:
    ended = ExitRecord(1, None, 3, 0, record.nodes_silent, "preflight", "failed", 1.0)
    known = {"slurm_state": "FAILED", "exit_record": ended, "nodes": NODES, "preflight": record}
    return diagnose([LogText("job.log", LOG.encode())], AttemptFacts(**{**known, **more}))  # type: ignore[arg-type]


@pytest.mark.parametrize("check", [check.id for check in (*CHECKS, PORT_CHECK)])
def test_what_is_wrong_with_one_node_is_survived_elsewhere(check: str) -> None:
    diagnosis = diagnosed(preflight(check, "n2"))

    assert diagnosis.rule == f"preflight-{check}"
    assert diagnosis.transient is True
    assert diagnosis.node == (None if check == "port" else "n2")
    assert diagnosis.evidence[0].text == f"n2: {check}: no good"


@pytest.mark.parametrize(
    ("check", "cause"),
    [
        ("torch", "code-import-env"),
        ("interface", "comm-interface-misconfig"),
        ("run_directory", "storage-fs-error"),
        ("shm", "mem-shm-exhausted"),
    ],
)
def test_what_is_wrong_with_all_of_them_is_no_nodes_fault(check: str, cause: str) -> None:
    diagnosis = diagnosed(preflight(check, *NODES))

    assert (diagnosis.cause, diagnosis.node) == (cause, None)


def test_a_first_node_that_none_of_several_reaches_is_itself_cut_off() -> None:
    assert diagnosed(preflight("rendezvous", "n2", "n3")).node == "n1"
    assert diagnosed(preflight("rendezvous", "n3")).node == "n3"
    assert diagnosed(preflight("rendezvous", "n2", nodes=("n1", "n2"))).node == "n2"


def test_a_node_without_an_answer_comes_before_what_others_complain_of() -> None:
    diagnosis = diagnosed(preflight("rendezvous", "n2", silent=("n3",)))

    assert (diagnosis.cause, diagnosis.node) == ("sched-launch-failure", "n3")
    assert diagnosed(preflight("torch", silent=NODES)).node is None


@pytest.mark.parametrize("state", ["NODE_FAIL", "PREEMPTED", "TIMEOUT"])
def test_an_end_from_outside_is_not_the_preflights(state: str) -> None:
    diagnosis = diagnosed(preflight("torch", silent=NODES), slurm_state=state)

    assert not diagnosis.rule.startswith("preflight")


def test_the_record_is_read_as_it_was_written() -> None:
    record = preflight("torch", "n2", silent=("n4",))

    written = json.loads(json.dumps(record.to_json()))

    assert PreflightRecord.parse(written, "preflight.json") == record
