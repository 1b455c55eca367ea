"""Real logs of torchrun over gloo, each with what was done to it: see tests/recorded/torchrun."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmswift.domain.diagnosis import AttemptFacts, Diagnosis, LogText, diagnose, diagnose_text

RECORDED = Path(__file__).parents[2] / "recorded" / "torchrun"


def recorded(name: str) -> bytes:
    return (RECORDED / f"{name}{'.txt' if name.endswith('.dmesg') else '.log'}").read_bytes()


def labelled(*logs: bytes) -> bytes:
    """Join the logs of a job's nodes as srun --label does, their lines taking turns."""
    queues = [
        [b"%d: %s\n" % (node, line) for line in log.splitlines()] for node, log in enumerate(logs)
    ]
    longest = max(map(len, queues))
    return b"".join(
        line for turn in range(longest) for queue in queues for line in queue[turn : turn + 1]
    )


LOST, HUNG = "comm-remote-peer-lost", "comm-collective-timeout-unexplained"
# Every log here, by itself: how the job ended, its first cause, the rank, words of the evidence.
ANSWERS: list[tuple[str, str, str, int | None, str]] = [
    ("1_node1_all_killed_2nodes.node0", "FAILED", LOST, None, "closed by peer"),
    ("1_node1_all_killed_2nodes.node1", "FAILED", "unexplained", None, "init_process_group"),
    ("1_sigkill_2nodes.node0", "FAILED", LOST, None, "closed by peer"),
    ("1_sigkill_2nodes.node1", "FAILED", LOST, 2, "exitcode: -9"),
    ("1_sigkill_no_torchrun.rank0", "FAILED", LOST, None, "Connection reset by peer"),
    ("1_sigkill_no_torchrun.rank1", "FAILED", "unexplained", None, "init_process_group"),
    ("1_sigkill_rank0", "FAILED", LOST, 0, "exitcode: -9"),
    ("1_sigkill_rank1", "FAILED", LOST, 1, "exitcode: -9"),
    ("1_sigkill_rank1_max_restarts1", "FAILED", LOST, 1, "exitcode: -9"),
    ("1_sigkill_rank1_max_restarts1_c10d", "FAILED", LOST, 1, "exitcode: -9"),
    ("2_exception_2nodes.node0", "FAILED", LOST, None, "closed by peer"),
    ("2_exception_2nodes.node1", "FAILED", "code-python-exception", 3, "ValueError: injected"),
    ("2_exception_rank0", "FAILED", "code-python-exception", 0, "failure on rank 0"),
    ("2_exception_rank1", "FAILED", "code-python-exception", 1, "failure on rank 1"),
    ("2_exit13_rank2", "FAILED", LOST, 2, "exitcode  : 13"),
    ("2_segv_rank1", "FAILED", LOST, 1, "exitcode: -11"),
    ("3_sigstop_2nodes_timeout20.node0", "FAILED", HUNG, None, "Timed out waiting"),
    ("3_sigstop_2nodes_timeout20.node1", "FAILED", HUNG, 3, "Timed out waiting"),
    ("3_sigstop_rank1_default_timeout", "CANCELLED", "sched-cancelled", None, "CANCELLED"),
    ("3_sigstop_rank1_timeout20", "FAILED", HUNG, 1, "Timed out waiting"),
    ("4_master_addr_unresolvable.node1", "FAILED", "comm-socket-connect", None, "has timed out"),
    ("4_master_unreachable.node1", "FAILED", "comm-socket-connect", None, "has timed out"),
    ("4_node1_never_arrives.node0", "FAILED", "comm-rendezvous-timeout", None, "1/2 clients"),
    ("4_port_clash_first_job", "CANCELLED", "sched-cancelled", None, "Received 15"),
    ("4_port_clash_second_job", "FAILED", "config-port-in-use", None, "EADDRINUSE"),
    ("4_port_in_use_no_torchrun.rank0", "FAILED", "config-port-in-use", None, "EADDRINUSE"),
    ("4_port_in_use_no_torchrun.rank1", "CANCELLED", "sched-cancelled", None, "CANCELLED"),
    ("4_port_in_use_torchrun", "FAILED", "config-port-in-use", None, "EADDRINUSE"),
    ("5_network_blip_8s.node0", "CANCELLED", "sched-cancelled", None, "Received 15"),
    ("5_network_blip_8s.node1", "CANCELLED", "sched-cancelled", None, "Received 15"),
    ("5_network_cut_link_down.node0", "FAILED", HUNG, None, "Timed out waiting"),
    ("5_network_cut_link_down.node1", "FAILED", HUNG, None, "Timed out waiting"),
    ("5_network_sockets_killed.node0", "FAILED", LOST, None, "connection abort"),
    ("5_network_sockets_killed.node1", "FAILED", LOST, None, "Connection reset by peer"),
    ("6_sigint_torchrun", "", "sched-cancelled", None, "Received 2"),
    # Nothing in them tells of the launcher's end: its ranks trained on.
    ("6_sigkill_torchrun", "FAILED", "unexplained", None, "step"),
    ("6_sigusr1_torchrun", "FAILED", "unexplained", None, "step"),
    ("6_sigterm_all_processes", "CANCELLED", "sched-cancelled", None, "Received 15"),
    ("6_sigterm_torchrun", "TIMEOUT", "sched-time-limit", None, "Received 15"),
    ("6_sigterm_torchrun_graceful", "PREEMPTED", "sched-preempted", None, "Received 15"),
    ("6_sigterm_torchrun_rank1_stopped", "", "sched-cancelled", None, "Received 15"),
    ("6_sigterm_whole_group", "", "sched-cancelled", None, "Received 15"),
    ("7_oom_job_cgroup", "OUT_OF_MEMORY", "mem-host-oom", 1, "OUT_OF_MEMORY"),
    ("7_oom_job_cgroup.dmesg", "FAILED", "mem-host-oom", None, "Killed process 23324"),
    ("7_oom_rank1_cgroup", "OUT_OF_MEMORY", "mem-host-oom", 1, "OUT_OF_MEMORY"),
    ("7_oom_rank1_cgroup.dmesg", "FAILED", "mem-host-oom", None, "Killed process 23301"),
    ("8_disk_full", "FAILED", "storage-full", 0, "OSError: [Errno 28] No space left"),
    ("8_resume_path_missing", "FAILED", "ckpt-missing-files", 1, "checkpoint-7/model.pt"),
    ("ok_3ranks", "", "none", None, ""),
    ("ok_resume_from_20_of_3ranks", "COMPLETED", "none", None, ""),
    ("swift_deepspeed_batch_assert", "FAILED", "config-rank-topology", 1, "train_batch_size"),
    ("swift_deepspeed_world_size_changed", "FAILED", "ckpt-incompatible", 0, "world size of 2"),
    ("swift_ok_2procs", "", "none", None, ""),
    ("swift_ok_2procs_deepspeed_zero2", "", "none", None, ""),
    ("swift_resume_damaged_noidx", "FAILED", "ckpt-missing-files", 0, "valid checkpoint"),
    ("swift_resume_damaged_nomodel", "FAILED", "ckpt-missing-files", 0, "valid checkpoint"),
    ("swift_resume_damaged_noopt", "", "none", None, ""),
    ("swift_resume_damaged_norng", "", "none", None, ""),
    ("swift_resume_damaged_nosched", "", "none", None, ""),
    ("swift_resume_damaged_nots", "FAILED", "ckpt-missing-files", 0, "trainer_state.json"),
    ("swift_resume_damaged_opt1b", "FAILED", "ckpt-corrupt", 0, "central directory"),
    ("swift_resume_damaged_opthalf", "FAILED", "ckpt-corrupt", 0, "central directory"),
    ("swift_resume_damaged_rnghalf", "FAILED", "ckpt-corrupt", 0, "OSError: [Errno 22]"),
    ("swift_resume_damaged_shmiss", "FAILED", "ckpt-missing-files", 0, "model-00002-of-00004"),
    ("swift_resume_damaged_st1b", "FAILED", "ckpt-corrupt", 0, "incomplete metadata"),
    ("swift_resume_damaged_ts0", "FAILED", "ckpt-corrupt", 0, "JSONDecodeError: Expecting"),
    ("swift_resume_finished_runs_step11", "", "none", None, ""),
    ("swift_resume_last_notfound", "FAILED", "ckpt-missing-files", 0, "path: '/data/lab/last'"),
    ("swift_sigkill_rank1", "FAILED", LOST, 1, "exitcode: -9"),
    ("swift_sigstop_rank1_ddp_timeout20", "CANCELLED", "sched-cancelled", None, "CANCELLED"),
    ("swift_sigterm_torchrun", "", "sched-cancelled", None, "Received 15"),
    # Its ranks saved and left when they were asked: the log does not say that they were.
    ("swift_sigterm_workers_graceful_exit", "TIMEOUT", "sched-time-limit", None, "TIMEOUT"),
    ("swift_sigterm_workers_jit", "PREEMPTED", "sched-preempted", None, "PREEMPTED"),
]


