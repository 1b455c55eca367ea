"""What the makers share: this process's place among its ranks, and a model of a few kilobytes."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
WORLD_SIZE = int(os.environ["WORLD_SIZE"])


def join() -> None:
    """Meet the other ranks by a file: a port could be taken by another test."""
    dist.init_process_group(
        "gloo",
        init_method=f"file://{os.environ['MEETING_FILE']}",
        rank=RANK,
        world_size=WORLD_SIZE,
    )


def leave() -> None:
    """End when all have saved, without the libraries' threads: they may abort on the way out."""
    if dist.is_initialized():
        dist.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def tiny_model() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32), torch.nn.Linear(32, 8)
    )


def train_one_step(model: Any, optimizer: Any) -> None:
    torch.manual_seed(RANK)
    model(torch.rand(4, 32)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
