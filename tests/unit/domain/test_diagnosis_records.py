"""Logs and an attempt's own records together: what each adds to the other."""

from __future__ import annotations

import pytest

from slurmswift.domain.diagnosis import AttemptFacts, Diagnosis, LogText, diagnose
from slurmswift.domain.records import End, ExitRecord, Interface, NodeRecord, RankEnd

NODES = ("node01", "node02")
FAILED_LAUNCHER = End(1, None)
TIMED_OUT = (
    "RuntimeError: [/x/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 10000ms for recv "
    "operation to complete"
)
CLOSED = (
    "RuntimeError: [/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:351"
)


def traceback(task: int, rank: int, last: str) -> str:
    lines = ["Traceback (most recent call last):", '  File "train.py", line 74, in <module>', last]
    return "".join(f"{task}: [rank{rank}]: {line}\n" for line in lines)


def node_record(
    node: str,
    *ranks: tuple[int, int | None, int | None],
    interface: str = "up",
    launcher: End = FAILED_LAUNCHER,
    fenced: str | None = None,
) -> NodeRecord:
    """A record with (rank, status, signal) per rank; pids are the same on every node."""
    return NodeRecord(
        node=node,
        node_rank=NODES.index(node),
        launcher=launcher,
        ranks=tuple(
            RankEnd(rank, place, 100 + place, status, by_signal, 5.0)
            for place, (rank, status, by_signal) in enumerate(ranks)
        ),
        last_step=None,
        fenced=fenced,
        interface=Interface("hsn0", interface),
        started_at=0.0,
        ended_at=6.0,
    )


def exit_record(
    hint: str | None = "training",
    *,
    status: int = 1,
    srun_status: int | None = 1,
    silent: tuple[str, ...] = (),
    message: str | None = None,
) -> ExitRecord:
    return ExitRecord(status, srun_status, 2, 2 - len(silent), silent, hint, message, 9.0)


def diagnosed(log: str, **facts: object) -> Diagnosis:
    known = {"slurm_state": "FAILED", "exit_code": (1, 0), "nodes": NODES, **facts}
    known.setdefault("exit_record", exit_record())
    return diagnose([LogText("job.log", log.encode())], AttemptFacts(**known))  # type: ignore[arg-type]


def test_the_node_whose_interface_went_down_is_named_beside_the_logs_own_line() -> None:
    log = traceback(0, 0, TIMED_OUT) + traceback(1, 2, TIMED_OUT)
    diagnosis = diagnosed(
        log,
        node_records=(
            node_record("node01", (0, 1, None), (1, None, 15)),
            node_record("node02", (2, 1, None), (3, None, 15), interface="lowerlayerdown"),
        ),
    )

    assert (diagnosis.cause, diagnosis.node) == ("comm-network-fabric", "node02")
    assert diagnosis.transient is True
    assert "Timed out waiting" in diagnosis.evidence[0].text
    assert (diagnosis.evidence[1].file, diagnosis.evidence[1].text) == (
        "nodes/node02.json",
        "hsn0 is lowerlayerdown",
    )


def test_where_every_interface_is_down_no_node_is_blamed() -> None:
    diagnosis = diagnosed(
        traceback(0, 0, TIMED_OUT),
        node_records=tuple(node_record(node, (0, 1, None), interface="down") for node in NODES),
    )

    assert (diagnosis.cause, diagnosis.node) == ("comm-network-fabric", None)


def test_an_interface_that_no_node_has_is_the_recipes_mistake() -> None:
    diagnosis = diagnosed(
        traceback(0, 0, TIMED_OUT),
        node_records=tuple(node_record(node, (0, 1, None), interface="missing") for node in NODES),
    )

    assert (diagnosis.cause, diagnosis.transient) == ("comm-interface-misconfig", False)


def test_a_down_interface_explains_nothing_about_an_exception() -> None:
    diagnosis = diagnosed(
        traceback(1, 2, "ValueError: bad batch"),
        node_records=(node_record("node02", (2, 1, None), interface="down"),),
    )

    assert (diagnosis.cause, diagnosis.rank, diagnosis.node) == (
        "code-python-exception",
        2,
        "node02",
    )


