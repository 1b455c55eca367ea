"""Checkpoints of Lightning: lightning_fit.py FOLDER lightning | lightning-sharded"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from ranks import WORLD_SIZE, leave, tiny_model
from torch.utils.data import DataLoader, TensorDataset


class Tiny(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model: Any = None if WORLD_SIZE > 1 else tiny_model()

    def configure_model(self) -> None:
        if self.model is None:
            from torch.distributed.fsdp import fully_shard

            self.model = tiny_model()
            for layer in self.model:
                fully_shard(layer, mesh=self.device_mesh["data_parallel"])

    def training_step(self, batch: Any, _index: int) -> Any:
        return self.model(batch[0]).sum()

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters())


def strategy() -> Any:
    if WORLD_SIZE == 1:
        return "auto"
    from lightning.pytorch.strategies import ModelParallelStrategy

    return ModelParallelStrategy(data_parallel_size=WORLD_SIZE, tensor_parallel_size=1)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) / sys.argv[2]
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=WORLD_SIZE,
        strategy=strategy(),
        max_steps=4,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[
            ModelCheckpoint(
                dirpath=folder,
                every_n_train_steps=2,
                save_top_k=-1,
                save_last=True,
            )
        ],
    )
    trainer.fit(Tiny(), DataLoader(TensorDataset(torch.rand(64, 32)), batch_size=2))
    leave()
