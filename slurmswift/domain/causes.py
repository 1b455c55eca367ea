"""Every cause that a diagnosis can name: its category, whether resuming elsewhere helps, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional, Tuple


@dataclass(frozen=True)
class Cause:
    """One answer of a diagnosis. ``transient`` is None where it depends."""

    name: str
    category: str
    transient: Optional[bool]
    meaning: str
    remedy: str


_COLLECT = (
    "For the next attempt set NCCL_DEBUG=INFO (gloo: TORCH_DISTRIBUTED_DEBUG=DETAIL) and "
    "TORCH_FR_BUFFER_SIZE=2000 with TORCH_NCCL_DUMP_ON_TIMEOUT=1, and give every rank its own log"
)

_ALL: Tuple[Cause, ...] = (
    Cause(
        "comm-network-fabric",
        "communication",
        None,
        "the network between the nodes failed: InfiniBand, RoCE, Slingshot, EFA, a link",
        "Look at the port of the named node (ibstat, rdma link, ethtool INTERFACE, dmesg) and at "
        "its switch; resume without that node. Two nodes with a minimal all-reduce tell the "
        "network from the code",
    ),
    Cause(
        "comm-socket-connect",
        "communication",
        None,
        "a TCP connection between nodes could not be made",
        "Check that the address resolves and is reachable from the other nodes (getent hosts, "
        "ping, nc -vz HOST PORT), that it is on the training's interface (NCCL_SOCKET_IFNAME, "
        "GLOO_SOCKET_IFNAME), and that no firewall stands between compute nodes. If one node over "
        "loopback works, it is the network",
    ),
    Cause(
        "comm-interface-misconfig",
        "communication",
        False,
        "the wrong network interface, GID or address family was chosen",
        "Name the interface that joins the nodes: NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME (see "
        "ip -br addr on two nodes); for RoCE also NCCL_IB_HCA and NCCL_IB_GID_INDEX (show_gids). "
        "Another start with the same settings fails the same way",
    ),
    Cause(
        "comm-rendezvous-timeout",
        "communication",
        None,
        "some nodes never came to the rendezvous, or came too late",
        "See which node is missing in the log; check that all got the same address, port and "
        "--rdzv_id, and that none was still starting (container pull, slow import). Raise the "
        "rendezvous time-out only if all were on their way",
    ),
    Cause(
        "comm-collective-timeout-unexplained",
        "communication",
        None,
        "ranks waited for others in a collective until the time-out; the logs do not say why",
        "Resume from the last checkpoint. If it comes again at the same step, ranks do different "
        "work (data running out, a branch on one rank); if not, a rank or the network hung. "
        + _COLLECT,
    ),
    Cause(
        "comm-remote-peer-lost",
        "communication",
        None,
        "a rank vanished and its own reason is not in these logs",
        "Look for the first rank that ended: its own log, dmesg on its node (OOM killer, Xid), "
        "sacct for the step. " + _COLLECT,
    ),
    Cause(
        "hw-gpu-ecc",
        "hardware",
        True,
        "a GPU's memory had an error that could not be corrected",
        "Resume without this node and report it; nvidia-smi -q -d ECC,ROW_REMAPPER shows whether "
        "the card needs a reset or a replacement",
    ),
    Cause(
        "hw-gpu-fault",
        "hardware",
        True,
        "a GPU was lost, hung or did not start",
        "Resume without this node and report it with the Xid or the message (nvidia-smi, dmesg)",
    ),
    Cause(
        "hw-driver-mismatch",
        "hardware",
        True,
        "the node's GPU driver does not match the libraries in use",
        "Resume on other nodes; report the node. If all nodes say so, the environment's CUDA is "
        "newer than the driver: use an older build",
    ),
    Cause(
        "hw-node-failure",
        "hardware",
        True,
        "a whole node crashed, stopped answering or was declared down",
        "Resume without this node; sinfo -R and scontrol show node NAME give Slurm's reason",
    ),
    Cause(
        "mem-cuda-oom",
        "memory",
        False,
        "the GPU's memory was not enough for this job",
        "Make it need less: smaller micro batch with more accumulation, activation checkpointing, "
        "ZeRO or FSDP sharding, shorter sequences, "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. Check with nvidia-smi that nobody else "
        "used the GPU",
    ),
    Cause(
        "mem-host-oom",
        "memory",
        False,
        "the node's memory, or the job's share of it, was not enough: the kernel killed a process",
        "Ask for more (--mem, --mem-per-cpu) or use less (fewer data loader workers, no whole "
        "data set in memory, ranks that load the model in turn); sacct -o MaxRSS shows the need. "
        "If it grows with the steps, it is a leak",
    ),
    Cause(
        "mem-shm-exhausted",
        "memory",
        False,
        "/dev/shm was too small",
        "Enlarge it where the job may (--shm-size of the container), lower num_workers or the "
        "prefetch, or torch.multiprocessing.set_sharing_strategy('file_system'). df -h /dev/shm "
        "shows who fills it; remove only your own files there",
    ),
    Cause(
        "storage-full",
        "storage",
        False,
        "no space left, or the quota is used up",
        "Make room or save elsewhere (df -h, df -i, quota or lfs quota), then resume. The "
        "checkpoint that was being written is not whole",
    ),
    Cause(
        "storage-fs-error",
        "storage",
        True,
        "the file system failed under the job",
        "Resume after a while; if it happens on one node only, leave that node out and report it",
    ),
    Cause(
        "ckpt-corrupt",
        "checkpoint",
        False,
        "a checkpoint or state file is truncated or unreadable",
        "Resume from the one before it (slurmswift checkpoints DIR) and move the damaged one aside",
    ),
    Cause(
        "ckpt-missing-files",
        "checkpoint",
        False,
        "the checkpoint lacks files that this rank needs",
        "Resume from a whole one (slurmswift checkpoints DIR). Written on node-local disks? Save "
        "to a shared directory",
    ),
    Cause(
        "ckpt-save-race",
        "checkpoint",
        True,
        "ranks or nodes got in each other's way while saving",
        "Resume. To keep it away, let one rank make and rename directories (save_on_each_node "
        "false on shared storage) and update the trainer",
    ),
    Cause(
        "ckpt-incompatible",
        "checkpoint",
        False,
        "the checkpoint is intact but does not fit this code or configuration",
        "Go back to the settings, world size and versions that wrote it, or convert it; a restart "
        "cannot help",
    ),
    Cause(
        "config-rank-topology",
        "config",
        False,
        "ranks, devices, world size or launcher do not fit together",
        "Check nodes, tasks per node, processes per node and visible GPUs against each other and "
        "against the parallel sizes and the batch equation",
    ),
    Cause(
        "config-port-in-use",
        "config",
        True,
        "the rendezvous port was taken or shared with another job",
        "Choose a free port for each attempt (slurmswift does); never a fixed one. ss -ltnp on "
        "the node shows who holds it",
    ),
    Cause(
        "config-timeout-too-short",
        "config",
        False,
        "a step that is slow for good reason took longer than a time-out",
        "Raise the time-out (--ddp_timeout in HF and ms-swift, init_process_group(timeout=)), or "
        "do the slow work before the ranks meet",
    ),
    Cause(
        "config-bad-arguments",
        "config",
        False,
        "the program did not understand its arguments",
        "Correct the arguments in the recipe; slurmswift render shows the command as it is run",
    ),
    Cause(
        "config-hub-unreachable",
        "config",
        False,
        "the model hub could not be reached or refused",
        "Download before the job and set HF_HUB_OFFLINE=1, or give compute nodes a proxy; for a "
        "refusal check the token and the model's terms",
    ),
    Cause(
        "config-ulimit-open-files",
        "config",
        False,
        "too many open files",
        "Raise the limit (ulimit -n in environment.setup) or open fewer (num_workers, shards)",
    ),
    Cause(
        "code-import-env",
        "code",
        False,
        "a package is missing or was built for something else",
        "Correct environment.setup or the container; try the import on a compute node with the "
        "same python",
    ),
    Cause(
        "code-python-exception",
        "code",
        False,
        "the training's own code raised an exception",
        "Read the traceback at the named line and correct the code; a restart cannot help",
    ),
    Cause(
        "code-pickle-error",
        "code",
        False,
        "an object could not be sent to worker processes",
        "Do not hand open files, lambdas or local functions to data loader workers; "
        "num_workers=0 shows whether it is that. Different DeepSpeed versions between nodes also "
        "do this",
    ),
    Cause(
        "code-cuda-kernel-bug",
        "code",
        False,
        "a GPU kernel accessed what it must not, or asserted",
        "Run with CUDA_LAUNCH_BLOCKING=1 to see the true place; check indices, labels and shapes",
    ),
    Cause(
        "code-collective-desync",
        "code",
        False,
        "ranks called different collectives, or with different sizes",
        "Look for a branch, a logging key or a data length that differs between ranks; "
        "TORCH_DISTRIBUTED_DEBUG=DETAIL names the call",
    ),
    Cause(
        "data-bad-sample",
        "data",
        False,
        "a sample is corrupt or odd",
        "Find and drop the sample (the traceback or the index names it), or let the loader skip it",
    ),
    Cause(
        "data-missing",
        "data",
        False,
        "an input path does not exist",
        "Check the path on a compute node: relative paths, node-local disks and mounts of the "
        "container are the usual reasons",
    ),
    Cause(
        "numerics-divergence",
        "data",
        False,
        "the training diverged: NaN, inf or the lowest loss scale",
        "Resume from an older checkpoint with a lower learning rate, bf16 or clipping, and look at "
        "the data of the last steps",
    ),
    Cause(
        "sched-time-limit",
        "scheduler",
        True,
        "the job reached its time limit",
        "Resume from the last checkpoint; save more often, or early enough before the end",
    ),
    Cause(
        "sched-preempted",
        "scheduler",
        True,
        "the job was preempted",
        "Resume from the last checkpoint; it starts when there is room again",
    ),
    Cause(
        "sched-cancelled",
        "scheduler",
        None,
        "somebody or something outside ended the job",
        "sacct -j JOBID -o State%30 says who cancelled; slurmswift resume RUN goes on",
    ),
    Cause(
        "sched-launch-failure",
        "scheduler",
        None,
        "Slurm could not start the job's processes",
        "Resume without the named node; sinfo -R and the node's slurmd log say why",
    ),
    Cause("none", "none", None, "nothing failed", "Nothing to do"),
    Cause(
        "unexplained",
        "unknown",
        None,
        "it failed, and nothing in the evidence says why",
        "Look at the end of every rank's log, dmesg on the nodes and sacct for the job. "
        + _COLLECT,
    ),
)

CAUSES: Dict[str, Cause] = {cause.name: cause for cause in _ALL}