def test_a_rank_killed_in_silence_is_found_in_its_nodes_record() -> None:
    diagnosis = diagnosed(
        traceback(0, 0, CLOSED) + traceback(0, 1, CLOSED),
        node_records=(
            node_record("node01", (0, 1, None), (1, 1, None)),
            node_record("node02", (2, None, 15), (3, None, 9)),
        ),
    )

    assert (diagnosis.cause, diagnosis.rank, diagnosis.node) == (
        "comm-remote-peer-lost",
        3,
        "node02",
    )
    assert diagnosis.evidence[0].text == "rank 3 ended with signal 9"


def test_the_same_rank_under_slurms_out_of_memory_ran_out_of_memory() -> None:
    diagnosis = diagnosed(
        traceback(0, 0, CLOSED),
        slurm_state="OUT_OF_MEMORY",
        node_records=(
            node_record("node01", (0, 1, None), (1, 1, None)),
            node_record("node02", (2, None, 15), (3, None, 9)),
        ),
    )

    assert (diagnosis.cause, diagnosis.rank, diagnosis.node) == ("mem-host-oom", 3, "node02")


def test_ranks_that_their_agent_or_slurm_killed_are_no_culprits() -> None:
    """A launcher that was itself ended by a signal was being cleared away, and its ranks too."""
    diagnosis = diagnosed(
        traceback(0, 0, CLOSED),
        node_records=(node_record("node02", (2, None, 9), (3, None, 9), launcher=End(None, 9)),),
    )

    assert (diagnosis.cause, diagnosis.rank) == ("comm-remote-peer-lost", None)


def test_a_launch_that_failed_names_the_node_although_srun_said_zero() -> None:
    log = (
        "srun: error: Task launch for StepId=7.0 failed on node node02: Socket timed out on "
        "send/recv operation\nsrun: error: Application launch failed: Socket timed out\n"
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    )
    diagnosis = diagnosed(
        log,
        slurm_state="COMPLETED",
        exit_code=(0, 0),
        exit_record=exit_record("node-lost", srun_status=0, silent=("node02",)),
    )

    assert (diagnosis.cause, diagnosis.node) == ("sched-launch-failure", "node02")
    assert "node02" in diagnosis.evidence[0].text


@pytest.mark.parametrize(
    ("srun_status", "cause"), [(0, "sched-launch-failure"), (1, "hw-node-failure")]
)
def test_a_node_that_left_no_record_is_named_without_any_log(srun_status: int, cause: str) -> None:
    record = exit_record("node-lost", srun_status=srun_status, silent=("node02",))
    diagnosis = diagnosed("", exit_record=record)

    assert (diagnosis.cause, diagnosis.node, diagnosis.transient) == (cause, "node02", True)
    assert diagnosis.evidence[0].text == "left no record: node02"


def test_a_lost_node_explains_the_peers_that_lost_it() -> None:
    record = exit_record("node-lost", silent=("node02",))
    diagnosis = diagnosed(traceback(0, 0, CLOSED), exit_record=record)

    assert (diagnosis.cause, diagnosis.node) == ("hw-node-failure", "node02")


def test_completed_without_the_jobs_own_witness_is_not_success() -> None:
    diagnosis = diagnosed("step 5\n", slurm_state="COMPLETED", exit_code=(0, 0), exit_record=None)

    assert (diagnosis.cause, diagnosis.category) == ("unexplained", "unknown")


def test_the_jobs_own_witness_is() -> None:
    diagnosis = diagnosed(
        "step 5\n", slurm_state="COMPLETED", exit_record=exit_record(None, status=0, srun_status=0)
    )

    assert diagnosis.cause == "none"


