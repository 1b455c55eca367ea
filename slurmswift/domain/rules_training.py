"""What trainings and their libraries say about configuration and code."""

from __future__ import annotations

from typing import Tuple

from slurmswift.domain.rule import Role, Rule

_HF = "transformers, huggingface_hub"

CONFIG_RULES: Tuple[Rule, ...] = (
    Rule(
        "port-in-use",
        Role.ROOT,
        "config-port-in-use",
        ("EADDRINUSE", "ddress already in use", "errno: 98", "another process is utilizing"),
        (
            r"^(?:\w+\.)*\w*(?:Error|Exception): .{0,300}(?:EADDRINUSE|[Aa]ddress already in use)",
            r"failed to listen on any local network address",
            r"NCCL WARN Call to bind failed ?: Address already in use",
            r"Tried to launch distributed communication on port .{1,20}, but another process",
        ),
        "PyTorch socket.cpp 1.12 to 2.9; Python socket",
        (
            (
                "torch.distributed.DistNetworkError: The server socket has failed to listen on any "
                "local network "
                "address. port: 29713, useIpv6: false, code: -98, name: EADDRINUSE, message: "
                "address already in use"
            ),
            "RuntimeError: Address already in use",
            "OSError: [Errno 98] Address already in use",
        ),
        (
            (
                "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 "
                "(errno: 98 - Address already in use)."
            ),
        ),
    ),
    Rule(
        "rank-topology",
        Role.ROOT,
        "config-rank-topology",
        (
            "Duplicate GPU",
            "invalid device ordinal",
            "batch related parameters",
            "divisible",
            "Invalid rank",
            "nproc",
            "num_gpus",
            "expected, but not set",
            "Bootstrap Root",
            "no GPUs found",
            "not enough slots",
            "You set `",
            "MisconfigurationException: You requested gpu",
            "Mesh should not be bigger",
            "No slot '",
        ),
        (
            r"Duplicate GPU detected",
            r"invalid device ordinal",
            r"Check batch related parameters",
            (
                r"^(?:\[.{0,40}\])?(?:AssertionError|ValueError|RuntimeError): "
                r".{0,200}(?:world.?size|tensor|pipeline|"
                r"context|batch|heads|seq\w*).{0,160}(?:not |must be |be )(?:evenly )?divisible"
            ),
            r"Invalid rank \d+, rank should be in the interval",
            r"device >= 0 && device < num_gpus",
            r"environment variable [A-Z_]{4,20} expected, but not set",
            r"NCCL WARN Bootstrap Root : (?:mismatch in rank|rank \d+ of \d+ ranks has)",
            r"ProcessGroupNCCL is only supported with GPUs, no GPUs found",
            r"There are not enough slots available in the system",
            r"You set `(?:devices|num_nodes|--ntasks)=?.{0,200}SLURM",
            r"MisconfigurationException: You requested gpu: ",
            r"Mesh should not be bigger than default world size",
            r"^ValueError: No slot '\d+' specified on host",
        ),
        "NCCL src/init.cc; CUDA; DeepSpeed runtime/config.py; Megatron-LM parallel_state.py; "
        "PyTorch",
        (
            (
                "AssertionError: Check batch related parameters. train_batch_size is not equal to "
                "micro_batch_per_gpu * gradient_acc_step * world_size 256 != 2 * 18 * 7"
            ),
            "NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 7000",
            "RuntimeError: CUDA error: invalid device ordinal",
        ),
        ("AssertionError: x",),
    ),
    Rule(
        "bad-arguments",
        Role.ROOT,
        "config-bad-arguments",
        (
            "error: unrecognized arguments",
            "error: the following arguments",
            "error: argument ",
            "HfArgumentParser",
            "remaining_argv",
            "can't open file",
            "invalid choice",
            "Error: No such option",
            "Error: Missing option",
            "Could not override",
            "DeepSpeed config values that mismatch",
            "strategy to match",
        ),
        (
            (
                r"^\S{1,80}: error: (?:unrecognized arguments|the following arguments are "
                r"required|argument \S)"
            ),
            r"not used by the HfArgumentParser",
            r"^ValueError: remaining_argv:",
            r"^Error: (?:No such option|Missing option)",
            r"^Could not override '",
            r"^ValueError: Please correct the following DeepSpeed config values that mismatch",
            r"^ValueError: --load_best_model_at_end requires the save",
            r"can't open file '.{1,300}': \[Errno 2\]",
        ),
        "Python argparse; transformers hf_argparser.py; ms-swift",
        (
            "train.py: error: unrecognized arguments: --epoch 3",
            (
                "ValueError: Some specified arguments are not used by the HfArgumentParser: "
                "['--scale_factor', '2']"
            ),
            "python3: can't open file '/home/me/trian.py': [Errno 2] No such file or directory",
        ),
        ("error: argument of type 'NoneType' is not iterable",),
    ),
    Rule(
        "hub-unreachable",
        Role.ROOT,
        "config-hub-unreachable",
        (
            "huggingface",
            "modelscope",
            "LocalEntryNotFoundError",
            "Server Error",
            "on the Hub",
            "specific connection error",
            "urlopen error",
            "disk cache and outgoing",
        ),
        (
            r"We couldn't connect to 'https?://",
            r"^(?:[\w.]{1,80}\.)?(?:LocalEntryNotFoundError|OfflineModeIsEnabled)",
            r"^ConnectionError: Couldn't reach .{1,200} on the Hub",
            r"There was a specific connection error when trying to load",
            r"^urllib\.error\.URLError: <urlopen error \[Errno (?:-\d|101|110|111)\]",
            (
                r"^(?:[\w.]{1,80}\.)?(?:HTTPError|HfHubHTTPError): 5\d\d Server Error: "
                r".{0,200}(?:huggingface|modelscope|hf-mirror)"
            ),
            (
                r"^(?:[\w.]{1,80}\.)?(?:ConnectionError|ReadTimeout|ConnectTimeout|SSLError|"
                r"MaxRetryError): "
                r".{0,200}(?:huggingface|modelscope|hf-mirror)"
            ),
        ),
        _HF + "; requests",
        (
            "OSError: We couldn't connect to 'https://huggingface.co' to load this file",
            (
                "requests.exceptions.HTTPError: 500 Server Error: Internal Server Error for url: "
                "https://huggingface.co/api/m"
            ),
        ),
        ("see https://huggingface.co/docs",),
        advice="yes",
        remedy="The hub did not answer: wait and resume, or download before the job and set "
        "HF_HUB_OFFLINE=1 so that the night does not depend on it",
    ),
    Rule(
        "hub-refused",
        Role.ROOT,
        "config-hub-unreachable",
        ("huggingface", "GatedRepoError", "RepositoryNotFoundError", "gated repo"),
        (
            (
                r"^(?:[\w.]{1,80}\.)?(?:HTTPError|HfHubHTTPError): 4\d\d Client Error: "
                r".{0,200}(?:huggingface|modelscope|hf-mirror)"
            ),
            r"^(?:[\w.]{1,80}\.)?(?:GatedRepoError|RepositoryNotFoundError)",
            r"^OSError: You are trying to access a gated repo",
        ),
        _HF,
        ("huggingface_hub.utils._errors.GatedRepoError: 403 Client Error.",),
        ("403 tokens per second",),
    ),
    Rule(
        "too-many-open-files",
        Role.ROOT,
        "config-ulimit-open-files",
        ("Too many open files", "ancdata"),
        (
            (
                r"\[Errno 24\] Too many open files|^(?:RuntimeError|OSError): .{0,200}Too many "
                r"open "
                r"files|items of ancdata"
            ),
        ),
        "Linux EMFILE; Python multiprocessing",
        (
            "OSError: [Errno 24] Too many open files: '/data/a'",
            "RuntimeError: received 0 items of ancdata",
        ),
        ("Too many open questions",),
    ),
)

