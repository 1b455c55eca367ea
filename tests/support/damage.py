"""Ways in which a checkpoint of ms-swift breaks: done to a real one, and what is then said."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Damage:
    """One way: what it does to a checkpoint's folder, and words that name it afterwards."""

    name: str
    do: Callable[[Path], object]
    said: str


def cut(path: Path, keep: float = 0.5) -> None:
    os.truncate(path, int(path.stat().st_size * keep))


def half_written(checkpoint: Path) -> None:
    """As a kill in the middle of the save leaves it: what comes late is not there."""
    for name in ("trainer_state.json", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth"):
        (checkpoint / name).unlink()
    cut(checkpoint / "optimizer.pt")


def index_without_shards(checkpoint: Path) -> None:
    for shard in checkpoint.glob("model-*.safetensors"):
        shard.unlink()


def stale_tag(checkpoint: Path) -> None:
    """DeepSpeed's `latest` of an earlier save."""
    step = json.loads((checkpoint / "trainer_state.json").read_text())["global_step"]
    (checkpoint / "latest").write_text(f"global_step{step - 4}")


FIRST_SHARD = "model-00001-of-00002.safetensors"
# Of a checkpoint whose weights are in two shards.
FULL = (
    Damage("missing shard", lambda c: (c / FIRST_SHARD).unlink(), f"{FIRST_SHARD}: missing"),
    Damage("cut safetensors", lambda c: cut(c / FIRST_SHARD), f"{FIRST_SHARD}: "),
    Damage("cut zip", lambda c: cut(c / "optimizer.pt", 0.99), "optimizer.pt: cut"),
    Damage("empty JSON", lambda c: cut(c / "trainer_state.json", 0), "trainer_state.json: "),
    Damage(
        "rng of one rank", lambda c: (c / "rng_state_1.pth").unlink(), "rng_state_1.pth: missing"
    ),
    Damage(
        "missing optimizer", lambda c: (c / "optimizer.pt").unlink(), "no file of the optimizer"
    ),
    Damage("index without shards", index_without_shards, "index.json lists it"),
    Damage("half written", half_written, "trainer_state.json: missing: the save did not finish"),
    Damage(
        "sentinel",
        lambda c: (c / "checkpoint-is-incomplete.txt").write_text(""),
        "checkpoint-is-incomplete.txt: the save did not finish",
    ),
)
# Of one that DeepSpeed has a part in.
ZERO2 = (Damage("stale latest", stale_tag, "latest: names 'global_step4'"),)
