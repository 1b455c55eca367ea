"""Real logs of torchrun over gloo, each with what was done to it: see tests/recorded/torchrun."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmswift.domain.diagnosis import AttemptFacts, Diagnosis, LogText, diagnose, diagnose_text

RECORDED = Path(__file__).parents[2] / "recorded" / "torchrun"


def recorded(name: str) -> bytes:
    return (RECORDED / f"{name}.log").read_bytes()


def labelled(*logs: bytes) -> bytes:
    """Join the logs of a job's nodes as srun --label does, their lines taking turns."""
    queues = [
        [b"%d: %s\n" % (node, line) for line in log.splitlines()] for node, log in enumerate(logs)
    ]
    longest = max(map(len, queues))
    return b"".join(
        line for turn in range(longest) for queue in queues for line in queue[turn : turn + 1]
    )


FAILED_ALONE = [
    # log, cause, rank, words of the evidence
    ("1_sigkill_rank1", "comm-remote-peer-lost", 1, "exitcode: -9"),
    ("1_sigkill_rank1_max_restarts1", "comm-remote-peer-lost", 1, "exitcode: -9"),
    ("1_node1_all_killed_2nodes.node0", "comm-remote-peer-lost", None, "closed by peer"),
    ("2_exception_rank0", "code-python-exception", 0, "ValueError: injected failure on rank 0"),
    ("2_exit13_rank2", "comm-remote-peer-lost", 2, "exitcode  : 13"),
    ("2_segv_rank1", "comm-remote-peer-lost", 1, "exitcode: -11"),
    ("3_sigstop_rank1_timeout20", "comm-collective-timeout-unexplained", 1, "Timed out waiting"),
    ("4_master_addr_unresolvable.node1", "comm-socket-connect", None, "has timed out"),
    ("4_node1_never_arrives.node0", "comm-rendezvous-timeout", None, "1/2 clients joined"),
    ("4_port_in_use_torchrun", "config-port-in-use", None, "EADDRINUSE"),
    ("5_network_cut_link_down.node0", "comm-collective-timeout-unexplained", None, "Timed out"),
    ("5_network_sockets_killed.node0", "comm-remote-peer-lost", None, "connection abort"),
    ("8_disk_full", "storage-full", 0, "OSError: [Errno 28] No space left"),
    ("8_resume_path_missing", "ckpt-missing-files", 1, "/nonexistent/checkpoint-7/model.pt"),
    ("swift_resume_damaged_ts0", "ckpt-corrupt", 0, "JSONDecodeError: Expecting value"),
    ("swift_resume_damaged_opthalf", "ckpt-corrupt", 0, "failed finding central directory"),
    ("swift_resume_damaged_shmiss", "ckpt-missing-files", 0, "model-00002-of-00004"),
    ("swift_deepspeed_world_size_changed", "ckpt-incompatible", 0, "DP world size of 2"),
]


@pytest.mark.parametrize(("log", "cause", "rank", "words"), FAILED_ALONE)
def test_a_failure_is_named_with_its_rank_and_line(
    log: str, cause: str, rank: int | None, words: str
) -> None:
    diagnosis = diagnose_text(recorded(log), name="job.log", state="FAILED", exit_code="1:0")

    assert (diagnosis.cause, diagnosis.rank) == (cause, rank)
    assert words in diagnosis.evidence[0].text


@pytest.mark.parametrize(("log", "cause", "rank", "words"), FAILED_ALONE)
def test_the_evidence_stands_in_the_line_that_it_names(
    log: str, cause: str, rank: int | None, words: str
) -> None:
    del cause, rank
    first = diagnose_text(recorded(log), state="FAILED").evidence[0]
    line = recorded(log).split(b"\n")[first.line - 1].decode()

    assert words in line
    assert first.text in line or line.startswith(first.text[:-3])


