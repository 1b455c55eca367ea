#!/usr/bin/env python3
"""Makes the log of a long training by a seed: 64 ranks in good health, then one failure.

    python bench/training_log.py FILE [--megabytes N] [--seed S]

Rank 0 logs its loss and its progress bar; all ranks warn and tell what NCCL does. In the last
hundredth rank 37 runs out of memory, and the others lose it.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

RANKS, RANKS_A_NODE = 64, 8
FAILED = 37
_BLOCK = 4 << 20  # made once and varied by its step numbers: a random number a byte is slow


def log(*, size: int, seed: int) -> Iterator[bytes]:
    """Yield about ``size`` bytes of log, a piece at a time."""
    draw = random.Random(seed)  # noqa: S311 - a log, not a secret
    made, step, failed = 0, 0, False
    while made < size:
        piece, step = healthy(draw, step)
        if not failed and made + len(piece) >= size * 0.99:
            piece, failed = piece + failure(step), True
        made += len(piece)
        yield piece
        if failed:
            return


def healthy(draw: random.Random, step: int) -> tuple[bytes, int]:
    lines: list[str] = []
    size = 0
    while size < _BLOCK:
        step += 1
        line = _step(draw, step)
        lines.append(line)
        size += len(line)
    return "".join(lines).encode(), step


def _step(draw: random.Random, step: int) -> str:
    loss = 2 + draw.random()
    text = (
        f"Train:  {step % 100:2}%|{'█' * (step % 10):10}| {step}/900000 "
        f"[{step // 3600:02}:{step // 60 % 60:02}:{step % 60:02}<99:12:10,  1.{step % 97:02}s/it]\r"
    )
    if step % 5 == 0:
        text += (
            f"{{'loss': '{loss:.8f}', 'grad_norm': '{draw.random():.8f}', 'learning_rate': "
            f"'{draw.random() * 1e-5:.8e}', 'memory(GiB)': 71.4, 'train_speed(iter/s)': 0.93, "
            f"'token_acc': 0.{step % 10000:04}, 'epoch': {step / 4000:.2f}, "
            f"'global_step/max_steps': '{step}/900000', 'elapsed_time': '1h 2m 3s'}}\n"
        )
    if step % 50 == 0:
        text += "".join(_of_rank(draw, rank, step) for rank in range(RANKS))
    return text


def _of_rank(draw: random.Random, rank: int, step: int) -> str:
    node, local = f"gpu{rank // RANKS_A_NODE:02}", rank % RANKS_A_NODE
    kind = draw.choice(("nccl", "deepspeed", "warning", "swift"))
    if kind == "nccl":
        return (
            f"{node}:{4000 + local}:{4100 + local} [{local}] NCCL INFO Channel {step % 32:02}/0 : "
            f"{rank}[{local}] -> {(rank + 1) % RANKS}[{(local + 1) % 8}] via P2P/IPC/read\n"
        )
    if kind == "deepspeed":
        return (
            f"[2026-12-01 {step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02},123] [INFO] "
            f"[logging.py:107:log_dist] [Rank {rank}] step={step}, skipped=0, lr=[1e-05], "
            f"mom=[(0.9, 0.95)]\n"
        )
    if kind == "warning":
        return (
            f"[rank{rank}]: /opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:85: "
            "UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n"
        )
    return f"[rank{rank}]: [INFO:swift] Saving model checkpoint to /data/run/checkpoint-{step}\n"


def failure(step: int) -> bytes:
    frames = "".join(
        f'[rank{FAILED}]:   File "/opt/venv/lib/python3.11/site-packages/torch/nn/m{n}.py", '
        f"line {n}, in forward\n[rank{FAILED}]:     return self.inner(x)\n"
        for n in range(20)
    )
    first = (
        f"[rank{FAILED}]: Traceback (most recent call last):\n{frames}[rank{FAILED}]: "
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has a total "
        "capacity of 79.11 GiB of which 1.07 GiB is free.\n"
    )
    lost = "".join(
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/t/train.py", line 9, in <module>\n'
        f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: "
        "/pytorch/ProcessGroupNCCL.cpp:2395, remote process exited or there was a network error, "
        f"step {step}\n"
        for rank in range(RANKS)
        if rank != FAILED
    )
    return (first + lost).encode()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with options.file.open("wb") as file:
        for piece in log(size=options.megabytes << 20, seed=options.seed):
            file.write(piece)


if __name__ == "__main__":
    main()
