"""A training that does nothing but save, the way Trainer does: live_trainer.py OUTPUT SEED STARTS.

Straight into ``checkpoint-N``, file after file, torch's in pieces and in place, trainer_state.json
last; but the random state of every other rank comes at any time. What each file must hold follows
from its step and its start, so that whoever looks can tell a whole one.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import threading
import time
import zlib
from pathlib import Path

from tests.support.checkpoint_folder import safetensors, torch_like

RANKS = 3
KEPT = 3
STEPS_OF_A_START = 12
_BYTES = 1 << 16
_PIECES = 6
_PAUSE = 0.006


def contents_of(step: int, start: int) -> dict[str, bytes]:
    """Every file of a checkpoint, in the order in which the first rank writes them."""
    filling = random.Random(zlib.crc32(f"{step} {start}".encode())).randbytes(_BYTES)  # noqa: S311
    state = {"global_step": step, "max_steps": 10**9, "start": start}
    return {
        "model.safetensors": safetensors(_BYTES, name=f"w{start}"),
        "training_args.bin": torch_like({"start": start}),
        "args.json": json.dumps({"global_world_size": RANKS, "start": start}).encode(),
        "optimizer.pt": torch_like(filling),
        "scheduler.pt": torch_like({"step": step, "start": start}),
        "rng_state_0.pth": torch_like(filling[:1000]),
        "trainer_state.json": json.dumps(state).encode(),
    }


def random_state(step: int, rank: int) -> bytes:
    return torch_like({"rank": rank, "step": step})


def is_whole(path: Path, start: int) -> bool:
    """Whether every byte of every file is there."""
    step = int(path.name.rpartition("-")[2])
    wanted = contents_of(step, start)
    wanted |= {f"rng_state_{r}.pth": random_state(step, r) for r in range(1, RANKS)}
    try:
        return all((path / name).read_bytes() == data for name, data in wanted.items())
    except FileNotFoundError:
        return False


def _save(output: Path, step: int, start: int, chance: random.Random) -> None:
    path = output / f"checkpoint-{step}"
    path.mkdir(exist_ok=True)
    others = [
        threading.Thread(target=_save_rank, args=(path, step, rank, chance.uniform(0, 0.15)))
        for rank in range(1, RANKS)
    ]
    for other in others:
        other.start()
    for name, data in contents_of(step, start).items():
        _write(path / name, data, chance)
    for other in others:
        other.join()


def _save_rank(path: Path, step: int, rank: int, delay: float) -> None:
    time.sleep(delay)
    (path / f"rng_state_{rank}.pth").write_bytes(random_state(step, rank))


def _write(path: Path, data: bytes, chance: random.Random) -> None:
    # safetensors writes beside it and renames since 0.8; torch never does.
    target = path.with_name(f".tmp{path.name}") if path.suffix == ".safetensors" else path
    with target.open("wb", buffering=0) as file:
        size = len(data) // _PIECES + 1
        for offset in range(0, len(data), size):
            file.write(data[offset : offset + size])
            time.sleep(chance.uniform(0, _PAUSE))
    if target != path:
        target.rename(path)


def _rotate(output: Path) -> None:
    kept = sorted(output.glob("checkpoint-*"), key=lambda path: path.stat().st_mtime)
    for path in kept[:-KEPT]:
        shutil.rmtree(path)


def main() -> None:
    output, seed, starts = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)  # noqa: S311
    start, step = 0, 0
    while True:
        step += 1
        if starts > 1 and step > STEPS_OF_A_START:
            # Another start in the same folder, from the beginning: it saves over what is there.
            start, step = (start + 1) % starts, 1
        _save(output, step, start, chance)
        if starts == 1:
            _rotate(output)
        time.sleep(chance.uniform(0, 0.02))


if __name__ == "__main__":
    main()
