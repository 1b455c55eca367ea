"""One message each, as the versions of the programs print it: its cause when it stands alone."""

from __future__ import annotations

import pytest

from slurmswift.domain.diagnosis import diagnose_text

IN_DATA = 'Traceback (most recent call last):\n  File "/opt/torch/utils/data/dataloader.py"\n'

WORDINGS = {
    "hw-gpu-ecc": ["NVRM: Xid (0000:41:00): 48, pid=7, DBE (double bit error) detected on GPU"],
    "hw-driver-mismatch": [
        "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
    ],
    "hw-gpu-fault": [
        "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution",
        "n1:5:9 [3] enqueue.cc:83 NCCL WARN Cuda failure 999 'unknown error'",
        "Failed to initialize NVML: Unknown Error",
        "RuntimeError: CUDA error: no CUDA-capable device is detected",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    ],
    "mem-cuda-oom": [
        "n1:5:9 [3] NCCL WARN Failed to CUDA calloc async 608 bytes",
        "RuntimeError: cuda runtime error (2) : out of memory at /x/THCStorage.cu:58",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying",
        "ValueError: No available memory for the cache blocks. Try increasing",
    ],
    "mem-host-oom": [
        ("terminate called after throwing an instance of 'std::bad_alloc'\n"
        "  what():  std::bad_alloc\nMemoryError: std::bad_alloc"),
        "pyarrow.lib.ArrowMemoryError: malloc of size 4294967296 failed",
        "bash: fork: Cannot allocate memory",
        "slurmstepd: error: Job 77 exceeded memory limit (4200000 > 4194304), being killed",
    ],
    "mem-shm-exhausted": [
        ("RuntimeError: unable to allocate shared memory(shm) for file </torch_1_2_3>: No space "
        "left on device (28)"),
        ("ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
        "shared memory (shm)."),
        ("n1:5:9 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-x4 to "
        "33030532 bytes"),
    ],
    "storage-full": [
        ("safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: "
        'StorageFull, message: "No space left on device" })'),
        "OSError: Not enough disk space. Needed: 80.1 GiB",
    ],
    "storage-fs-error": [
        "OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/a'",
        "OSError: [Errno 30] Read-only file system: '/scratch/out'",
        "cat: /data/a: Transport endpoint is not connected",
    ],
    "ckpt-corrupt": [
        "zipfile.BadZipFile: File is not a zip file",
        "RuntimeError: Invalid magic number; corrupt file?",
        "OSError: Unable to load weights from pytorch checkpoint file for '/out/pytorch_model.bin'",
    ],
    "ckpt-missing-files": [
        "ValueError: No valid checkpoint found in output directory (/out)",
        ">> '--exit-on-missing-checkpoint' set ... exiting. <<",
        ("FileNotFoundError: [Errno 2] No such file or directory: '/out/global_step9/"
        "mp_rank_00_model_states.pt'"),
    ],
    "ckpt-incompatible": [
        "RuntimeError: size mismatch for lm_head.weight: copying a param with shape",
        "RuntimeError: Missing key in checkpoint state_dict: optimizer.state.a",
        "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded",
    ],
    "config-rank-topology": [
        ("ValueError: Error initializing torch.distributed using env:// rendezvous: environment "
        "variable RANK expected, but not set"),
        "n1:5:9 [0] bootstrap.cc:90 NCCL WARN Bootstrap Root : mismatch in rank count from procs",
        "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
        "RuntimeError: Mesh should not be bigger than default world size 8, but found 16 ranks!",
    ],
    "config-port-in-use": [
        ("ConnectionError: Tried to launch distributed communication on port `29500`, but another "
        "process is utilizing it."),
        ("RuntimeError: The server socket has failed to listen on any local network address. The "
        "server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."),
    ],
    "config-bad-arguments": [
        "Error: No such option: --epoch",
        ("ValueError: Please correct the following DeepSpeed config values that mismatch "
        "TrainingArguments values:"),
        "train.py: error: argument --lr: invalid float value: 'fast'",
    ],
    "config-hub-unreachable": [
        "ConnectionError: Couldn't reach 'allenai/c4' on the Hub (ConnectionError)",
        "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
        ("requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', "
        "port=443): Max retries exceeded with url: /api/models/m"),
        "OSError: You are trying to access a gated repo.",
    ],
    "config-ulimit-open-files": [
        ("RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode: Too "
        "many open files (24)"),
    ],
    "code-import-env": [
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install",
        "slurmstepd: error: execve(): python3: No such file or directory",
        "importlib.metadata.PackageNotFoundError: No package metadata was found for bitsandbytes",
    ],
    "code-pickle-error": [
        "TypeError: h5py objects cannot be pickled",
        "AttributeError: Can't get attribute 'Collate' on <module '__main__' (built-in)>",
    ],
    "code-cuda-kernel-bug": [
        "Memory access fault by GPU node-4 (Agent handle: 0x55) on address 0x7f. Reason: Unknown.",
        "RuntimeError: CUDA error: invalid configuration argument",
    ],
    "code-collective-desync": [
        ("RuntimeError: [1]: params[0] in this process with sizes [9] appears not to match sizes "
        "of the same param in process 0."),
        ("RuntimeError: DDP expects same model across all ranks, but Rank 1 has 3 params, while "
        "rank 0 has inconsistent 4 params."),
    ],
    "data-bad-sample": [
        IN_DATA + "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        IN_DATA + "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0",
        "pyarrow.lib.ArrowInvalid: JSON parse error: Missing a closing quotation mark in string.",
        "tarfile.ReadError: unexpected end of data",
        "PIL.UnidentifiedImageError: cannot identify image file <_io.BytesIO object at 0x7f>",
    ],
    "data-missing": [
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or",
        "OSError: /models/q does not appear to have a file named config.json.",
        "ValueError: num_samples should be a positive integer value, but got num_samples=0",
        "datasets.exceptions.DatasetNotFoundError: Dataset 'x/y' doesn't exist on the Hub",
    ],
    "numerics-divergence": [
        "Loss is nan, stopping training",
        "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.",
        "RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.",
        "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
    ],
    "sched-launch-failure": [
        "srun: error: timeout waiting for task launch, started 3 of 4 tasks",
        "srun: error: task 3 launch failed: Slurmd could not connect IO",
        "slurmstepd: error: pyxis: container start failed with error code: 1",
        "slurmstepd: error: Could not open stdout file /nowhere/a.out: No such file or directory",
    ],
    "comm-network-fabric": [
        ("[n1:77:0:9] ib_mlx5_log.c:177  UCX ERROR Transport retry count exceeded on mlx5_0:1/RoCE "
        "(synd 0x15 vend 0x81)"),
    ],
    "comm-socket-connect": [
        "socket.gaierror: [Errno -2] Name or service not known",
        "ssh: connect to host n7 port 22: No route to host",
        ("torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while "
        "trying to connect to (n1, 29500)."),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("log", "cause"), [(log, cause) for cause, logs in WORDINGS.items() for log in logs]
)
def test_a_message_alone_has_its_cause(log: str, cause: str) -> None:
    assert diagnose_text(log + "\n", state="FAILED", exit_code="1:0").cause == cause


@pytest.mark.parametrize(
    ("log", "cause"), [(log, cause) for cause, logs in WORDINGS.items() for log in logs]
)
def test_a_message_that_is_quoted_in_data_is_no_failure(log: str, cause: str) -> None:
    """What a training prints of its samples is not what happened to it."""
    quoted = f"sample 17: {{'prompt': {log.splitlines()[-1]!r}, 'loss': 0.5}}\n"

    assert diagnose_text(quoted, state="COMPLETED", exit_code="0:0").cause == "none"
    assert cause
