"""What data loaders and the numbers themselves say."""

from __future__ import annotations

from typing import Tuple

from slurmswift.domain.rule import Role, Rule

_DATA_CODE = r"(?i)DataLoader|dataset|data_?loader|_utils/fetch|collate"
_HF = "transformers, huggingface_hub"

DATA_RULES: Tuple[Rule, ...] = (
    Rule(
        "bad-image",
        Role.ROOT,
        "data-bad-sample",
        (
            "image file is truncated",
            "cannot identify image file",
            "broken data stream",
            "Error opening input",
            "moov atom not found",
            "image file",
            "DECORDError",
            "Invalid data found when",
            "JSON parse error",
            "ReadError",
            "Truncated File Read",
            "unrecognized data stream",
            "CorruptedError",
            "LibsndfileError",
            "DecompressionBombError",
            "src.empty()",
        ),
        (
            r"^OSError: (?:image file is truncated|(?:broken|unrecognized) data stream)",
            r"^OSError: Truncated File Read",
            r"DECORDError: |InvalidDataError: .{0,40}Invalid data found when",
            r"ArrowInvalid: JSON parse error|^lmdb\.CorruptedError: |LibsndfileError: ",
            r"^tarfile\.ReadError: |DecompressionBombError: |^cv2\.error: .{0,300}src\.empty\(\)",
            r"UnidentifiedImageError: cannot identify image file",
            r"moov atom not found",
        ),
        "Pillow; ffmpeg, decord",
        ("OSError: image file is truncated (7 bytes not processed)",),
        ("image files: 7",),
    ),
    Rule(
        "bad-pickle-in-data",
        Role.ROOT,
        "data-bad-sample",
        (
            "UnpicklingError",
            "Ran out of input",
            "JSONDecodeError",
            "UnicodeDecodeError",
            "zlib.error",
        ),
        (
            r"^_?pickle\.UnpicklingError: |^EOFError: Ran out of input",
            r"^(?:json\.decoder\.)?JSONDecodeError: |^UnicodeDecodeError: |^zlib\.error: ",
        ),
        "Python pickle, below a data loader",
        ("_pickle.UnpicklingError: pickle data was truncated",),
        ("_pickle.PicklingError: Can't pickle <function>",),
        context=_DATA_CODE,
    ),
    Rule(
        "data-missing",
        Role.ROOT,
        "data-missing",
        (
            "is not a local folder",
            "FileNotFoundError",
            "NotFoundError",
            "Couldn't find",
            "appear to have a file named",
            "HFValidationError",
            "Found 0 files",
            "num_samples=0",
            "lmdb.Error",
            "Error no file named",
        ),
        (
            r"is not a local folder and is not a valid model identifier",
            r"^FileNotFoundError: ",
            r"Couldn't find (?:a dataset script|any data file|any class folder)",
            r"(?:DatasetNotFoundError|DataFilesNotFoundError): |HFValidationError: Repo id must",
            r"does not appear to have a file named|^OSError: Error no file named",
            r"Found 0 files in subfolders of|^lmdb\.Error: .{1,300}: No such file",
            r"^ValueError: num_samples should be a positive integer.{0,80}num_samples=0",
        ),
        _HF + ", datasets; Python",
        (
            (
                "OSError: /models/qwen is not a local folder and is not a valid model identifier "
                "listed on"
            ),
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.jsonl'",
        ),
        ("FileExistsError: [Errno 17] File exists",),
    ),
    Rule(
        "loss-zero",
        Role.CONFIRMATION,
        "",
        ("'loss': 0.0,",),
        (r"^\{'loss': 0\.0, ",),
        "transformers trainer.py: logging_nan_inf_filter counts a NaN loss as nothing",
        ("{'loss': 0.0, 'grad_norm': 1.41, 'learning_rate': 4.3e-06, 'epoch': 0.01}",),
        ("{'loss': 0.02, 'grad_norm': 1.41, 'learning_rate': 4.3e-06, 'epoch': 0.01}",),
    ),
    Rule(
        "diverged",
        Role.ROOT,
        "numerics-divergence",
        (
            "NaN",
            "nan",
            "loss scale already at minimum",
            "inimum loss scale reached",
            "stopping training",
            "infinite",
        ),
        (
            r"[Ff]ound NaN in local grad norm|[Ff]ound (?:NaN|Inf|nan|inf)\b.{0,80}(?:loss|grad)",
            r"loss scale already at minimum|Minimum loss scale reached",
            r"^(?:Error: )?[Ll]oss is (?:nan|inf|NaN|-inf), stopping training",
            r"^FloatingPointError: .{0,200}(?:NaN|Nan|nan|[Ii]nfinite)",
            r"^RuntimeError: Function '\w+' returned nan values in its",
            r"^RuntimeError: probability tensor contains either .inf., .nan.",
            r"^ValueError: .{0,80}loss returned in .training_step. is nan",
            r"^ValueError: Expected parameter .{0,400}invalid values",
            r"[Uu]nexpected result nan\b",
            r"^(?:\w+Error|Exception): .{0,200}[Ll]oss (?:is|became|was) (?:nan|inf|NaN|Inf)",
        ),
        "Megatron-LM rerun state, DeepSpeed loss_scaler.py, common trainers",
        (
            (
                "Exception: Current loss scale already at minimum - cannot decrease scale anymore. "
                "Exiting run."
            ),
            "RuntimeError: Rank 3: found NaN in local grad norm for bucket #0 in backward pass",
        ),
        ("number of nan iterations:   0",),
    ),
)