CODE_RULES: Tuple[Rule, ...] = (
    Rule(
        "import-failed",
        Role.ROOT,
        "code-import-env",
        (
            "ModuleNotFoundError",
            "ImportError",
            "undefined symbol",
            "Error building extension",
            "command not found",
            "cannot open shared object file",
            "No module named",
            "GLIBC",
            "no kernel image is available",
            "CUDA_HOME",
            "CUDAMismatchException",
            "PackageNotFoundError",
            "Failed to import transformers",
            "numpy.dtype size changed",
            "operator torchvision",
            "Ninja is required",
            "Lmod has detected the following error",
            "execve(): ",
        ),
        (
            r"^(?:ModuleNotFoundError|ImportError): ",
            r": undefined symbol: |: cannot open shared object file: No such file",
            r"^RuntimeError: Error building extension",
            (
                r"(?:python3?|torchrun|accelerate|deepspeed|swift|megatron|apptainer|singularity|"
                r"module): (?:command )?not found"
            ),
            (
                r"^\S{0,120}python\S{0,20}: (?:Error while finding module specification|No module "
                r"named)"
            ),
            r"version `GLIBC\w*_[\d.]+' not found",
            r"no kernel image is available for execution on the device",
            r"CUDA_HOME environment variable is not set|MissingCUDAException: CUDA_HOME",
            r"CUDAMismatchException|PackageNotFoundError: ",
            r"^RuntimeError: (?:Failed to import|operator torchvision|Ninja is required)",
            r"numpy\.dtype size changed, may indicate binary incompatibility",
            r"^Lmod has detected the following error",
            r"^slurmstepd\S{0,80}: error: execve\(\): \S{1,300}: No such file or directory",
        ),
        "Python import system; dynamic linker; bash; PyTorch cpp_extension.py",
        (
            "ModuleNotFoundError: No module named 'deepspeed'",
            "ImportError: /opt/flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2E",
            "/var/spool/slurmd/job7/slurm_script: line 9: torchrun: command not found",
            "/usr/bin/python3: No module named torch",
        ),
        ("the import took 3 s",),
    ),
    Rule(
        "pickle-failed",
        Role.ROOT,
        "code-pickle-error",
        ("pickle", "Can't get attribute"),
        (
            (
                r"^(?:\w+\.)*(?:TypeError|AttributeError|PicklingError|_?pickle\.PicklingError): "
                r".{0,80}(?:[Cc]an(?:not|'t) pickle |cannot be pickled)"
            ),
            r"^AttributeError: Can't get attribute '",
        ),
        "Python pickle",
        (
            "TypeError: cannot pickle '_io.TextIOWrapper' object",
            "AttributeError: Can't pickle local object 'Engine._create.<locals>.hook'",
        ),
        ("_pickle.UnpicklingError: pickle data was truncated",),
    ),
    Rule(
        "collective-mismatch",
        Role.ROOT,
        "code-collective-desync",
        (
            "mismatch between collectives",
            "op.preamble.length",
            "MISMATCH",
            "appears not to match",
            "DDP expects same model",
            "essage truncated : ",
            "Mismatched collective",
        ),
        (
            r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d+) is running",
            r"NCCL WARN .{0,120}[Mm]essage truncated : receiv(?:ed|ing) \d+ bytes instead of \d+",
            r"NCCL WARN Mismatched collective detected",
            r"op\.preamble\.length <= op\.nbytes",
            r"SIZE_OR_SYNTAX_MISMATCH|COLLECTIVE_TYPE_MISMATCH",
            r"appears not to match (?:sizes|strides) of the same param in process 0",
            r"DDP expects same model across all ranks",
        ),
        "PyTorch ProcessGroupWrapper.cpp, flight recorder; NCCL src/transport/net_ib.cc; gloo "
        "pair.cc",
        (
            (
                "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running "
                "collective: "
                "CollectiveFingerPrint(SequenceNumber=21, OpType=BROADCAST"
            ),
            "NCCL WARN NET/Socket : peer n2<4> message truncated : receiving 64 bytes instead of 3",
            "init.cc:1247 NCCL WARN Mismatched collective detected, please check around rank 39",
        ),
        ("size mismatch for lm_head.weight",),
    ),
    Rule(
        "pipe-to-worker-broke",
        Role.CONSEQUENCE,
        "unexplained",
        (
            "ConnectionResetError",
            "BrokenPipeError",
            "EOFError",
            "ConnectionRefusedError",
            "exited unexpectedly",
        ),
        (
            (
                r"^(?:ConnectionResetError|BrokenPipeError|ConnectionRefusedError|EOFError)(?:: "
                r"(?!Ran out)|$)"
            ),
            r"^RuntimeError: DataLoader worker \(pid\(?s?\)? .{1,80}\) exited unexpectedly",
        ),
        "Python multiprocessing: seen by the process that is left",
        ("ConnectionResetError: [Errno 104] Connection reset by peer", "EOFError"),
        ("EOFError: Ran out of input",),
    ),
    Rule(
        "python-exit",
        Role.BOILERPLATE,
        "",
        ("SystemExit", "CalledProcessError", "ProcessRaisedException"),
        (
            r"^SystemExit(?::|$)|^subprocess\.CalledProcessError: ",
            r"^torch\.multiprocessing\.spawn\.ProcessRaisedException",
        ),
        "Python; ms-swift cli/main.py; PyTorch torch/multiprocessing/spawn.py",
        ("subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1.",),
        ("ValueError: exit",),
    ),
)

# Last: whatever Python raised that nothing above knows. Killed processes leave such ruins too.
EXCEPTION_RULE = Rule(
    "python-exception",
    Role.ROOT,
    "code-python-exception",
    (),
    (r"^(?:[A-Za-z_]\w{0,80}\.){0,12}[A-Z]\w{0,80}(?::(?: |$)|$)",),
    "Python; only for the last line of a traceback",
    ("ValueError: injected failure on rank 1 at step 14", "KeyError: 'labels'", "queue.Empty"),
    ("loss: 1.2",),
    yields_to=(
        "slurm-oom",
        "slurm-task-oom",
        "kernel-oom",
        "worker-killed",
        "slurm-node-failure",
        "slurm-memory-error",
    ),
)

TRAINING_RULES: Tuple[Rule, ...] = (*CONFIG_RULES, *CODE_RULES)
