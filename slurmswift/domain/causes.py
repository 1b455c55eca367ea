"""Every cause that a diagnosis can name: category, advice on resuming, what to do."""

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
        transient=None,
        meaning="the network between the nodes failed: InfiniBand, RoCE, Slingshot, EFA, a link",
        remedy=(
            "Look at the port of the named node (ibstat, rdma link, ethtool INTERFACE, dmesg) and "
            "at its switch; resume without that node. Two nodes with a minimal all-reduce tell "
            "the network from the code"
        ),
    ),
    Cause(
        "comm-socket-connect",
        "communication",
        transient=None,
        meaning="a TCP connection between nodes could not be made",
        remedy=(
            "Check that the address resolves and is reachable from the other nodes (getent hosts, "
            "ping, nc -vz HOST PORT), that it is on the training's interface (NCCL_SOCKET_IFNAME, "
            "GLOO_SOCKET_IFNAME), and that no firewall stands between compute nodes. If one node "
            "over loopback works, it is the network"
        ),
    ),
    Cause(
        "comm-interface-misconfig",
        "communication",
        transient=False,
        meaning="the wrong network interface, GID or address family was chosen",
        remedy=(
            "Name the interface that joins the nodes: NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME "
            "(see ip -br addr on two nodes); for RoCE also NCCL_IB_HCA and NCCL_IB_GID_INDEX "
            "(show_gids). Another start with the same settings fails the same way"
        ),
    ),
    Cause(
        "comm-rendezvous-timeout",
        "communication",
        transient=None,
        meaning="some nodes never came to the rendezvous, or came too late",
        remedy=(
            "See which node is missing in the log; check that all got the same address, port and "
            "--rdzv_id, and that none was still starting (container pull, slow import). Raise the "
            "rendezvous time-out only if all were on their way"
        ),
    ),
    Cause(
        "comm-collective-timeout-unexplained",
        "communication",
        transient=None,
        meaning=(
            "ranks waited for others in a collective until the time-out; the logs do not say why"
        ),
        remedy=(
            "Resume from the last checkpoint. If it comes again at the same step, ranks do "
            "different work (data running out, a branch on one rank); if not, a rank or the "
            "network hung. " + _COLLECT
        ),
    ),
    Cause(
        "comm-remote-peer-lost",
        "communication",
        transient=None,
        meaning="a rank vanished and its own reason is not in these logs",
        remedy="Look for the first rank that ended: its log, dmesg on its node. " + _COLLECT,
    ),
    Cause(
        "hw-gpu-ecc",
        "hardware",
        transient=True,
        meaning="a GPU's memory had an error that could not be corrected",
        remedy=(
            "Resume without this node and report it; nvidia-smi -q -d ECC,ROW_REMAPPER shows "
            "whether the card needs a reset or a replacement"
        ),
    ),
    Cause(
        "hw-gpu-fault",
        "hardware",
        transient=True,
        meaning="a GPU was lost, hung or did not start",
        remedy=(
            "Resume without this node and report it with the Xid or the message (nvidia-smi, dmesg)"
        ),
    ),
    Cause(
        "hw-driver-mismatch",
        "hardware",
        transient=True,
        meaning="the node's GPU driver does not match the libraries in use",
        remedy=(
            "Resume on other nodes; report the node. If all nodes say so, the environment's CUDA "
            "is newer than the driver: use an older build"
        ),
    ),
    Cause(
        "hw-node-failure",
        "hardware",
        transient=True,
        meaning="a whole node crashed, stopped answering or was declared down",
        remedy="Resume without this node; sinfo -R and scontrol show node NAME give Slurm's reason",
    ),
    Cause(
        "mem-cuda-oom",
        "memory",
        transient=False,
        meaning="the GPU's memory was not enough for this job",
        remedy=(
            "Make it need less: smaller micro batch with more accumulation, activation "
            "checkpointing, ZeRO or FSDP sharding, shorter sequences, "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. Check with nvidia-smi that nobody "
            "else used the GPU"
        ),
    ),
    Cause(
        "mem-host-oom",
        "memory",
        transient=False,
        meaning=(
            "the node's memory, or the job's share of it, was not enough: the kernel killed a "
            "process"
        ),
        remedy=(
            "Ask for more (--mem, --mem-per-cpu) or use less (fewer data loader workers, no whole "
            "data set in memory, ranks that load the model in turn); sacct -o MaxRSS shows the "
            "need. If it grows with the steps, it is a leak"
        ),
    ),
    Cause(
        "mem-shm-exhausted",
        "memory",
        transient=False,
        meaning="the shared memory, /dev/shm, was too small",
        remedy=(
            "Enlarge it where the job may (--shm-size of the container), lower num_workers or the "
            "prefetch, or torch.multiprocessing.set_sharing_strategy('file_system'). df -h "
            "/dev/shm shows who fills it; remove only your own files there"
        ),
    ),
    Cause(
        "storage-full",
        "storage",
        transient=False,
        meaning="no space left, or the quota is used up",
        remedy=(
            "Make room or save elsewhere (df -h, df -i, quota or lfs quota), then resume. The "
            "checkpoint that was being written is not whole"
        ),
    ),
    Cause(
        "storage-fs-error",
        "storage",
        transient=True,
        meaning="the file system failed under the job",
        remedy=(
            "Resume after a while; if it happens on one node only, leave that node out and report "
            "it"
        ),
    ),
    Cause(
        "ckpt-corrupt",
        "checkpoint",
        transient=False,
        meaning="a checkpoint or state file is truncated or unreadable",
        remedy=(
            "Resume from the one before it (slurmswift checkpoints DIR) and move the damaged one "
            "aside"
        ),
    ),
    Cause(
        "ckpt-missing-files",
        "checkpoint",
        transient=False,
        meaning="the checkpoint lacks files that this rank needs",
        remedy=(
            "Resume from a whole one (slurmswift checkpoints DIR). Written on node-local disks? "
            "Save to a shared directory"
        ),
    ),
    Cause(
        "ckpt-save-race",
        "checkpoint",
        transient=True,
        meaning="ranks or nodes got in each other's way while saving",
        remedy=(
            "Resume. To keep it away, let one rank make and rename directories (save_on_each_node "
            "false on shared storage) and update the trainer"
        ),
    ),
    Cause(
        "ckpt-incompatible",
        "checkpoint",
        transient=False,
        meaning="the checkpoint is intact but does not fit this code or configuration",
        remedy=(
            "Go back to the settings, world size and versions that wrote it, or convert it; a "
            "restart cannot help"
        ),
    ),
    Cause(
        "config-rank-topology",
        "config",
        transient=False,
        meaning="ranks, devices, world size or launcher do not fit together",
        remedy=(
            "Check nodes, tasks per node, processes per node and visible GPUs against each other "
            "and against the parallel sizes and the batch equation"
        ),
    ),
    Cause(
        "config-port-in-use",
        "config",
        transient=True,
        meaning="the rendezvous port was taken or shared with another job",
        remedy=(
            "Choose a free port for each attempt (slurmswift does); never a fixed one. ss -ltnp "
            "on the node shows who holds it"
        ),
    ),
    Cause(
        "config-timeout-too-short",
        "config",
        transient=False,
        meaning="a step that is slow for good reason took longer than a time-out",
        remedy=(
            "Raise the time-out (--ddp_timeout in HF and ms-swift, init_process_group(timeout=)), "
            "or do the slow work before the ranks meet"
        ),
    ),
    Cause(
        "config-bad-arguments",
        "config",
        transient=False,
        meaning="the program did not understand its arguments",
        remedy=(
            "Correct the arguments in the recipe; slurmswift render shows the command as it is run"
        ),
    ),
    Cause(
        "config-hub-unreachable",
        "config",
        transient=False,
        meaning="the model hub could not be reached or refused",
        remedy=(
            "Download before the job and set HF_HUB_OFFLINE=1, or give compute nodes a proxy; for "
            "a refusal check the token and the model's terms"
        ),
    ),
    Cause(
        "config-ulimit-open-files",
        "config",
        transient=False,
        meaning="too many open files",
        remedy=(
            "Raise the limit (ulimit -n in environment.setup) or open fewer (num_workers, shards)"
        ),
    ),
    Cause(
        "code-import-env",
        "code",
        transient=False,
        meaning="a package is missing or was built for something else",
        remedy=(
            "Correct environment.setup or the container; try the import on a compute node with "
            "the same python"
        ),
    ),
    Cause(
        "code-python-exception",
        "code",
        transient=False,
        meaning="the training's own code raised an exception",
        remedy="Read the traceback at the named line and correct the code; a restart cannot help",
    ),
    Cause(
        "code-pickle-error",
        "code",
        transient=False,
        meaning="an object could not be sent to worker processes",
        remedy=(
            "Do not hand open files, lambdas or local functions to data loader workers; "
            "num_workers=0 shows whether it is that. Different DeepSpeed versions between nodes "
            "also do this"
        ),
    ),
    Cause(
        "code-cuda-kernel-bug",
        "code",
        transient=False,
        meaning="a GPU kernel accessed what it must not, or asserted",
        remedy=(
            "Run with CUDA_LAUNCH_BLOCKING=1 to see the true place; check indices, labels and "
            "shapes"
        ),
    ),
    Cause(
        "code-collective-desync",
        "code",
        transient=False,
        meaning="ranks called different collectives, or with different sizes",
        remedy=(
            "Look for a branch, a logging key or a data length that differs between ranks; "
            "TORCH_DISTRIBUTED_DEBUG=DETAIL names the call"
        ),
    ),
    Cause(
        "data-bad-sample",
        "data",
        transient=False,
        meaning="a sample is corrupt or odd",
        remedy=(
            "Find and drop the sample (the traceback or the index names it), or let the loader "
            "skip it"
        ),
    ),
    Cause(
        "data-missing",
        "data",
        transient=False,
        meaning="an input path does not exist",
        remedy=(
            "Check the path on a compute node: relative paths, node-local disks and mounts of the "
            "container are the usual reasons"
        ),
    ),
    Cause(
        "numerics-divergence",
        "data",
        transient=False,
        meaning="the training diverged: NaN, inf or the lowest loss scale",
        remedy=(
            "Resume from an older checkpoint with a lower learning rate, bf16 or clipping, and "
            "look at the data of the last steps"
        ),
    ),
    Cause(
        "sched-time-limit",
        "scheduler",
        transient=True,
        meaning="the job reached its time limit",
        remedy="Resume from the last checkpoint; save more often, or early enough before the end",
    ),
    Cause(
        "sched-preempted",
        "scheduler",
        transient=True,
        meaning="the job was preempted",
        remedy="Resume from the last checkpoint; it starts when there is room again",
    ),
    Cause(
        "sched-cancelled",
        "scheduler",
        transient=None,
        meaning="somebody or something outside ended the job",
        remedy="sacct -j JOBID -o State%30 says who cancelled; slurmswift resume RUN goes on",
    ),
    Cause(
        "sched-launch-failure",
        "scheduler",
        transient=None,
        meaning="Slurm could not start the job's processes",
        remedy="Resume without the named node; sinfo -R and the node's slurmd log say why",
    ),
    Cause("none", "none", transient=None, meaning="nothing failed", remedy="Nothing to do"),
    Cause(
        "unexplained",
        "unknown",
        transient=None,
        meaning="it failed, and nothing in the evidence says why",
        remedy="Look at the end of each rank's log, dmesg on the nodes, sacct. " + _COLLECT,
    ),
)

CAUSES: Dict[str, Cause] = {cause.name: cause for cause in _ALL}