def test_every_recorded_log_has_its_answer() -> None:
    assert sorted(answer[0] for answer in ANSWERS) == sorted(
        path.stem for path in RECORDED.iterdir() if path.suffix != ".md"
    )


@pytest.mark.parametrize(("log", "state", "cause", "rank", "words"), ANSWERS)
def test_a_failure_is_named_with_its_rank_and_line(
    log: str, state: str, cause: str, rank: int | None, words: str
) -> None:
    diagnosis = diagnose_text(recorded(log), name="job.log", state=state)
    first = diagnosis.evidence[0] if diagnosis.evidence else None

    assert (diagnosis.cause, diagnosis.rank) == (cause, rank)
    assert (words in first.text) if first else not words
    if first is not None and first.file == "job.log":
        line = recorded(log).split(b"\n")[first.line - 1].decode()
        assert words in line
        assert diagnosis.node is None


@pytest.mark.parametrize(
    ("nodes", "cause", "rank", "node"),
    [
        ("1_sigkill_2nodes", LOST, 2, "n1"),
        ("1_node1_all_killed_2nodes", LOST, None, "n1"),
        ("2_exception_2nodes", "code-python-exception", 3, "n1"),
        ("3_sigstop_2nodes_timeout20", HUNG, 3, "n1"),
        ("5_network_cut_link_down", HUNG, None, None),
        ("5_network_sockets_killed", LOST, None, None),
        ("5_network_blip_8s", "sched-cancelled", None, None),
    ],
)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_nodes_logs_the_node_is_named_that_failed_first(
    nodes: str, cause: str, rank: int | None, node: str | None, order: tuple[int, int]
) -> None:
    logs = [LogText(f"n{n}.log", recorded(f"{nodes}.node{n}"), node=f"n{n}") for n in order]
    diagnosis = diagnose(logs, AttemptFacts(slurm_state="FAILED" if node else None))

    assert (diagnosis.cause, diagnosis.rank, diagnosis.node) == (cause, rank, node)


@pytest.mark.parametrize(
    ("ranks", "cause", "rank"),
    [("1_sigkill_no_torchrun", LOST, 1), ("4_port_in_use_no_torchrun", "config-port-in-use", 0)],
)
def test_of_two_ranks_logs_the_rank_is_named_that_failed_first(
    ranks: str, cause: str, rank: int
) -> None:
    logs = [LogText(f"rank{n}.log", recorded(f"{ranks}.rank{n}"), rank=n) for n in (0, 1)]
    diagnosis = diagnose(logs, AttemptFacts(slurm_state="FAILED"))

    assert (diagnosis.cause, diagnosis.rank) == (cause, rank)


@pytest.mark.parametrize("log", ["7_oom_rank1_cgroup", "7_oom_job_cgroup"])
def test_the_kernels_log_beside_the_jobs_tells_which_rank_the_kernel_killed(log: str) -> None:
    logs = [LogText(name, recorded(name)) for name in (f"{log}.dmesg", log)]
    diagnosis = diagnose(logs, AttemptFacts(slurm_state="FAILED"))

    assert (diagnosis.cause, diagnosis.rank) == ("mem-host-oom", 1)
    assert "Killed process" in diagnosis.evidence[0].text


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