@pytest.mark.parametrize(
    ("nodes", "cause", "rank", "node"),
    [
        ("1_sigkill_2nodes", "comm-remote-peer-lost", 2, "n1"),
        ("2_exception_2nodes", "code-python-exception", 3, "n1"),
        ("3_sigstop_2nodes_timeout20", "comm-collective-timeout-unexplained", 3, "n1"),
        ("5_network_cut_link_down", "comm-collective-timeout-unexplained", None, None),
    ],
)
def test_of_two_nodes_the_one_that_failed_first_is_named(
    nodes: str, cause: str, rank: int | None, node: str | None
) -> None:
    """Node 0's own "Root Cause" is a victim in each of these."""
    log = labelled(recorded(f"{nodes}.node0"), recorded(f"{nodes}.node1"))
    diagnosis = diagnose(
        [LogText("job.log", log)], AttemptFacts(slurm_state="FAILED", nodes=("n0", "n1"))
    )

    assert (diagnosis.cause, diagnosis.rank, diagnosis.node) == (cause, rank, node)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_which_of_two_logs_comes_first_changes_nothing(order: tuple[int, int]) -> None:
    logs = [LogText(f"n{n}.log", recorded(f"2_exception_2nodes.node{n}")) for n in order]
    diagnosis = diagnose(logs, AttemptFacts(slurm_state="FAILED"))

    assert (diagnosis.cause, diagnosis.rank) == ("code-python-exception", 3)


@pytest.mark.parametrize(
    ("log", "state", "cause"),
    [
        ("6_sigterm_torchrun", "TIMEOUT", "sched-time-limit"),
        ("6_sigterm_torchrun", "PREEMPTED", "sched-preempted"),
        ("6_sigterm_torchrun_graceful", "CANCELLED by 1000", "sched-cancelled"),
        ("6_sigterm_torchrun", None, "sched-cancelled"),
        ("6_sigint_torchrun", None, "sched-cancelled"),
        ("swift_sigterm_torchrun", "CANCELLED", "sched-cancelled"),
        ("7_oom_rank1_cgroup", "OUT_OF_MEMORY", "mem-host-oom"),
        ("7_oom_rank1_cgroup", "FAILED", "comm-remote-peer-lost"),
        ("2_exception_rank0", "NODE_FAIL", "hw-node-failure"),
        ("ok_3ranks", "COMPLETED", "none"),
        ("ok_3ranks", None, "none"),
        ("ok_3ranks", "FAILED", "unexplained"),
    ],
)
def test_slurms_state_decides_between_ends_that_look_alike(
    log: str, state: str | None, cause: str
) -> None:
    assert diagnose_text(recorded(log), state=state).cause == cause


def test_an_oom_kill_names_the_rank_that_was_killed() -> None:
    diagnosis = diagnose_text(recorded("7_oom_rank1_cgroup"), state="OUT_OF_MEMORY")

    assert (diagnosis.rank, diagnosis.transient) == (1, False)


def test_an_exception_before_the_time_limit_is_the_cause_of_a_job_that_then_hung() -> None:
    at = b"2026-12-01T03:00:00"
    limit = b"slurmstepd: error: *** JOB 7 ON n0 CANCELLED AT %s DUE TO TIME LIMIT ***\n" % at
    failed = recorded("2_exception_rank0")

    assert diagnose_text(failed + limit, state="TIMEOUT").cause == "code-python-exception"
    assert diagnose_text(limit + failed, state="TIMEOUT").cause == "sched-time-limit"


@pytest.mark.parametrize("log", ["2_exception_2nodes.node1", "3_sigstop_rank1_timeout20"])
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"Error", b"\x1b[31mError\x1b[0m"),
        lambda data: b"".join(b"0: " + line + b"\n" for line in data.splitlines()),
        lambda data: data.replace(b"\n", b"\n 10%|#         | 1/10 [00:01<00:09,  1.00s/it]\r"),
        lambda data: b"\x00\xff\xfe noise \x80\n" * 50 + data,
    ],
    ids=["crlf", "colours", "labels", "progress bars", "binary noise"],
)
def test_how_a_log_arrives_changes_nothing(log: str, change: object) -> None:
    assert callable(change)
    plain, changed = (
        diagnose_text(data, state="FAILED") for data in (recorded(log), change(recorded(log)))
    )

    def told(diagnosis: Diagnosis) -> tuple[str, str, int | None]:
        return (diagnosis.cause, diagnosis.rule, diagnosis.rank)

    assert told(changed) == told(plain)
