"""How far a training came, by what its log says."""

from __future__ import annotations

import re
from typing import Optional, Pattern, Sequence, Tuple

# Each group 1 is the step that was done. The last one of a log counts.
_STEPS: Tuple[Pattern[bytes], ...] = (
    re.compile(rb"'global_step/max_steps': '(\d{1,12})/\d{1,12}'"),  # ms-swift
    re.compile(rb"\biteration\s+(\d{1,12})/\s*\d{1,12}\b"),  # Megatron-LM
    re.compile(rb"\|\s*(\d{1,12})/\d{1,12} \["),  # tqdm: transformers, accelerate's examples
    re.compile(rb"\bstep[ =:]+(\d{1,12})\b.{0,40}\bloss\b"),  # many a training of one's own
)


def last_step(log: bytes) -> Optional[int]:
    """Return the last step that a log speaks of; None where it speaks of none.

    By the first pattern that occurs: a bar of another loop beside the training's own lines must
    not be taken for it.
    """
    for pattern in _STEPS:
        steps: Sequence[bytes] = pattern.findall(log)
        if steps:
            return int(steps[-1])
    return None
