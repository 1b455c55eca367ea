"""Directories of DeepSpeed's save_checkpoint: deepspeed_alone.py FOLDER deepspeed-zero2 ..."""

from __future__ import annotations

import sys
from pathlib import Path

import deepspeed
import torch
from ranks import WORLD_SIZE, join, leave, tiny_model

ZERO = {
    "deepspeed-zero0": (0, {}),
    "deepspeed-zero1": (1, {}),
    "deepspeed-zero2": (2, {}),
    "deepspeed-zero2-bf16": (2, {"bf16": {"enabled": True}}),
    "deepspeed-zero3": (3, {}),
}
STEPS = 2

if __name__ == "__main__":
    join()
    for kind in sys.argv[2:]:
        stage, more = ZERO[kind]
        model = tiny_model()
        engine, *_ = deepspeed.initialize(
            model=model,
            optimizer=torch.optim.AdamW(model.parameters()),
            lr_scheduler=lambda optimizer: torch.optim.lr_scheduler.LambdaLR(
                optimizer, lambda _step: 1.0
            ),
            config={
                "train_batch_size": 2 * WORLD_SIZE,
                "zero_optimization": {"stage": stage},
                "zero_allow_untested_optimizer": True,
                **more,
            },
        )
        kind_of_number = torch.bfloat16 if more else torch.float32
        for step in range(1, STEPS + 1):
            loss = engine(torch.rand(2, 32, dtype=kind_of_number)).sum()
            engine.backward(loss)
            engine.step()
            engine.save_checkpoint(str(Path(sys.argv[1]) / kind), client_state={"step": step})
    leave()