@pytest.mark.parametrize(
    ("hint", "message", "cause"),
    [
        ("setup", "the set-up (setup.sh) failed with status 3", "code-import-env"),
        ("no-python", None, "code-import-env"),
        ("preflight", "node01: interface hsn7 has no IPv4 address", "comm-socket-connect"),
        ("preflight", "an earlier attempt did not end: node02", "sched-launch-failure"),
        ("fenced", "node01: epoch 3 was granted, this is epoch 2", "sched-cancelled"),
    ],
)
def test_the_scripts_own_word_decides_where_no_training_ran(
    hint: str, message: str | None, cause: str
) -> None:
    diagnosis = diagnosed("", exit_record=exit_record(hint, message=message))

    assert diagnosis.cause == cause
    assert diagnosis.evidence[0].file == "exit.json"


def test_a_node_that_lost_its_files_is_no_cancelled_run() -> None:
    why = "this node could not write to the run directory for 31 s"
    diagnosis = diagnosed(
        "",
        node_records=(node_record("node02", (2, None, 9), fenced=why),),
        exit_record=exit_record("fenced", message=f"node02: {why}"),
    )

    assert (diagnosis.cause, diagnosis.node) == ("storage-fs-error", "node02")


def test_the_agents_term_after_another_nodes_failure_is_not_a_cancel() -> None:
    log = (
        "1: Received 15 death signal, shutting down workers\n"
        "1: torch.distributed.elastic.multiprocessing.api.SignalException: Process 9 got signal: 15"
        "\n" + traceback(0, 1, "KeyError: 'labels'")
    )

    assert diagnosed(log).cause == "code-python-exception"


def test_a_job_that_left_no_attempt_never_launched() -> None:
    diagnosis = diagnose([], AttemptFacts(slurm_state="FAILED", left_no_attempt=True))

    assert (diagnosis.cause, diagnosis.rule) == ("sched-launch-failure", "left-no-attempt")


def test_what_nothing_explains_says_so_and_shows_the_last_words() -> None:
    diagnosis = diagnosed("step 1\nthe end came quietly\n\n")

    assert (diagnosis.cause, diagnosis.transient) == ("unexplained", None)
    assert (diagnosis.evidence[0].line, diagnosis.evidence[0].text) == (2, "the end came quietly")
    assert "NCCL_DEBUG=INFO" in diagnosis.remedy


def test_the_json_has_the_keys_that_are_promised() -> None:
    told = diagnosed(traceback(1, 2, "ValueError: bad batch")).to_json()

    assert told == {
        "cause": "code-python-exception",
        "category": "code",
        "transient": False,
        "rank": 2,
        "node": "node02",
        "evidence": [{"file": "job.log", "line": 3, "text": "1: [rank2]: ValueError: bad batch"}],
        "remedy": told["remedy"],
        "rule": "python-exception",
    }


def test_two_nodes_with_the_same_process_ids_are_told_apart() -> None:
    """Each node has a pid space of its own: pid 101 is rank 1 here and rank 3 there."""
    table = (
        "{task}:   rank      : {rank} (local_rank: 1)\n{task}:   exitcode  : {code} (pid: 101)\n"
    )
    killed = "1: failed (exitcode: -9) local_rank: 1 (pid: 101) of binary: python\n"
    log = table.format(task=0, rank=1, code=-15) + killed + table.format(task=1, rank=3, code=-9)

    diagnosis = diagnosed(log)

    assert (diagnosis.cause, diagnosis.rank, diagnosis.node) == (
        "comm-remote-peer-lost",
        3,
        "node02",
    )


@pytest.mark.parametrize(
    ("hint", "state", "cause"),
    [
        ("time-limit", "FAILED", "sched-time-limit"),
        ("time-limit", "PREEMPTED", "sched-preempted"),
        ("ended", "FAILED", "sched-preempted"),
        ("ended", "TIMEOUT", "sched-time-limit"),
    ],
)
def test_an_attempt_that_saved_and_left_when_asked_has_not_failed(
    hint: str, state: str, cause: str
) -> None:
    log = "[rank1]: RuntimeError: Connection closed by peer\n"
    message = "left when asked to, at step 8 of 20"
    diagnosis = diagnosed(log, slurm_state=state, exit_record=exit_record(hint, message=message))

    assert (diagnosis.cause, diagnosis.rule, diagnosis.transient) == (
        cause,
        "left-when-asked",
        True,
    )
    assert diagnosis.evidence[0].text == message
