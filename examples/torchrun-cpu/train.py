"""A small distributed training that may be killed at any moment and goes on as if nothing had been.

torchrun starts it once per rank. Three habits make a resume exact to the last digit of the loss:
a checkpoint holds all that the next step depends on, the data of a step follows from its number,
and sums are made in the same order every time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import time
from datetime import timedelta
from pathlib import Path
from types import FrameType

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

SEED = 20
BATCH, FEATURES, HIDDEN = 16, 32, 64
KEEP = 3  # checkpoints
TIMEOUT = timedelta(seconds=10)  # a peer that is silent for so long is lost; the default is 30 min


class LeaveRequest:
    """Remembers that somebody asked this rank to save and leave.

    SIGUSR2 comes ahead of the time limit, SIGTERM at a preemption. All ranks have to leave after
    the same step: one that goes alone leaves the others waiting.
    """

    def __init__(self) -> None:
        self.here = False
        for number in (signal.SIGUSR2, signal.SIGTERM):
            signal.signal(number, self.on_signal)

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.here = True  # and nothing else: the step that runs now is finished first

    def agreed(self) -> bool:
        """Whether any rank was asked. Every rank calls this in every step."""
        flag = torch.tensor(int(self.here))
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        return bool(flag)


def main() -> None:
    options = parse_options()
    leave = LeaveRequest()
    torch.set_num_threads(1)  # more threads would sum in an order of their own
    torch.use_deterministic_algorithms(mode=True)
    dist.init_process_group("gloo", timeout=TIMEOUT)
    try:
        train(options, leave, rank=dist.get_rank())
    finally:
        dist.destroy_process_group()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output_dir", type=Path, required=True)
    parser.add_argument("--max_steps", type=int, default=60)
    parser.add_argument("--save_steps", type=int, default=5, help="steps between two checkpoints")
    parser.add_argument("--step_seconds", type=float, default=0.0, help="sleep in each step")
    parser.add_argument("--resume_from_checkpoint", type=Path, metavar="PATH")
    return parser.parse_args()


def train(options: argparse.Namespace, leave: LeaveRequest, *, rank: int) -> None:
    torch.manual_seed(SEED)
    network = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    # DDP lays out its buckets anew after the first backward pass, and adds gradients in another
    # order then: without this pass, which is thrown away, a resume differs in the last digits.
    loss_of(model, step=0, rank=rank).backward()
    optimizer.zero_grad()

    done = 0
    if options.resume_from_checkpoint:
        done = load(options.resume_from_checkpoint, network, optimizer)
        print(f"[rank {rank}] resumed from {options.resume_from_checkpoint}", flush=True)
    for step in range(done + 1, options.max_steps + 1):
        loss = loss_of(model, step=step, rank=rank)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"[rank {rank}] step {step} loss {loss.item():.6f}", flush=True)
        leaving = leave.agreed()
        if leaving or step % options.save_steps == 0 or step == options.max_steps:
            if rank == 0:
                save(options.output_dir, network, optimizer, step=step, of=options.max_steps)
            dist.barrier()  # nobody runs ahead of a checkpoint that is not on disk
        if leaving and step < options.max_steps:
            print(f"[rank {rank}] asked to leave, saved at step {step}", flush=True)
            return
        time.sleep(options.step_seconds)

    with torch.no_grad():
        final = loss_of(model, step=options.max_steps + 1, rank=rank)
    dist.all_reduce(final)
    final_loss = final.item() / dist.get_world_size()
    if rank == 0:
        print(f"[rank 0] final loss {final_loss!r} after {options.max_steps} steps", flush=True)
        result = {"final_loss": final_loss, "steps": options.max_steps}
        write_json(options.output_dir / "final_loss.json", result)


def loss_of(model: nn.Module, *, step: int, rank: int) -> Tensor:
    """The loss on the data that this rank sees in this step, whoever asks and whenever."""
    random = torch.Generator().manual_seed(SEED + step * dist.get_world_size() + rank)
    inputs = torch.randn(BATCH, FEATURES, generator=random)
    wanted = inputs.sum(dim=1, keepdim=True) / FEATURES**0.5
    return nn.functional.mse_loss(model(inputs), wanted)


def load(checkpoint: Path, network: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    network.load_state_dict(torch.load(checkpoint / "model.pt", weights_only=True))
    optimizer.load_state_dict(torch.load(checkpoint / "optimizer.pt", weights_only=True))
    state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    return int(state["global_step"])


def save(
    output: Path, network: nn.Module, optimizer: torch.optim.Optimizer, *, step: int, of: int
) -> None:
    """Write ``checkpoint-N`` so that under this name there is all of it, or nothing."""
    unfinished = output / f".unfinished-{step}"
    shutil.rmtree(unfinished, ignore_errors=True)  # an earlier attempt was killed while saving
    unfinished.mkdir(parents=True)
    for name, values in ("model", network), ("optimizer", optimizer):
        with (unfinished / f"{name}.pt").open("wb") as file:
            torch.save(values.state_dict(), file)
            os.fsync(file.fileno())
    write_json(unfinished / "trainer_state.json", {"global_step": step, "max_steps": of})
    final = output / f"checkpoint-{step}"
    remove(final)  # only there if this run was sent back to an older one
    unfinished.rename(final)
    sync_folder(output)
    saved = {int(path.name[11:]): path for path in output.iterdir() if is_checkpoint(path)}
    for old in sorted(saved)[:-KEEP]:
        remove(saved[old])


def is_checkpoint(path: Path) -> bool:
    return re.fullmatch(r"checkpoint-\d+", path.name) is not None


def remove(checkpoint: Path) -> None:
    """Take the name away first: half a checkpoint must not look like one."""
    if checkpoint.exists():
        removed = checkpoint.with_name(f".removed-{checkpoint.name}")
        shutil.rmtree(removed, ignore_errors=True)
        checkpoint.rename(removed)
        shutil.rmtree(removed)


def write_json(path: Path, value: dict[str, float]) -> None:
    """Beside it, to the disk, then under its name: a reader sees the old file or the new one."""
    beside = path.with_name(f".{path.name}.tmp")
    with beside.open("w", encoding="utf-8") as file:
        json.dump(value, file)  # floats as repr writes them, so nothing is rounded
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


if __name__ == "__main__":
    main()
