"""Ways in which a checkpoint of ms-swift breaks: done to a real one, and what is then said."""

from __future__ import annotations

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


STEP = 8  # of the checkpoints that are damaged


def cut(path: Path, keep: float = 0.5) -> None:
    os.truncate(path, int(path.stat().st_size * keep))


def remove(*names: str) -> Callable[[Path], None]:
    def do(checkpoint: Path) -> None:
        for name in names:
            (checkpoint / name).unlink()

    return do


def half_written(newest: str) -> Callable[[Path], None]:
    """As a kill in the middle of the save leaves it: what comes late is not there.

    ``newest``: the file that it was writing.
    """

    def do(checkpoint: Path) -> None:
        remove("trainer_state.json", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth")(
            checkpoint
        )
        cut(checkpoint / newest)

    return do


def sentinel(checkpoint: Path) -> None:
    (checkpoint / "checkpoint-is-incomplete.txt").write_text("")


def index_without_shards(checkpoint: Path) -> None:
    for shard in checkpoint.glob("model-*.safetensors"):
        shard.unlink()


def stale_tag(checkpoint: Path) -> None:
    """DeepSpeed's `latest` of an earlier save."""
    (checkpoint / "latest").write_text(f"global_step{STEP - 4}")


# Of every kind.
OF_TRAINER = (
    Damage("empty JSON", lambda c: cut(c / "trainer_state.json", 0), "trainer_state.json: "),
    Damage("rng of one rank", remove("rng_state_1.pth"), "rng_state_1.pth: missing"),
    Damage("sentinel", sentinel, "checkpoint-is-incomplete.txt: the save did not finish"),
)
_UNFINISHED = "trainer_state.json: missing: the save did not finish"
_OWN_OPTIMIZER = (
    *OF_TRAINER,
    Damage("cut zip", lambda c: cut(c / "optimizer.pt", 0.99), "optimizer.pt: cut"),
    Damage("missing optimizer", remove("optimizer.pt"), "no file of the optimizer"),
    Damage("half written", half_written("optimizer.pt"), _UNFINISHED),
)
FIRST_SHARD = "model-00001-of-00002.safetensors"
# Of a checkpoint whose weights are in two shards.
FULL = (
    *_OWN_OPTIMIZER,
    Damage("missing shard", remove(FIRST_SHARD), f"{FIRST_SHARD}: missing"),
    Damage("cut safetensors", lambda c: cut(c / FIRST_SHARD), f"{FIRST_SHARD}: "),
    Damage("index without shards", index_without_shards, "index.json lists it"),
)
# Of one that holds adapters alone.
ADAPTER = "adapter_model.safetensors"
LORA = (
    *_OWN_OPTIMIZER,
    Damage("missing adapter", remove(ADAPTER), "no file of weights"),
    Damage("cut safetensors", lambda c: cut(c / ADAPTER), f"{ADAPTER}: "),
    Damage("missing settings", remove("adapter_config.json"), "adapter_config.json: missing"),
)
# Of one that DeepSpeed has a part in: each of two ranks has saved its share of the optimizer.
SHARE = f"global_step{STEP}/zero_pp_rank_1_mp_rank_00_optim_states.pt"
MODEL = f"global_step{STEP}/mp_rank_00_model_states.pt"
ZERO2 = (
    *OF_TRAINER,
    Damage("missing shard", remove(SHARE), f"{SHARE}: missing"),
    Damage("cut zip", lambda c: cut(c / SHARE, 0.99), f"{SHARE}: cut"),
    Damage("cut model", lambda c: cut(c / MODEL), f"{MODEL}: "),
    Damage("missing schedule", remove("scheduler.pt"), "scheduler.pt: missing"),
    Damage("half written", half_written(SHARE), _UNFINISHED),
    Damage("stale latest", stale_tag, f"latest: names 'global_step{STEP - 4}'"),
    Damage("no latest", remove("latest"), "latest: missing"),
)
KINDS = {"full": FULL, "lora": LORA, "zero2": ZERO2}
