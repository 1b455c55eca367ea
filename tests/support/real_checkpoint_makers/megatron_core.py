"""Directories of Megatron-LM: megatron_core.py FOLDER megatron | megatron-legacy | megatron-swift

Megatron-core writes the distributed kind by itself; around it, and for the legacy kind, the files
and their order are those of Megatron-LM's and ms-swift's save functions, which need GPUs.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import dist_checkpointing
from megatron.core.dist_checkpointing import ShardedTensor
from ranks import RANK, WORLD_SIZE, join, leave, tiny_model

STEP = 10
TRACKER = "latest_checkpointed_iteration.txt"


def state() -> dict[str, Any]:
    return {
        "args": Namespace(
            tensor_model_parallel_size=WORLD_SIZE,
            pipeline_model_parallel_size=1,
            world_size=WORLD_SIZE,
            train_iters=40,
            use_distributed_optimizer=True,
        ),
        "checkpoint_version": 3.0,
        "iteration": STEP,
        "num_floating_point_operations_so_far": 0,
    }


def save_distributed(folder: Path) -> None:
    iteration = folder / f"iter_{STEP:07d}"
    iteration.mkdir(parents=True, exist_ok=True)
    weights = tiny_model().state_dict()
    dist.barrier()
    parts = {
        "model": sharded("", weights),
        "optimizer": sharded("optimizer.state.exp_avg.", weights),
    }
    dist_checkpointing.save({**state(), **parts}, str(iteration))
    track(folder)


def sharded(prefix: str, tensors: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{prefix}{name}": ShardedTensor.from_rank_offsets(
            f"{prefix}{name}", tensor, (0, RANK, WORLD_SIZE)
        )
        for name, tensor in tensors.items()
    }


def save_legacy(folder: Path) -> None:
    rank = folder / f"iter_{STEP:07d}" / f"mp_rank_{RANK:02d}"
    rank.mkdir(parents=True, exist_ok=True)
    model = tiny_model()
    optimizer = torch.optim.AdamW(model.parameters())
    torch.save(
        {**state(), "model": model.state_dict(), "optimizer": optimizer.state_dict()},
        rank / "model_optim_rng.pt",
    )
    torch.save({"buckets": torch.rand(1000)}, rank / "distrib_optim.pt")
    track(folder)


def save_swift(folder: Path) -> None:
    from safetensors.torch import save_file

    path = folder / f"checkpoint-{STEP}"
    path.mkdir(parents=True, exist_ok=True)
    if RANK == 0:
        (path / "args.json").write_text(json.dumps({"global_world_size": WORLD_SIZE}))
    save_distributed(path)
    if RANK == 0:
        save_file(tiny_model().state_dict(), path / "model.safetensors")
        (path / "config.json").write_text(json.dumps({"model_type": "tiny"}))
        (folder / "last-checkpoint").symlink_to(path.name)


def track(folder: Path) -> None:
    dist.barrier()
    if RANK == 0:
        (folder / TRACKER).write_text(str(STEP))


KINDS = {
    "megatron": save_distributed,
    "megatron-legacy": save_legacy,
    "megatron-swift": save_swift,
}

if __name__ == "__main__":
    join()
    # Megatron-core waits for the GPU's copies before it writes, and counts failures on the GPU.
    torch.cuda.synchronize = lambda *_arguments: None
    torch.cuda.current_device = lambda: "cpu"
    for kind in sys.argv[2:]:
        KINDS[kind](Path(sys.argv[1]) / kind)
    leave()
