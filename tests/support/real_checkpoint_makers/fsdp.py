"""The directory of a Trainer with FSDP: fsdp.py FOLDER hf-fsdp|hf-fsdp-full ...

accelerate refuses FSDP on CPUs, so that its Trainer cannot be run; the model is sharded by torch,
and each part is written by the function that Trainer calls for it, in Trainer's order.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.fsdp_utils import save_fsdp_model, save_fsdp_optimizer
from ranks import RANK, WORLD_SIZE, join, leave, tiny_model, train_one_step
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import TrainerState, TrainingArguments

STEP, MAX_STEPS = 2, 3
STATES = {"hf-fsdp": "SHARDED_STATE_DICT", "hf-fsdp-full": "FULL_STATE_DICT"}


def save(folder: Path, kind: str) -> None:
    model = tiny_model()
    fully_shard(model, mesh=init_device_mesh("cpu", (WORLD_SIZE,)))
    optimizer = torch.optim.AdamW(model.parameters())
    train_one_step(model, optimizer)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _step: 1.0)
    path = folder / kind / f"checkpoint-{STEP}"
    # First: making arguments unsets accelerate's state.
    arguments = TrainingArguments(output_dir=str(path), use_cpu=True)
    accelerator = Accelerator(cpu=True)
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, state_dict_type=STATES[kind])
    if RANK == 0:
        path.mkdir(parents=True)
        torch.save(arguments, path / "training_args.bin")
    dist.barrier()
    save_fsdp_model(plugin, accelerator, model, str(path))
    save_fsdp_optimizer(plugin, accelerator, optimizer, model, str(path))
    torch.save({"cpu": torch.get_rng_state()}, path / f"rng_state_{RANK}.pth")
    if RANK == 0:
        torch.save(scheduler.state_dict(), path / "scheduler.pt")
        state = TrainerState(global_step=STEP, max_steps=MAX_STEPS)
        state.save_to_json(str(path / "trainer_state.json"))


if __name__ == "__main__":
    join()
    for each in sys.argv[2:]:
        save(Path(sys.argv[1]), each)
    leave()
