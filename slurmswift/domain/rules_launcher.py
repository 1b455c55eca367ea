"""What torchrun, DeepSpeed's launcher and torch.multiprocessing say about the ranks they watch."""

from __future__ import annotations

from typing import Tuple

from slurmswift.domain.rule import Role, Rule

_ELASTIC = "PyTorch torch/distributed/elastic/multiprocessing/api.py 1.12 to 2.9"

LAUNCHER_RULES: Tuple[Rule, ...] = (
    Rule(
        "torchrun-rank-killed",
        Role.SUSPECT,
        "comm-remote-peer-lost",
        ("failed (exitcode: -",),
        # Not -15: that is how torchrun itself ends the ranks that are left.
        (
            (
                r"failed \(exitcode: (?P<status>-(?:4|6|7|8|9|11))\) local_rank: "
                r"(?P<local_rank>\d+) "
                r"\(pid: (?P<pid>\d+)\)"
            ),
        ),
        _ELASTIC,
        (
            "failed (exitcode: -9) local_rank: 1 (pid: 20795) of binary: /opt/venv/bin/python",
            (
                "[2024-08-26 11:02:51,003] torch.distributed.elastic.multiprocessing.api: [ERROR] "
                "failed "
                "(exitcode: -11) local_rank: 3 (pid: 90114) of binary: /opt/env/bin/python"
            ),
        ),
        ("failed (exitcode: 1) local_rank: 1 (pid: 20795) of binary: python",),
        remedy="A signal ended this rank (-9 is SIGKILL, -11 a crash, -6 an abort) and nothing "
        "here says who sent it: look in dmesg on its node for the OOM killer and in sacct for "
        "OUT_OF_MEMORY; for a crash keep a core file (ulimit -c unlimited)",
    ),
    Rule(
        "torchrun-rank-failed",
        Role.CONFIRMATION,
        "",
        ("failed (exitcode: ",),
        (
            (
                r"failed \(exitcode: (?P<status>-?\d+)\) local_rank: (?P<local_rank>\d+) "
                r"\(pid: (?P<pid>\d+)\)"
            ),
        ),
        _ELASTIC,
        ("failed (exitcode: 1) local_rank: 1 (pid: 20818) of binary: /opt/venv/bin/python",),
        ("CalledProcessError: failed with exitcode 1",),
    ),
    Rule(
        "torchrun-table",
        Role.CONFIRMATION,
        "",
        ("exitcode",),
        (r"^exitcode +: (?P<status>-?\d+) \(pid: (?P<pid>\d+)\)",),
        "PyTorch torch/distributed/elastic/multiprocessing/errors/__init__.py; one table per "
        "agent, "
        "whose first entry is first for that node alone",
        ("  exitcode  : -9 (pid: 20795)  (SIGKILL)",),
        ("exitcode of the tool: 3",),
    ),
    Rule(
        "torchrun-forced-kill",
        Role.CONFIRMATION,
        "",
        ("Unable to shutdown process",),
        (r"Unable to shutdown process (?P<pid>\d+) via \S+ ?, forcefully exitt?ing via",),
        _ELASTIC,
        (
            "Unable to shutdown process 21128 via 15, forcefully exiting via 9",
            (
                "Unable to shutdown process 77 via Signals.SIGTERM, forcefully exitting via "
                "Signals.SIGKILL"
            ),
        ),
        ("Unable to shutdown process pool",),
    ),
    Rule(
        "torchrun-signalled",
        Role.ENDING,
        "sched-cancelled",
        ("death signal", "SignalException"),
        (
            r"Received (?P<signal>\d+) death signal, shutting down workers",
            r"SignalException: Process (?P<pid>\d+) got signal: (?P<signal>\d+)",
        ),
        _ELASTIC + ", agent/server/api.py",
        (
            (
                "W1201 00:26:16.6 22550 torch/distributed/elastic/agent/server/api.py:753] "
                "Received "
                "15 death "
                "signal, shutting down workers"
            ),
            (
                "torch.distributed.elastic.multiprocessing.api.SignalException: Process 22550 got "
                "signal: 15"
            ),
        ),
        ("Sending process 22552 closing signal SIGTERM",),
        remedy="The launcher was told to end from outside (SIGTERM, SIGHUP or SIGINT): scancel, a "
        "closed terminal, a time limit. sacct -j JOBID -o State%30 tells",
    ),
    Rule(
        "torchrun-closing",
        Role.BOILERPLATE,
        "",
        ("closing signal", "ChildFailedError", "Killing subprocess"),
        (
            r"Sending process \d+ closing signal",
            r"^torch\.distributed\.elastic\.multiprocessing\.errors\.ChildFailedError",
            r"Killing subprocess \d+",
        ),
        _ELASTIC,
        (
            "Sending process 20817 closing signal SIGTERM",
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        ),
        ("ValueError: child failed",),
    ),
    Rule(
        "deepspeed-rank-failed",
        Role.CONFIRMATION,
        "",
        ("exits with return code",),
        (r"--local_rank=(?P<local_rank>\d+).{0,4000}exits with return code = (?P<status>-?\d+)",),
        "DeepSpeed deepspeed/launcher/launch.py",
        (
            (
                "[2025-07-12 10:41:19,226] [ERROR] [launch.py:321:sigkill_handler] ['python', "
                "'-u', "
                "'t.py', "
                "'--local_rank=3'] exits with return code = 1"
            ),
        ),
        ("the tool exits with return code = 1",),
    ),
    Rule(
        "spawned-rank-failed",
        Role.CONFIRMATION,
        "",
        ("terminated with",),
        (
            r"^-- Process (?P<rank>\d+) terminated with the following error",
            (
                r"ProcessExitedException: process (?P<rank>\d+) terminated with (?:signal \S+|exit "
                r"code -?\d+)"
            ),
        ),
        "PyTorch torch/multiprocessing/spawn.py",
        ("-- Process 1 terminated with the following error:",),
        ("Process group watchdog thread terminated with exception",),
    ),
    Rule(
        "nccl-rank-of-process",
        Role.CONFIRMATION,
        "",
        ("ncclCommInitRank",),
        (r"ncclCommInitRank\w* comm \S+ rank (?P<rank>\d+) nranks \d+",),
        "NCCL src/init.cc 2.8 to 2.28 (NCCL_DEBUG=INFO)",
        (
            (
                "n3:4940:4951 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 1 nranks 2 cudaDev "
                "0 busId "
                "61000 commId 0x2a6f - Init START"
            ),
        ),
        ("ncclCommInitRank failed",),
    ),
    Rule(
        "interrupted",
        Role.ENDING,
        "sched-cancelled",
        ("KeyboardInterrupt",),
        (r"^KeyboardInterrupt$",),
        "Python",
        ("[rank0]: KeyboardInterrupt",),
        ("except KeyboardInterrupt:",),
    ),
    Rule(
        "asked-by-time-limit",
        Role.ENDING,
        "sched-time-limit",
        ("this job is timed-out", "andling auto-requeue signal"),
        (
            r"Caught signal \w+ on \S{1,120}: this job is timed-out\.",
            r"[Hh]andling auto-requeue signal: \d+",
        ),
        "submitit core/job_environment.py; Lightning trainer/connectors/signal_connector.py",
        (
            "Caught signal SIGUSR2 on n17: this job is timed-out.",
            "Handling auto-requeue signal: 10",
        ),
        ("Caught signal SIGUSR2 on n17: this job is preempted.",),
    ),
    Rule(
        "asked-by-preemption",
        Role.ENDING,
        "sched-preempted",
        ("this job is preempted",),
        (r"Caught signal \w+ on \S{1,120}: this job is preempted\.",),
        "submitit core/job_environment.py",
        ("Caught signal SIGUSR2 on n17: this job is preempted.",),
        ("Caught signal SIGUSR2 on n17: this job is timed-out.",),
    ),
    Rule(
        "desync-straggler",
        Role.CONFIRMATION,
        "",
        ("didn't join collective", "joined but didn't finish", "the lagging ranks that"),
        (
            (
                r"\[(?P<rank>\d+)\] (?:finished collective #\d+.{0,120}but didn't join collective|"
                r"joined but didn't finish collective)"
            ),
            r"ranks \[(?P<rank>\d+)\] are the lagging ranks that caused",
        ),
        "PyTorch c10d TraceUtils.h 1.13 to 2.9 (TORCH_NCCL_DESYNC_DEBUG)",
        ("   - [2] finished collective #11, but didn't join collective #12 (count from 1)",),
        ("   - [0, 1, 3] joined but didn't finish collective #12",),
    ),
    Rule(
        "launcher-noise",
        Role.HARMLESS,
        "",
        (
            "leaked semaphore",
            "find_unused_parameters",
            "async_io",
            "Exception ignored in",
            "torch_dtype",
            "FutureWarning",
            "UserWarning",
            "0 errors",
        ),
        (
            r"leaked semaphore objects|leaked semaphores|find_unused_parameters=True was specified",
            r"async_io requires the dev libaio",
            r"^Exception ignored in|(?:Future|User|Deprecation)Warning: ",
            r"\b0 errors\b",
        ),
        "Python resource_tracker; PyTorch reducer.cpp; DeepSpeed op_builder",
        (
            (
                "UserWarning: resource_tracker: There appear to be 6 leaked semaphore objects to "
                "clean up at shutdown"
            ),
        ),
        ("ValueError: leaked",),
    ),
)
