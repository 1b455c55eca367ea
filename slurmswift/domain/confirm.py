"""How a person makes sure of each cause, and what is often said of it that is not so."""

from __future__ import annotations

from typing import Dict

_ALL_REDUCE = (
    "run all_reduce_perf of nccl-tests, or a ten-line torch all-reduce, on the same two nodes: "
    "if that fails too, it is the environment and not the training's code"
)

CONFIRM: Dict[str, str] = {
    "comm-network-fabric": (
        "ibstat (State: Active), ibv_devinfo -v, show_gids and perfquery on both nodes; "
        + _ALL_REDUCE
        + ". RoCE is used through IB verbs: NCCL_IB_DISABLE must not be 1, and NCCL_IB_HCA and "
        "NCCL_IB_GID_INDEX choose port and GID. NCCL reads no variable NCCL_ROCE_ENABLE"
    ),
    "comm-socket-connect": (
        "getent hosts NAME, ip route get ADDRESS and nc -vz HOST PORT from the node that failed; "
        "then the training on one node with MASTER_ADDR=127.0.0.1, which leaves the network out"
    ),
    "comm-interface-misconfig": (
        "ip -br addr on two nodes shows the interface whose addresses share a network; the line "
        "NCCL INFO Bootstrap : Using (NCCL_DEBUG=INFO) shows the one that was taken"
    ),
    "comm-rendezvous-timeout": (
        "compare MASTER_ADDR, MASTER_PORT, --nnodes and --rdzv_id as each node prints them, and "
        "the number of nodes of the job (scontrol show job JOBID) with --nnodes"
    ),
    "comm-collective-timeout-unexplained": (
        "py-spy dump --pid PID on a hung rank, or the flight recorder's dumps: the rank with "
        "another sequence number is the one that others wait for. With FSDP or Megatron check "
        "that each rank took its own device (torch.cuda.set_device(LOCAL_RANK) before the first "
        "collective), and never mix them with DeepSpeed in one run; " + _ALL_REDUCE + ". NCCL "
        "reads no variable NCCL_TIMEOUT: torch's time-out is an argument (--ddp_timeout in HF and "
        "ms-swift, init_process_group(timeout=))"
    ),
    "comm-remote-peer-lost": (
        "sacct -j JOBID -o JobID,State%20,ExitCode,NodeList,MaxRSS and dmesg -T on the node of "
        "the first rank that ended. NCCL's unhandled system error without a lost peer: compare "
        'python -c "import torch; print(torch.version.cuda, torch.cuda.nccl.version())" and '
        "nvidia-smi between the nodes, and df -h /dev/shm; " + _ALL_REDUCE
    ),
    "hw-gpu-ecc": (
        "nvidia-smi -q -d ECC,ROW_REMAPPER and dmesg -T | grep Xid on the node: 48, 94 and 95 are "
        "uncorrectable, 63 alone is a row that was remapped and no failure"
    ),
    "hw-gpu-fault": "nvidia-smi and dmesg -T | grep Xid on the node; srun -w NODE nvidia-smi -L",
    "hw-driver-mismatch": (
        "cat /proc/driver/nvidia/version beside nvidia-smi on this node and on a good one"
    ),
    "hw-node-failure": "sinfo -R -n NODE and scontrol show node NODE",
    "mem-cuda-oom": "nvidia-smi --query-compute-apps=pid,used_memory --format=csv on the node",
    "mem-host-oom": "sacct -j JOBID -o JobID,State%20,MaxRSS,ReqMem and dmesg -T | grep -i oom",
    "mem-shm-exhausted": (
        "df -h /dev/shm on the node while it runs; ls -l /dev/shm shows whose files are stale. "
        "Nobody deletes all of /dev/shm on a shared node: other jobs live there"
    ),
    "storage-full": "df -h PATH, df -i PATH, quota -s or lfs quota -u $USER PATH",
    "storage-fs-error": "srun -w NODE stat PATH, mount and dmesg -T on the node, and on another",
    "ckpt-corrupt": "slurmswift checkpoints DIRECTORY tells which ones are whole",
    "ckpt-missing-files": (
        "slurmswift checkpoints DIRECTORY tells what is missing; srun -N NODES ls DIRECTORY tells "
        "whether all nodes see the same files"
    ),
    "ckpt-save-race": "ls -la DIRECTORY shows the half-made one; transformers 4.36 to 4.38 do it",
    "ckpt-incompatible": "pip list and the arguments of the run that wrote it, beside this one's",
    "config-rank-topology": (
        "scontrol show job JOBID (NumNodes, TRES) beside nodes x processes_per_node, and srun "
        "--label env | grep -E 'RANK|WORLD_SIZE|CUDA_VISIBLE'. The sequence length must be a "
        "multiple of the context (or sequence) parallel size, for Megatron of twice that"
    ),
    "config-port-in-use": "ss -ltnp 'sport = :PORT' on the first node shows who holds it",
    "config-timeout-too-short": (
        "the log of rank 0 shows what it did meanwhile. NCCL reads no variable NCCL_TIMEOUT: the "
        "time-out is an argument"
    ),
    "config-bad-arguments": "run the program with --help on a compute node",
    "config-hub-unreachable": "curl -sI https://huggingface.co on a compute node",
    "config-ulimit-open-files": "srun bash -c 'ulimit -n; ls /proc/PID/fd | wc -l'",
    "code-import-env": "srun -N1 PYTHON -c 'import PACKAGE' with the job's own environment",
    "code-python-exception": "start it on one process with the same data: it fails there too",
    "code-pickle-error": (
        "the same with num_workers=0 goes through. cannot pickle '_io.TextIOWrapper': compare "
        'python -c "import deepspeed; print(deepspeed.__version__)" between the nodes. A video '
        "reader (decord, av) must be opened inside the worker, not in the data set's __init__"
    ),
    "code-cuda-kernel-bug": "CUDA_LAUNCH_BLOCKING=1, or compute-sanitizer on one process",
    "code-collective-desync": "TORCH_DISTRIBUTED_DEBUG=DETAIL names both collectives and ranks",
    "data-bad-sample": (
        "read that sample alone. A truncated image: PIL.Image.open(PATH).load(); "
        "ImageFile.LOAD_TRUNCATED_IMAGES = True lets such ones through, with their lower part grey"
    ),
    "data-missing": "srun -w NODE ls -l PATH, inside the container where there is one",
    "numerics-divergence": "plot loss and grad_norm of the last hundred steps; check for NaN early",
    "sched-time-limit": "sacct -j JOBID -o State%20,Elapsed,Timelimit",
    "sched-preempted": "sacct -j JOBID -o State%20 and scontrol show job JOBID (Restarts)",
    "sched-cancelled": "sacct -j JOBID -o State%30,User names who cancelled",
    "sched-launch-failure": "srun -w NODE hostname; sinfo -R; scontrol show job JOBID (Reason)",
    "none": "",
    "unexplained": "sacct -j JOBID -o JobID,State%20,ExitCode,NodeList,MaxRSS",
}
