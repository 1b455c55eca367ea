"""What broken or exhausted machines make programs say: GPUs, memory, shared memory, storage."""

from __future__ import annotations

from typing import Tuple

from slurmswift.domain.rule import Role, Rule

MACHINE_RULES: Tuple[Rule, ...] = (
    # GPUs
    Rule(
        "gpu-ecc",
        Role.ROOT,
        "hw-gpu-ecc",
        ("ncorrectable ECC", "ECCUncorrectable", "ECC_UNCORRECTABLE", "Xid"),
        (
            r"uncorrectable ECC error encountered",
            r"cudaErrorECCUncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE",
            r"Xid \((?:PCI:)?[^)]{1,40}\): (?:48|94|95),",
        ),
        "CUDA driver API; NVIDIA Xid catalogue (63 alone is a remapped row, not a failure)",
        (
            "RuntimeError: CUDA error: uncorrectable ECC error encountered",
            "NVRM: Xid (PCI:0000:41:00): 95, pid=33, Uncontained ECC error",
        ),
        ("NVRM: Xid (PCI:0000:41:00): 63, pid=33, Row Remapper: New row marked for remapping",),
    ),
    Rule(
        "gpu-driver-mismatch",
        Role.ROOT,
        "hw-driver-mismatch",
        (
            "version mismatch",
            "Error 803",
            "Error 804",
            "driver version is",
            "NVIDIA driver on your",
        ),
        (
            r"[Dd]river/library version mismatch",
            r"Error 80[34]: ",
            r"CUDA driver version is insufficient for CUDA runtime version",
            r"The NVIDIA driver on your system is too old",
        ),
        "NVML; CUDA runtime errors 35, 803, 804",
        (
            "Failed to initialize NVML: Driver/library version mismatch",
            (
                "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has "
                "unsupported "
                "display driver / cuda driver combination"
            ),
        ),
        ("size mismatch for lm_head.weight",),
    ),
    Rule(
        "gpu-fault",
        Role.ROOT,
        "hw-gpu-fault",
        (
            "CUDA error: ",
            "Xid",
            "fallen off the bus",
            "device handle",
            "GPU is lost",
            "cudaGetDeviceCount",
            "CUDA driver initialization failed",
            "No CUDA GPUs are available",
            "Cuda failure",
            "initialize NVML",
            "NVIDIA driver",
            "driver not loaded",
            "NVLink",
            "busy or unavailable",
        ),
        (
            (
                r"CUDA error: (?:unknown error|initialization error|all CUDA-capable devices "
                r"are busy|"
                r"CUDA-capable device\(s\) is/are busy|hardware stack error|Invalid access of peer "
                r"GPU memory|"
                r"(?:uncorrectable )?NVLink|system not yet initialized|"
                r"no CUDA-capable device is detected|the launch timed out)"
            ),
            r"Xid \((?:PCI:)?[^)]{1,40}\): (?:56|6[129]|74|79|109|110|119|12[01]|140|143|149|154),",
            r"GPU has fallen off the bus|GPU is lost",
            r"Unable to determine the device handle for",
            r"cudaGetDeviceCount\(\).{0,200}Error (?:3|46|101|802|999): ",
            r"CUDA driver initialization failed, you might not have a CUDA gpu",
            r"^RuntimeError: No CUDA GPUs are available",
            (
                r"NCCL WARN (?:\[.{1,40}\] )?Cuda failure (?:\d+ )?'(?:unknown error|"
                r"initialization error|hardware stack error|uncorrectable NVLink)"
            ),
            r"Failed to initialize NVML: (?:Unknown Error|Driver Not Loaded|GPU is lost)",
            r"couldn't communicate with the NVIDIA driver|nvml error: driver not loaded",
        ),
        "CUDA driver API; NVIDIA Xid catalogue; ROCm runtime",
        (
            "[default3]:  what():  CUDA error: unknown error",
            "NVRM: Xid (PCI:0000:a1:00): 79, pid=0, GPU has fallen off the bus.",
            (
                "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 3: initialization "
                "error"
            ),
        ),
        ("RuntimeError: CUDA error: device-side assert triggered",),
        yields_to=("gpu-ecc", "gpu-driver-mismatch"),
    ),
    Rule(
        "gpu-hang-rocm",
        Role.ROOT,
        "hw-gpu-fault",
        ("HW Exception by GPU",),
        (r"HW Exception by GPU node-\d+",),
        "ROCm runtime (ROCR): the number is a GPU's, not a host's",
        ("41%|##| 3/9 [5:15<6:53, 46s/it]HW Exception by GPU node-9 (Agent) reason :GPU Hang",),
        ("RuntimeError: HIP error: invalid device function",),
        advice="unknown",
        remedy="A kernel or the GPU hung: resume without this node once. If it hangs on other "
        "nodes too, it is the code or the ROCm version, not the card",
    ),
    Rule(
        "gpu-out-of-memory",
        Role.ROOT,
        "mem-cuda-oom",
        (
            "out of memory",
            "ALLOC_FAILED",
            "CUDA malloc",
            "CUDA calloc",
            "RESOURCE_EXHAUSTED",
            "cache blocks",
        ),
        (
            r"^(?:[\w.]{1,60}: )?(?:CUDA|HIP|NPU|XPU) out of memory",
            r"^(?:[\w.]{1,60}: |what\(\): +)?CUDA error: out of memory",
            r"(?:NCCL WARN (?:\[.{1,40}\] )?|^)Cuda failure (?:\d+ )?'out of memory'",
            r"(?:CUBLAS|CUDNN)_STATUS_ALLOC_FAILED",
            r"NCCL WARN Failed to CUDA [cm]alloc",
            r"^\S{0,80}: RESOURCE_EXHAUSTED: Out of memory",
            r"^(?:\w+: )?cuda runtime error \(2\) : out of memory",
            r"^ValueError: No available memory for the cache blocks",
        ),
        "PyTorch c10/cuda/CUDACachingAllocator.cpp 1.12 to 2.9; NCCL src/include/alloc.h",
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has",
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
            (
                "RuntimeError: CUDA out of memory. Tried to allocate 1.1 GiB (GPU 0; 39 GiB total "
                "capacity)"
            ),
            "n9:30:31 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'",
            "Cuda failure 2 'out of memory'",
        ),
        (
            (
                "prompt: 'My job died with: torch.OutOfMemoryError: CUDA out of memory. Tried to "
                "allocate'"
            ),
            "Some of your processes may have been killed by the cgroup out-of-memory handler.",
        ),
    ),
    Rule(
        "gpu-kernel-bug",
        Role.ROOT,
        "code-cuda-kernel-bug",
        (
            "illegal memory access",
            "device-side assert",
            "misaligned address",
            "Assertion `",
            "unspecified launch failure",
            "illegal instruction was encountered",
            "Memory access fault by GPU",
            "EXECUTION_FAILED",
            "invalid configuration argument",
            "Xid",
        ),
        (
            r"an illegal memory access was encountered",
            r"device-side assert triggered",
            r"^Memory access fault by GPU node-\d+",
            r"NVRM: Xid \(.{1,40}\): (?:13|31), ",
            r"CUDA error: (?:CUBLAS_STATUS_EXECUTION_FAILED|invalid configuration argument)",
            r"CUDA error: (?:misaligned address|unspecified launch failure|an illegal instruction)",
            r"\.cu:\d+: .{0,300}Assertion `.{1,200}` failed",
        ),
        "CUDA runtime; PyTorch aten/src/ATen/native/cuda",
        (
            "CUDA error (/build/flash_fwd.h:188): an illegal memory access was encountered",
            "NVRM: Xid (PCI:0000:1b:00): 31, pid=44, MMU Fault: ENGINE GRAPHICS faulted",
            (
                "../aten/src/ATen/native/cuda/IndexKernel.cu:92: operator(): block: [0,0,0], "
                "thread: [1,0,0] "
                "Assertion `-sizes[i] <= index && index < sizes[i]` failed."
            ),
        ),
        ("RuntimeError: CUDA error: unknown error",),
        yields_to=("gpu-ecc",),
    ),
    # Host memory
    Rule(
        "worker-killed",
        Role.ROOT,
        "mem-host-oom",
        ("is killed by signal: Killed",),
        (r"DataLoader worker \(pid\(?s?\)? .{1,80}\) is killed by signal: Killed",),
        "PyTorch torch/csrc/DataLoader.cpp",
        ("RuntimeError: DataLoader worker (pid 56811) is killed by signal: Killed. ",),
        ("RuntimeError: DataLoader worker (pid 56811) is killed by signal: Terminated. ",),
    ),
    Rule(
        "host-allocation-failed",
        Role.ROOT,
        "mem-host-oom",
        (
            "MemoryError",
            "Cannot allocate memory",
            "DefaultCPUAllocator",
            "bad_alloc",
            "OutOfMemoryError",
            "TerminatedWorkerError",
        ),
        (
            r"^(?:numpy\.\S{1,60}\.)?_?(?:Array)?MemoryError(?::|$)",
            r"^OSError: \[Errno 12\] Cannot allocate memory",
            r"DefaultCPUAllocator: (?:can't allocate|not enough) memory",
            r"^(?:\S{1,80}\.)?ArrowMemoryError: |std::bad_alloc$|fork: Cannot allocate memory$",
            r"^ray\.exceptions\.OutOfMemoryError: ",
            r"TerminatedWorkerError: .{0,200}SIGKILL",
        ),
        "Python; PyTorch c10/core/impl/alloc_cpu.cpp",
        (
            "MemoryError",
            (
                "RuntimeError: [enforce fail at alloc_cpu.cpp:73] . DefaultCPUAllocator: can't "
                "allocate memory"
            ),
        ),
        ("torch.OutOfMemoryError: CUDA out of memory.",),
    ),
    Rule(
        "shm-exhausted",
        Role.ROOT,
        "mem-shm-exhausted",
        ("Bus error", "bus error", "shared memory", "torch_", "No space left", "failed to extend"),
        (
            r"is killed by signal: Bus error",
            r"Unexpected bus error encountered in worker",
            r"unable to (?:open|mmap|allocate|resize) shared memory(?!.{0,200}Too many open files)",
            r"unable to (?:write to|mmap \d+ bytes from) file </torch_",
            r"NCCL WARN .{0,40}failed to extend /dev/shm/nccl",
            (
                r"NCCL WARN .{0,80}(?:Error while (?:creating|attaching to) shared memory segment|"
                r"Call to posix_fallocate failed : No space left|Could not shm_open)"
            ),
            r"\[Errno 28\] No space left on device: '/dev/shm",
        ),
        "PyTorch torch/csrc/DataLoader.cpp, aten MapAllocator.cpp; NCCL src/misc/shmutils.cc",
        (
            (
                "RuntimeError: DataLoader worker (pid 5) is killed by signal: Bus error. It is "
                "possible that "
                "dataloader's workers are out of shared memory."
            ),
            "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-a8 (size 9637888)",
        ),
        ("OSError: [Errno 28] No space left on device: '/scratch/ckpt'",),
    ),
    # Storage
    Rule(
        "storage-full",
        Role.ROOT,
        "storage-full",
        (
            "Errno 28",
            "Errno 122",
            "StorageFull",
            "quota exceeded",
            "PytorchStreamWriter failed writing",
            "No space left on device",
            "Not enough disk space",
            "errno 28",
            "os error 122",
        ),
        (
            r"^(?:\w+\.)*\w*Error: .{0,80}\[Errno (?:28|122)\]",
            r"StorageFull|Disk quota exceeded|No space left on device \(os error 28\)",
            r"[Ee]rror.{0,300}\[?errno (?:=)? ?28\b|^OSError: Not enough disk space",
            r"PytorchStreamWriter failed writing file",
            (
                r"^(?:cp|tee|cat|mkdir|rsync|bash)?.{0,120}: (?:write error: |cannot "
                r"\S.{0,120})?No "
                r"space left on device$"
            ),
        ),
        "Linux errno; PyTorch caffe2/serialize/inline_container.cc; safetensors",
        (
            "OSError: [Errno 28] No space left on device",
            "OSError: [Errno 122] Disk quota exceeded: '/home/me/ckpt/optimizer.pt'",
            (
                "RuntimeError: [enforce fail at inline_container.cc:445] . PytorchStreamWriter "
                "failed writing "
                "file data/176: file write failed"
            ),
        ),
        ("12 GB of space left on device",),
        yields_to=("shm-exhausted",),
    ),
    Rule(
        "storage-write-cut-short",
        Role.CONSEQUENCE,
        "storage-full",
        ("unexpected pos",),
        (r"enforce fail at inline_container\.cc:\d+\] \. unexpected pos",),
        "PyTorch caffe2/serialize/inline_container.cc: raised while closing a file that could "
        "not be written",
        ("RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 1792 vs 1684",),
        ("unexpected position encoding",),
    ),
    Rule(
        "storage-fs-error",
        Role.ROOT,
        "storage-fs-error",
        (
            "Stale file handle",
            "Errno 116",
            "Errno 5]",
            "Errno 107",
            "Errno 108",
            "Errno 121",
            "Errno 112]",
            "Errno 30]",
            "Errno 117]",
            "Errno 524]",
            "Transport endpoint",
            "transport endpoint shutdown",
            "Remote I/O error",
            "Input/output error",
        ),
        (
            r"Stale file handle",
            r"\[Errno (?:5|30|107|108|112|116|117|121|524)\]",
            r"^\S{1,80}: .{0,200}(?:Input/output|Remote I/O) error(?: \(os error \d+\))?$",
            r"^\S{1,80}: .{0,200}Transport endpoint is not connected$",
            r"^\S{1,80}: .{0,200}Cannot send after transport endpoint shutdown$",
        ),
        "Linux errno: ESTALE, EIO, ENOTCONN, ESHUTDOWN, EREMOTEIO",
        (
            "OSError: [Errno 116] Stale file handle",
            "RuntimeError: read(): fd 33 failed with Stale file handle",
            "OSError: [Errno 5] Input/output error: '/lustre/data/a.bin'",
        ),
        ("ValueError: stale file handle cache is disabled",),
    ),
)
