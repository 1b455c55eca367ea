"""What damaged, missing or ill-fitting checkpoints make programs say."""

from __future__ import annotations

from typing import Tuple

from slurmswift.domain.rule import Role, Rule

# A traceback through code that reads or writes checkpoints.
_CHECKPOINT_CODE = (
    r"(?i)resum|checkpoint|load_state|trainer_state|_load_rng|load_from_json|load_optimizer|"
    r"torch/serialization"
)
_HF = "transformers, huggingface_hub"

CHECKPOINT_RULES: Tuple[Rule, ...] = (
    Rule(
        "ckpt-save-race",
        Role.ROOT,
        "ckpt-save-race",
        ("tmp-checkpoint-", "FileExistsError", "Directory not empty"),
        (
            r"^FileNotFoundError: .{0,300}tmp-checkpoint-\d+",
            r"^OSError: \[Errno 39\] Directory not empty: .{0,300}checkpoint",
        ),
        "transformers trainer.py 4.36 to 4.38 (staging directory)",
        (
            (
                "FileNotFoundError: [Errno 2] No such file or directory: "
                "'saves/tmp-checkpoint-1000/trainer_state.json'"
            ),
        ),
        (
            (
                "FileNotFoundError: [Errno 2] No such file or directory: "
                "'out/checkpoint-1000/trainer_state.json'"
            ),
        ),
    ),
    Rule(
        "ckpt-makedirs-race",
        Role.ROOT,
        "ckpt-save-race",
        ("FileExistsError",),
        (r"^FileExistsError: \[Errno 17\] File exists",),
        "Python os.makedirs on shared file systems with attribute caches",
        ("FileExistsError: [Errno 17] File exists: '/ckpt/epoch_0_step_297/rng'",),
        ("FileExistsError: will not overwrite",),
        context=r"(?i)makedirs|checkpoint|_save",
    ),
    Rule(
        "ckpt-unreadable",
        Role.ROOT,
        "ckpt-corrupt",
        (
            "central directory",
            "MetadataIncompleteBuffer",
            "Header",
            "incomplete metadata",
            "PytorchStreamReader",
            "invalid load key",
            "unexpected EOF",
            "storage has wrong byte size",
            "invalid header",
            "Invalid magic number",
            "BadZipFile",
            "Unable to load weights",
            "truncated file",
            "InvalidOffset",
        ),
        (
            r"failed finding central directory|PytorchStreamReader failed",
            (
                r"SafetensorError: .{0,60}(?:MetadataIncompleteBuffer|HeaderToo(?:Large|Small)|"
                r"InvalidHeader\w*|\w*InvalidOffset|"
                r"invalid UTF-8 in header|incomplete metadata|invalid header|header too)"
            ),
            r"UnpicklingError: invalid load key",
            r"unexpected EOF, expected \d+ more bytes\. The file might be corrupted",
            r"storage has wrong byte size|Invalid magic number; corrupt file",
            r"^(?:zipfile\.)?BadZipFile: ",
            r"^OSError: Unable to load weights from pytorch checkpoint file for",
            r"^OSError: Unable to (?:synchronously )?open file \(truncated file",
        ),
        "PyTorch caffe2/serialize/inline_container.cc, torch/serialization.py; safetensors 0.3 "
        "to 0.6",
        (
            (
                "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding "
                "central directory"
            ),
            "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
            (
                "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: "
                "incomplete "
                "metadata, file not fully covered"
            ),
        ),
        ("requests.exceptions.InvalidHeader: Header value must be str",),
    ),
    Rule(
        "ckpt-state-unreadable",
        Role.ROOT,
        "ckpt-corrupt",
        ("JSONDecodeError", "Ran out of input", "Errno 22", "UnpicklingError", "EOFError"),
        (
            r"^(?:json\.decoder\.)?JSONDecodeError: ",
            r"^EOFError: Ran out of input",
            r"^OSError: \[Errno 22\] Invalid argument",
            r"^_?pickle\.UnpicklingError: ",
        ),
        "Python json and pickle, below code that resumes",
        ("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",),
        ("requests.exceptions.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",),
        context=_CHECKPOINT_CODE,
    ),
    Rule(
        "ckpt-files-missing",
        Role.ROOT,
        "ckpt-missing-files",
        (
            "valid checkpoint",
            "No such file or directory",
            "checkpoint",
            "zero_pp_rank",
            "Unable to find latest",
        ),
        (
            r"Can't find a valid checkpoint at",
            (
                r"^FileNotFoundError: .{0,300}(?:checkpoint-\d+|global_step_?\d+|iter_\d{5,}|"
                r"trainer_state\.json|"
                r"\.distcp|zero_pp_rank_\d+|mp_rank_\d+|latest_checkpointed_iteration|"
                r"rng_state|scheduler\.pt|optimizer\.pt)"
            ),
            r"[Tt]he following zero checkpoints? paths? (?:are|is) missing",
            r"^(?:\w+: )?Unable to find latest file at",
            r"^ValueError: No valid checkpoint found in output directory",
            r"exit-on-missing-checkpoint' set",
            r"^OSError: Error no file named .{0,300}checkpoint-\d+",
            r"^AssertionError: .{0,80}checkpoint.{0,200}(?:does not exist|doesn't exist|not found)",
        ),
        _HF + "; DeepSpeed runtime/engine.py; torch.distributed.checkpoint",
        (
            "ValueError: Can't find a valid checkpoint at /out/checkpoint-4",
            (
                "FileNotFoundError: [Errno 2] No such file or directory: "
                "'/out/checkpoint-4/trainer_state.json'"
            ),
            (
                "FileNotFoundError: No such file or directory: "
                "/out/checkpoint-4/model-00002-of-00004.safetensors"
            ),
        ),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/train.jsonl'",),
    ),
    Rule(
        "ckpt-resume-path-missing",
        Role.ROOT,
        "ckpt-missing-files",
        ("FileNotFoundError",),
        (r"^FileNotFoundError: ",),
        "Python, below code that resumes",
        ("FileNotFoundError: path: '/out/last'",),
        ("FileExistsError: [Errno 17] File exists: '/out'",),
        context=r"(?i)resume_from|load_checkpoint|_load_rng|load_optimizer",
    ),
    Rule(
        "ckpt-incompatible",
        Role.ROOT,
        "ckpt-incompatible",
        (
            "Weights only load failed",
            "checkpointvalue",
            "checkpoint value",
            "loading state_dict",
            "size mismatch",
            "DP world size",
            "loaded state dict",
            "from checkpoint",
            "checkpoint state_dict",
            "mismatch for loaded",
        ),
        (
            r"Weights only load failed",
            r"class input value .{1,80} and checkpoint ?value",
            r"Error\(s\) in loading state_dict for",
            r"checkpoint being loaded used a DP world size of \d+ but the current world size",
            r"(?:^|: )size mismatch for \S+: copying a param",
            r"value from checkpoint \(.{0,80}\) is not equal to the (?:input|currently)",
            r"Missing key in checkpoint state_dict|[Gg]lobal shape mismatch for loaded",
            r"loaded state dict (?:has a different number|contains a parameter group)",
        ),
        "PyTorch torch/serialization.py, nn/modules/module.py, optim/optimizer.py; Megatron-LM; "
        "DeepSpeed",
        (
            (
                "AssertionError: AnnealingLR: class input value 1e-05 and checkpointvalue 3e-05 "
                "for "
                "learning rate do not match"
            ),
            (
                "deepspeed.runtime.zero.utils.ZeRORuntimeException: The checkpoint being loaded "
                "used a DP world "
                "size of 2 but the current world size is 1."
            ),
            "RuntimeError: Error(s) in loading state_dict for Model:",
        ),
        ("Some weights of the model checkpoint were not used",),
    ),
)
