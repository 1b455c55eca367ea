"""Single messages and short logs: near misses, noise, and any bytes at all."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmswift.domain.causes import CAUSES
from slurmswift.domain.diagnosis import diagnose_text

PROGRESS = "".join(f"step {n}/90000 loss 1.{n} grad_norm 0.5 tokens 4096\n" for n in range(3000))
HANDLED = 'Traceback (most recent call last):\n  File "fetch.py", line 3\nOSError: timed out\n'
WATCHDOG = (
    "[rank0]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 60006\n"
)


@pytest.mark.parametrize(
    ("log", "state", "cause"),
    [
        (HANDLED + PROGRESS + WATCHDOG, "FAILED", "comm-collective-timeout-unexplained"),
        (HANDLED + WATCHDOG, "FAILED", "code-python-exception"),
        ("Exception ignored in: <function f>\n" + HANDLED, "FAILED", "unexplained"),
        (WATCHDOG + "MemoryError\n", "FAILED", "mem-host-oom"),
        ("Some text about CUDA out of memory in a data set\n", "FAILED", "unexplained"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to\n", None, "mem-cuda-oom"),
        ("srun: error: n1: task 3: Out Of Memory\n", "OUT_OF_MEMORY", "mem-host-oom"),
        ("ModuleNotFoundError: No module named 'x'\n", "FAILED", "code-import-env"),
        ("", "TIMEOUT", "sched-time-limit"),
        ("", "NODE_FAIL", "hw-node-failure"),
        ("", "COMPLETED", "none"),
        ("", None, "none"),
    ],
)  # fmt: skip
def test_a_short_log_has_one_cause(log: str, state: str | None, cause: str) -> None:
    assert diagnose_text(log, state=state).cause == cause


def test_a_cancel_after_peers_were_lost_for_long_came_of_that() -> None:
    lost = (
        "WARNING:x:The node 'n7_1_0' has failed to send a keep-alive heartbeat to the rendezvous\n"
    )
    cancel = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-04-24T09:12:40 ***\n"

    assert diagnose_text(lost * 9 + cancel, state="CANCELLED").cause == "comm-remote-peer-lost"
    assert diagnose_text(lost + cancel, state="CANCELLED").cause == "sched-cancelled"


def test_of_chained_exceptions_the_one_that_a_rule_knows_is_the_cause() -> None:
    log = (
        "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 2\nImportError: no y\n'
    )

    assert diagnose_text(log, state="FAILED").cause == "code-import-env"


def test_of_chained_exceptions_that_none_knows_the_last_is_shown() -> None:
    log = (
        "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 2\nmy.lib.Trouble: no y\n'
    )

    assert [item.text for item in diagnose_text(log, state="FAILED").evidence] == [
        "my.lib.Trouble: no y"
    ]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from(
                [
                    b"Traceback (most recent call last):\n",
                    b"\r",
                    b"\n",
                    b"  exitcode  : -9 (pid: 1)\n",
                    b"ValueError: x\n",
                    b"0: [rank1]: ",
                    WATCHDOG.encode(),
                    b"\xff\xfe",
                ]
            ),
        ),
        max_size=30,
    ),
    st.sampled_from([None, "FAILED", "TIMEOUT", "NODE_FAIL", "NEW_WORD", "CANCELLED by 0"]),
)
def test_any_bytes_have_a_diagnosis_that_json_can_hold(
    pieces: list[bytes], state: str | None
) -> None:
    diagnosis = diagnose_text(b"".join(pieces), state=state)

    assert diagnosis.cause in CAUSES
    assert all(item.line >= 1 for item in diagnosis.evidence)


def test_a_long_log_is_read_in_time_that_grows_with_its_size() -> None:
    def seconds(copies: int) -> float:
        text = PROGRESS * copies + HANDLED * 50 + WATCHDOG
        started = time.process_time()
        diagnose_text(text, state="FAILED")
        return time.process_time() - started

    seconds(1)

    assert seconds(80) < 40 * max(seconds(8), 0.02)


def test_code_that_a_traceback_quotes_is_not_what_happened() -> None:
    log = (
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in load\n'
        "    check(path) or fail('failed finding central directory')\n"
        "KeyError: 'x'\n"
    )

    diagnosis = diagnose_text(log, state="FAILED")

    assert (diagnosis.cause, diagnosis.evidence[0].line) == ("code-python-exception", 4)


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (
            (
                "OSError: [Errno 28] No space left on device\n"
                "RuntimeError: DataLoader worker (pid 5) is killed by signal: Bus error. It is\n"
            ),
            "mem-shm-exhausted",
        ),
        (
            HANDLED + "slurmstepd: error: Detected 1 oom_kill event in StepId=9.0.\n",
            "mem-host-oom",
        ),
    ],
)
def test_what_another_message_explains_gives_way_to_it(log: str, cause: str) -> None:
    assert diagnose_text(log, state="FAILED").cause == cause


@pytest.mark.parametrize(
    ("log", "cause", "rank", "node"),
    [
        (
            ("srun: error: n7: task 5: Segmentation fault (core dumped)\n"
            "srun: error: n3: tasks 0-3: Terminated\n"),
            "comm-remote-peer-lost",
            5,
            "n7",
        ),
        (
            WATCHDOG + "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused "
            "the desync are:\n\t   - [3] finished collective #11, but didn't join collective #12\n",
            "comm-collective-timeout-unexplained",
            3,
            None,
        ),
        ("Caught signal SIGUSR2 on n17: this job is timed-out.\n", "sched-time-limit", None, None),
        ("Caught signal SIGUSR2 on n17: this job is preempted.\n", "sched-preempted", None, None),
    ],
)  # fmt: skip
def test_who_ended_first_is_named_by_what_others_say_of_it(
    log: str, cause: str, rank: int | None, node: str | None
) -> None:
    diagnosis = diagnose_text(log, state="FAILED", exit_code="1:0")

    assert (diagnosis.cause, diagnosis.rank, diagnosis.node) == (cause, rank, node)


def test_a_log_that_names_another_rank_does_not_make_an_unsigned_line_rank_zeros() -> None:
    failed = HANDLED.replace("OSError: timed out", "KeyError: 'x'")

    assert diagnose_text(failed, state="FAILED").rank == 0
    others = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to\n"
    assert diagnose_text(failed + others, state="FAILED").rank != 0


@pytest.mark.parametrize(("times", "transient"), [(1, None), (2, None), (9, True)])
def test_only_a_rendezvous_that_is_missed_again_and_again_was_lost_with_its_node(
    times: int, transient: object
) -> None:
    lost = (
        "WARNING:x:The node 'n7_1_0' has failed to send a keep-alive heartbeat to the rendezvous "
        "'none' due to an error of type RendezvousConnectionError.\n"
    )
    diagnosis = diagnose_text(lost * times, state="FAILED", exit_code="1:0")

    assert (diagnosis.cause, diagnosis.transient) == ("comm-remote-peer-lost", transient)


@pytest.mark.parametrize(("loss", "transient"), [("0.0", False), ("0.01", None)])
def test_a_time_out_after_the_loss_became_zero_comes_again(loss: str, transient: object) -> None:
    log = f"{{'loss': {loss}, 'grad_norm': 1.4, 'epoch': 0.1}}\n" + WATCHDOG
    diagnosis = diagnose_text(log, state="FAILED", exit_code="1:0")

    assert diagnosis.cause == "comm-collective-timeout-unexplained"
    assert diagnosis.transient is transient


REFUSED = "gpu{}:4{}:5 [1] include/socket.h:403 NCCL WARN Connect to 10.1.3.2<5> failed : refused\n"


@pytest.mark.parametrize(
    ("tasks", "transient"), [((12,), True), ((0,), None), ((12, 13), None), ((12, 3, 0), None)]
)
def test_a_refusal_that_one_node_met_alone_may_not_be_met_elsewhere(
    tasks: tuple[int, ...], transient: object
) -> None:
    log = "".join(f"{task}: {REFUSED.format(task, task)}" for task in tasks)

    found = diagnose_text(log, state="FAILED")

    assert (found.cause, found.transient) == ("comm-socket-connect", transient)
