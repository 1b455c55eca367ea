"""A checkpoint of torch.distributed.checkpoint: dcp.py FOLDER dcp"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from ranks import join, leave, tiny_model, train_one_step
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STEP = 20

if __name__ == "__main__":
    join()
    model = tiny_model()
    for layer in model:
        fully_shard(layer, mesh=init_device_mesh("cpu", (torch.distributed.get_world_size(),)))
    fully_shard(model, mesh=init_device_mesh("cpu", (torch.distributed.get_world_size(),)))
    optimizer = torch.optim.AdamW(model.parameters())
    train_one_step(model, optimizer)
    weights, states = get_state_dict(model, optimizer)
    path = Path(sys.argv[1]) / "dcp" / f"step-{STEP}"
    dcp.save(
        {"model": weights, "optimizer": states, "step": STEP, "lr": [1e-3]}, checkpoint_id=path
    )
    leave()
