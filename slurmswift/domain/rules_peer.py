"""What NCCL, gloo and c10d say when ranks that were together wait in vain or lose each other."""

from __future__ import annotations

from typing import Tuple

from slurmswift.domain.rule import Role, Rule

_NCCL = "NCCL src/misc/socket.cc, src/include/socket.h"
_GLOO = "gloo gloo/transport/tcp"
_C10D = "PyTorch torch/csrc/distributed/c10d"
_ELASTIC = "PyTorch torch/distributed/elastic/rendezvous"

PEER_RULES: Tuple[Rule, ...] = (
    # Time-outs inside collectives
    Rule(
        "nccl-watchdog",
        Role.SUSPECT,
        "comm-collective-timeout-unexplained",
        (
            "Watchdog caught collective",
            "watchdog got stuck",
            "detected by watchdog",
            "Timeout at NCCL work",
        ),
        (
            r"\[Rank (?P<rank>\d+)\].{0,60}Watchdog caught collective operation timeout",
            r"Watchdog caught collective operation timeout",
            r"watchdog got stuck for \d+ seconds without making progress",
            r"Timeout at NCCL work",
            r"[Ff]ailure detected by watchdog at work",
        ),
        _C10D + "/ProcessGroupNCCL.cpp 1.12 to 2.9",
        (
            (
                "[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught collective operation "
                "timeout: "
                "WorkNCCL(SeqNum=12, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800782 "
                "milliseconds"
            ),
            (
                "[PG ID 0 PG GUID 0 Rank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds "
                "without "
                "making progress in monitoring enqueued collectives."
            ),
        ),
        ("NCCL watchdog thread started!",),
    ),
    Rule(
        "gloo-timed-out",
        Role.SUSPECT,
        "comm-collective-timeout-unexplained",
        ("Timed out waiting",),
        (r"Timed out waiting \d+ms for (?:send|recv) operation to complete",),
        _GLOO + "/unbound_buffer.cc",
        (
            (
                "RuntimeError: [/x/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting "
                "20000ms for "
                "recv operation to complete"
            ),
        ),
        ("Timed out waiting for the download",),
    ),
    Rule(
        "barrier-rank-missing",
        Role.SUSPECT,
        "comm-collective-timeout-unexplained",
        ("monitoredBarrier",),
        (r"Ranks? (?P<rank>\d+)(?:, \d+){0,999} failed to pass monitoredBarrier in \d+ ms",),
        _C10D + "/ProcessGroupGloo.cpp",
        ("RuntimeError: [Rank 0]: Rank 3 failed to pass monitoredBarrier in 2000 ms",),
        ("[Rank 1]: Rank 1 successfully reached monitoredBarrier, but received errors",),
    ),
    Rule(
        "socket-timeout",
        Role.SUSPECT,
        "comm-rendezvous-timeout",
        ("Socket Timeout", "wait timeout after"),
        (
            (
                r"^(?:RuntimeError|torch\.distributed\.\w+): (?:\[\d+\]: params\[.{0,60}\]: )?"
                r"(?:Socket Timeout|wait timeout after)"
            ),
        ),
        _C10D + "/TCPStore.cpp",
        ("torch.distributed.DistStoreError: Socket Timeout",),
        ("requests.exceptions.ReadTimeout: Socket Timeout",),
    ),
    # A peer that went away
    Rule(
        "gloo-peer-closed",
        Role.CONSEQUENCE,
        "comm-remote-peer-lost",
        ("gloo/transport/tcp/", "Application timeout caused pair closure", "monitoredBarrier"),
        (
            (
                r"gloo/transport/tcp/\S{1,40}\] (?:Connection closed by "
                r"peer|(?:Read|Write|readv?|writev?) error|"
                r"(?:readv|writev|read|write|sendmsg|recv) \[)"
            ),
            r"Connection closed by peer \[",
            r"Application timeout caused pair closure",
            r"monitoredBarrier, but received errors while waiting for send/recv from rank \d+",
        ),
        _GLOO + "/pair.cc",
        (
            (
                "RuntimeError: [/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
                "[10.0.0.1]:35251. "
                "This is typically caused by a remote worker crashing."
            ),
            (
                "RuntimeError: [/x/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.1]:1: "
                "Connection reset by peer."
            ),
        ),
        (
            (
                "RuntimeError: [/x/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 20ms "
                "for recv "
                "operation to complete"
            ),
        ),
    ),
    Rule(
        "nccl-peer-closed",
        Role.CONSEQUENCE,
        "comm-remote-peer-lost",
        (
            "closed by remote peer",
            "Connection reset",
            "ncclRemoteError",
            "remote process exited",
            "while polling for opId",
            "Broken pipe",
            "communicator was aborted",
        ),
        (
            (
                r"NCCL WARN .{0,80}(?:[Cc]onnection closed by remote peer|(?:recv|send) "
                r"(?:from|to) "
                r"\S{1,80} failed ?: "
                r"?(?:Connection reset|Broken pipe))"
            ),
            r"NCCL WARN Socket recv failed while polling",
            r"ncclRemoteError|remote process exited or there was a network error",
            r"NCCL communicator was aborted on rank",
        ),
        _NCCL + ", NCCL src/init.cc",
        (
            (
                "n1:5:7 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by "
                "remote "
                "peer n3<47113>"
            ),
            (
                "n1:4:4 [0] misc/socket.cc:30 NCCL WARN socketProgressOpt: Call to recv from "
                "10.1.2.8<52035> "
                "failed : Connection reset by peer"
            ),
            (
                "ncclRemoteError: A call failed possibly due to a network error or a remote "
                "process "
                "exiting prematurely."
            ),
        ),
        ("n1:5:7 [0] NCCL INFO comm 0x1 rank 0 closed",),
    ),
    Rule(
        "rendezvous-host-lost",
        Role.CONSEQUENCE,
        "comm-remote-peer-lost",
        ("keep-alive heartbeat",),
        (
            (
                r"has failed to send a keep-alive heartbeat to the rendezvous .{0,200}"
                r"RendezvousConnectionError"
            ),
        ),
        _ELASTIC + "/dynamic_rendezvous.py",
        (
            (
                "WARNING:x:The node 'n37_1872_0' has failed to send a keep-alive heartbeat to the "
                "rendezvous 'none' due to an error of type RendezvousConnectionError."
            ),
        ),
        ("The node 'n37_1872_0' has failed to shutdown the rendezvous 'none' due to an error",),
        advice="yes",
        remedy="The node that held the rendezvous is gone, and this one waited for it in vain: see "
        "what became of that node (sinfo -R, scontrol show node), then resume without it. A job "
        "so left does not end by itself: --kill-on-bad-exit=1 and a watcher end it sooner",
    ),
    Rule(
        "store-peer-closed",
        Role.CONSEQUENCE,
        "comm-remote-peer-lost",
        (
            "onnection reset by peer",
            "Broken pipe",
            "Connection was likely closed",
            "keep-alive heartbeat",
            "RendezvousClosedError",
            "RendezvousConnectionError",
            "C10d store has failed",
        ),
        (
            (
                r"^(?:RuntimeError|torch\.\S{0,80}|ValueError): .{0,400}(?:Connection reset by "
                r"peer|Broken pipe|"
                r"Connection closed by peer|Connection was likely closed)"
            ),
            (
                r"\[E.{0,80}\[c10d\] .{0,300}(?:Connection reset by peer|Broken pipe|Connection "
                r"was "
                r"likely closed)"
            ),
            r"has failed to send a keep-alive heartbeat to the rendezvous",
            (
                r"RendezvousClosedError|RendezvousConnectionError|The connection to the C10d store "
                r"has failed"
            ),
        ),
        _C10D + "/TCPStore.cpp; " + _ELASTIC,
        (
            (
                "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was "
                "likely "
                "closed. Did the remote server shutdown or crash?"
            ),
            "RuntimeError: Broken pipe",
        ),
        (
            (
                "[W1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=73): Failed to "
                "recv, got 0 bytes."
            ),
        ),
    ),
    Rule(
        "nccl-call-failed",
        Role.CONSEQUENCE,
        "comm-remote-peer-lost",
        (
            "NCCL error in",
            "NCCL Error ",
            "ncclSystemError",
            "ncclInternalError",
            "ncclUnhandledCudaError",
        ),
        (
            r"^(?:RuntimeError|torch\.distributed\.\w+): NCCL (?:error in|Error \d+): ",
            r"^nccl(?:System|Internal|UnhandledCuda)Error: ",
        ),
        _C10D + "/NCCLUtils.hpp; NCCL's own reason stands in its WARN line",
        (
            (
                "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1331, "
                "unhandled "
                "system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.18.5"
            ),
            (
                "ncclSystemError: System call (e.g. socket, malloc) or external library call "
                "failed "
                "or device error."
            ),
        ),
        ("NCCL error handling is set to async",),
        remedy="NCCL names no reason: set NCCL_DEBUG=INFO for the next attempt. Usual ones are "
        "CUDA or NCCL versions that differ between nodes, a full /dev/shm, an old driver, or a "
        "peer that ended; a two-node all-reduce test tells the environment from the code",
    ),
    Rule(
        "process-crashed",
        Role.CONSEQUENCE,
        "comm-remote-peer-lost",
        ("Fatal Python error: ", "Caught signal ", " *** Process received signal ***", "MPI_ABORT"),
        (
            r"^Fatal Python error: (?:Segmentation fault|Aborted|Bus error|Illegal instruction)",
            r"Caught signal \d+ \((?:Segmentation fault|Aborted|Bus error|Illegal instruction)",
            r"\*\*\* Process received signal \*\*\*",
            r"^MPI_ABORT was invoked on rank (?P<rank>\d+) in communicator",
        ),
        "Python faulthandler; UCX and Open MPI signal handlers: the process says that, not why",
        (
            "Fatal Python error: Segmentation fault",
            "[n1:7:0:7] Caught signal 11 (Segmentation fault: address not mapped to object)",
            "[n1:00042] *** Process received signal ***",
            "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",
        ),
        ("Fatal Python error: init_import_site: Failed to import the site module",),
        remedy="A process crashed in native code and says no more: the frames below the line name "
        "the library; keep a core file (ulimit -c unlimited), and look in dmesg on its node",
    ),
    Rule(
        "nccl-aftermath",
        Role.BOILERPLATE,
        "",
        (
            "data inconsistency",
            "Some NCCL operations have failed",
            "failed collective not found",
            "dump debug info",
            "dump signal",
            "should dump",
        ),
        (
            r"To avoid data inconsistency, we are taking the entire process down",
            r"Some NCCL operations have failed or timed out",
            r"Stack trace of the failed collective not found",
            (
                r"preparing to dump debug info|Received a dump signal|Failed to check the .should "
                r"dump. flag"
            ),
        ),
        _C10D + "/ProcessGroupNCCL.cpp",
        ("[Rank 3] To avoid data inconsistency, we are taking the entire process down.",),
        ("Watchdog caught collective operation timeout",),
    ),
    Rule(
        "network-noise",
        Role.HARMLESS,
        "",
        (
            "libibverbs",
            "No plugin found",
            "libnccl-net",
            "hostname of the client socket cannot be retrieved",
            "destroy_process_group",
            "retrying",
        ),
        (
            r"Failed to open libibverbs\.so|Could not find:? libnccl-net|No plugin found",
            r"The hostname of the client socket cannot be retrieved",
            r"destroy_process_group\(\) was not called",
            r"NCCL INFO .{0,200}retrying",
        ),
        "NCCL src/misc/ibvwrap.cc, src/misc/socket.cc; PyTorch socket.cpp",
        ("n1:1:1 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",),
        ("NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",),
    ),
)
