"""Directories of accelerate's save_state: accelerate_state.py FOLDER accelerate"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
from ranks import WORLD_SIZE, join, leave, tiny_model, train_one_step
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    if WORLD_SIZE > 1:
        join()
    for kind in sys.argv[2:]:
        # Names checkpoints/checkpoint_0, checkpoint_1 by itself.
        project = ProjectConfiguration(
            project_dir=str(Path(sys.argv[1]) / kind), automatic_checkpoint_naming=True
        )
        accelerator = Accelerator(cpu=True, project_config=project)
        model = tiny_model()
        optimizer = torch.optim.AdamW(model.parameters())
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _step: 1.0)
        rows = DataLoader(TensorDataset(torch.rand(8, 32)), batch_size=2, shuffle=True)
        model, optimizer, rows, scheduler = accelerator.prepare(model, optimizer, rows, scheduler)
        for _ in range(2):
            train_one_step(model, optimizer)
            accelerator.save_state()
    leave()
