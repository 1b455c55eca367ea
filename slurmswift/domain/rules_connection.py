"""What NCCL, gloo, c10d and torch's rendezvous say when ranks cannot come together."""

from __future__ import annotations

from typing import Tuple

from slurmswift.domain.rule import Role, Rule

_NCCL = "NCCL src/misc/socket.cc, src/include/socket.h"
_GLOO = "gloo gloo/transport/tcp"
_C10D = "PyTorch torch/csrc/distributed/c10d"
_ELASTIC = "PyTorch torch/distributed/elastic/rendezvous"
# A wrong choice of interface shows as an address that cannot lead to another node.
_NOWHERE = r"(?P<peer>127\.0\.0\.1|\[?::1\]?|fe80:[0-9a-fA-F:]{1,40}(?:%\w{1,32})?)"

CONNECTION_RULES: Tuple[Rule, ...] = (
    # Wrong interface
    Rule(
        "nccl-no-interface",
        Role.ROOT,
        "comm-interface-misconfig",
        ("ocket interface found", "No interface found in the same subnet", "AF_INET"),
        (
            r"[Nn]o socket interface found",
            r"No interface found in the same subnet as",
            r"with family \d+ is neither AF_INET",
        ),
        _NCCL + ", src/bootstrap.cc",
        (
            "n1:58:58 [3] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found",
            (
                "ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) "
                "nor "
                "AF_INET6(10)"
            ),
        ),
        ("n1:58:58 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",),
    ),
    Rule(
        "nccl-address-leads-nowhere",
        Role.ROOT,
        "comm-interface-misconfig",
        ("Connect to ", "connect to "),
        (r"[Cc]onnect to " + _NOWHERE + r"<\d+> (?:failed|returned) ?: ?(?!.{0,80}retrying)",),
        _NCCL,
        (
            (
                "socketStartConnect: Connect to 127.0.0.1<45069> failed : Software caused "
                "connection abort"
            ),
            (
                "n1:1:2 [5] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to "
                "fe80::1234:56ff:fe78:9abc%ib1<17943> failed : Connection refused"
            ),
        ),
        (
            (
                "n1:1:2 [1] include/socket.h:403 NCCL WARN Connect to 10.1.3.2<5682> failed : "
                "Connection refused"
            ),
        ),
    ),
    Rule(
        "nccl-wrong-gid",
        Role.ROOT,
        "comm-interface-misconfig",
        ("ibv_modify_qp failed",),
        (
            (
                r"ibv_modify_qp failed with (?:error |\d+ )(?:Network is unreachable|No such "
                r"device|"
                r"Invalid argument|No such file|No route to host)"
            ),
        ),
        "NCCL src/misc/ibvwrap.cc",
        (
            (
                "n3:2:3 [0] misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error "
                "Network is unreachable"
            ),
            "NCCL WARN Call to ibv_modify_qp failed with 19 No such device, on dev mlx5_0:1",
        ),
        ("NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",),
    ),
    Rule(
        "gloo-no-interface",
        Role.ROOT,
        "comm-interface-misconfig",
        ("Unable to find ", "Unable to resolve hostname to a (local) address"),
        (
            r"Unable to find (?:address|interface) for: (?P<peer>\S+)",
            r"Unable to resolve hostname to a \(local\) address",
        ),
        _GLOO + "/device.cc, ProcessGroupGloo.cpp",
        (
            "RuntimeError: [/x/gloo/transport/tcp/device.cc:128] Unable to find address for: hsn7",
            "RuntimeError: Unable to find interface for: hsn7",
        ),
        ("Unable to find the address book",),
    ),
    # Fabric
    Rule(
        "nccl-fabric",
        Role.SUSPECT,
        "comm-network-fabric",
        (
            "NET/",
            "ibv_modify_qp failed",
            "ibv_poll_cq",
            "Transport retry count exceeded",
            "ibv_reg_mr",
        ),
        (
            (
                r"NCCL WARN NET/IB(?:/GIN)? ?: .{0,60}Got completion (?:from peer (?P<peer>\S+) "
                r")?with "
                r"(?:status|error)"
            ),
            r"NCCL WARN NET/IB ?: .{0,120}(?:async (?:fatal )?event|[Pp]ort error|fatal error)",
            r"ibv_modify_qp failed with (?:error |\d+ )Connection timed out",
            r"NCCL WARN Call to (?:ibv_poll_cq|ibv_reg_mr\w*)",
            r"Transport retry count exceeded on (?P<peer>mlx\w+:\d+|\S{1,60})",
            (
                r"NCCL WARN NET/OFI .{0,120}(?:UNDELIVERABLE|[Cc]ompletion with "
                r"error|completed with error|Unreachable|unreachable)"
            ),
        ),
        "NCCL src/transport/net_ib.cc 2.7 to 2.28, aws-ofi-nccl",
        (
            (
                "n2:57:59 [0] transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer "
                "10.2.0.5<33092> with error 12, opcode 0, len 0, vendor err 129 (Recv)"
            ),
            (
                "n2:57:59 [1] transport/net_ib/p2p.cc:648 NCCL WARN NET/IB: Got completion from "
                "peer "
                "10.1.5.3<4055> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0)"
            ),
            "ibvwrap.cc:160 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
            "NCCL WARN NET/OFI Request 0x1 completed with error. RC: 107. Error: UNDELIVERABLE",
            "NCCL WARN NET/OFI Request completed with error. RC: 107. Error: 4105 (Unresponsive",
        ),
        ("n1:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",),
    ),
    # Connections that could not be made
    Rule(
        "nccl-connect-failed",
        Role.SUSPECT,
        "comm-socket-connect",
        ("onnect to ", "Call to connect", "socketPollConnect", "socketFinalizeConnect"),
        (
            r"NCCL WARN .{0,80}[Cc]onnect to (?P<peer>\S{1,80}) (?:failed|returned)",
            r"^socket\w{0,20}: [Cc]onnect to (?P<peer>\S{1,80}) (?:failed|returned)",
            r"NCCL WARN .{0,40}Call to connect .{0,80}(?:refused|timed out|No route)",
            (
                r"NCCL WARN socket(?:PollConnect|FinalizeConnect).{0,160}(?:refused|timed "
                r"out|No route|"
                r"no POLLOUT|exceeded retries)"
            ),
        ),
        _NCCL,
        (
            (
                "n1:1:2 [1] include/socket.h:403 NCCL WARN Connect to 10.1.3.2<5682> failed : "
                "Connection refused"
            ),
            (
                "socketStartConnect: Connect to 10.1.3.2<5682> failed : Software caused connection "
                "abort"
            ),
            (
                "NCCL WARN socketPollConnect: connect to 10.1.3.2<57> returned Connection refused, "
                "exceeded retries (20000)"
            ),
        ),
        ("n1:1:2 [0] NCCL INFO Call to connect returned Connection timed out, retrying",),
    ),
    Rule(
        "gloo-mesh-too-large",
        Role.SUSPECT,
        "comm-socket-connect",
        ("connectFullMesh failed",),
        (r"Gloo connectFullMesh failed with .{0,200}\] no error",),
        _GLOO + "/pair.cc, ProcessGroupGloo.cpp 2.2 to 2.9",
        (
            (
                "RuntimeError: Gloo connectFullMesh failed with [../gloo/transport/tcp/pair.cc:14] "
                "no error"
            ),
        ),
        (
            (
                "RuntimeError: Gloo connectFullMesh failed with [../gloo/transport/tcp/pair.cc:15] "
                "timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:28581$1"
            ),
        ),
        advice="no",
        remedy="No peer refused: gloo connects every rank with every other, and at this size the "
        "connections do not all come about in time. Make fewer or smaller gloo groups (Megatron: "
        "--disable-gloo-process-groups), raise ulimit -n and net.core.somaxconn, or the group's "
        "timeout. Another start with the same settings fails the same way",
    ),
    Rule(
        "gloo-connect-failed",
        Role.SUSPECT,
        "comm-socket-connect",
        ("connectFullMesh failed", "gloo/transport/tcp/"),
        (
            r"Gloo connectFullMesh failed with",
            r"gloo/transport/tcp/\S{1,40}\] (?:connect \S{1,80}: |timed out connecting)",
        ),
        _GLOO + "/pair.cc, ProcessGroupGloo.cpp",
        (
            (
                "RuntimeError: Gloo connectFullMesh failed with "
                "[../gloo/transport/tcp/pair.cc:152] "
                "timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:28581$1"
            ),
            (
                "RuntimeError: [../gloo/transport/tcp/pair.cc:799] connect [10.0.0.7]:3100: No "
                "route to host"
            ),
        ),
        ("[../gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:35251.",),
    ),
    Rule(
        "c10d-connect-timed-out",
        Role.SUSPECT,
        "comm-socket-connect",
        (
            "client socket has",
            "onnection refused",
            "connect() timed out",
            "imed out",
            "gaierror",
            "host not found: ",
            "Could not resolve hostname",
            "ssh: connect to host",
            "No route to host",
        ),
        (
            (
                r"^(?!.{0,400}retrying \(try=).{0,300}The client socket has (?:timed out after "
                r"\d+m?s|failed to "
                r"connect to any network address).{0,60}?(?:to|of) "
                r"\(?(?P<peer>[^,()\s]{1,120}?)(?:,|:\d)"
            ),
            (
                r"^(?:RuntimeError|ValueError|TimeoutError|torch\.distributed\.\w+): "
                r"(?:connect\(\) "
                r"timed out|"
                r"Connection refused|Connection timed out|No route to host)"
            ),
            r"^socket\.gaierror: \[Errno -\d\]|^(?:Value|Runtime)Error: host not found: ",
            r"^ssh: (?:Could not resolve hostname|connect to host) (?P<peer>[^\s:]{1,120})",
        ),
        _C10D + "/socket.cpp, TCPStore.cpp 1.12 to 2.9",
        (
            (
                "torch.distributed.DistNetworkError: The client socket has timed out after 20000ms "
                "while "
                "trying to connect to (n1, 29717)."
            ),
            (
                "[E socket.cpp:610] [c10d] The client socket has failed to connect to any network "
                "address of (n5, 40323)."
            ),
            "RuntimeError: connect() timed out. Original timeout was 1800000 ms.",
            (
                "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying "
                "to connect to 192.0.0.1:1234"
            ),
            "ValueError: host not found: Temporary failure in name resolution",
        ),
        (
            (
                "[W1201 00:16:50.4 TCPStore.cpp:340] [c10d] TCP client failed to connect/validate "
                "to host "
                "n1:29716 - retrying (try=0, timeout=20000ms, delay=119ms): The client socket has "
                "timed "
                "out after 20000ms while trying to connect to (n1, 29716)."
            ),
        ),
    ),
    # Rendezvous
    Rule(
        "rendezvous-clients-missing",
        Role.SUSPECT,
        "comm-rendezvous-timeout",
        ("clients joined", "RendezvousTimeoutError", "store based barrier"),
        (
            r"Timed out after \d+ seconds waiting for clients\. \d+/\d+ clients joined",
            r"^(?:torch\.\S{0,80}\.)?RendezvousTimeoutError",
            r"Timed out (?:initializing process group )?in store based barrier",
        ),
        _C10D + "/TCPStore.cpp; " + _ELASTIC + "/api.py; distributed_c10d.py",
        (
            (
                "torch.distributed.DistStoreError: Timed out after 31 seconds waiting for clients. "
                "1/2 clients joined."
            ),
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
            (
                "RuntimeError: Timed out initializing process group in store based barrier on "
                "rank: "
                "0, for key: a"
            ),
        ),
        ("Waiting in store based barrier to initialize process group for rank: 1",),
    ),
    Rule(
        "nccl-id-not-received",
        Role.SUSPECT,
        "comm-rendezvous-timeout",
        ("ncclUniqueId from",),
        (
            (
                r"\[(?P<rank>\d+)\] is setting up NCCL communicator and retr\w+ ncclUniqueId from "
                r"\[\d+\] via c10d "
                r"key-value store by key '.{0,80}', but store->get\(.{0,80}\) got error: "
                r"(?:Socket Timeout|wait timeout)"
            ),
        ),
        _C10D + "/ProcessGroupNCCL.cpp 1.11 to 2.9",
        (
            (
                "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and "
                "retrieving "
                "ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') "
                "got "
                "error: Socket Timeout"
            ),
        ),
        (
            (
                "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and "
                "retrieving "
                "ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') "
                "got "
                "error: Connection reset by peer"
            ),
        ),
        remedy="Rank 0 never published its id: see what rank 0 did all that time (loading, "
        "tokenizing, waiting). Raise the time-out only if that was legitimate work",
    ),
    Rule(
        "rank-zero-preprocessing",
        Role.CONFIRMATION,
        "config-timeout-too-short",
        ("okeniz",),
        (r"(?:Running tokenizer|Tokenizing).{0,80}\d%",),
        "datasets arrow_dataset.py and the trainers' progress bars",
        ("Running tokenizer on dataset (num_proc=8):  41%|####",),
        ("loading tokenizer 100 files",),
    ),
    Rule(
        "standalone-store-lost",
        Role.SUSPECT,
        "config-port-in-use",
        ("has failed to",),
        (
            # Only torchrun --standalone names a rendezvous by a UUID, and its store is on the
            # same host: what ended the store was another job that held the shared port.
            (
                r"The node '(?P<node>[\w.-]{1,80}?)_\d+_\d+' has failed to \S{1,20} .{0,40}the "
                r"rendezvous "
                r"'[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}' due to an "
                r"error of "
                r"type "
                r"RendezvousConnectionError"
            ),
        ),
        "PyTorch torch/distributed/run.py (standalone: port 29400 before 2.1)",
        (
            (
                "WARNING:x:The node 'n4_3882_0' has failed to shutdown the rendezvous "
                "'9987b766-350c-48bf-aa45-cfc2da182f33' due to an error of type "
                "RendezvousConnectionError."
            ),
        ),
        (
            (
                "WARNING:x:The node 'n4_3882_0' has failed to shutdown the rendezvous 'none' "
                "due to an "
                "error of type RendezvousConnectionError."
            ),
        ),
        remedy="Two jobs shared one rendezvous port on this host and the other one ended: give "
        "each its own free port",
    ),
)
