"""For ms-swift's --external_plugins: what a try-out on CPUs needs and a training on GPUs does not.

COLLECTIVE_SECONDS  how long a rank waits for the others (30). transformers passes --ddp_timeout on
                    to GPUs alone; without this a rank whose peer is gone waits for half an hour.
STEP_SECONDS        makes each step last longer, so that there is time to break something (0).
"""

from __future__ import annotations

import multiprocessing
import os
import time
from datetime import timedelta
from typing import Any

import torch.distributed
from swift.callbacks import TrainerCallback, callbacks_map


class StepSeconds(TrainerCallback):  # type: ignore[misc]  # ms-swift has no types
    def on_step_begin(self, *_arguments: Any, **_more: Any) -> None:
        time.sleep(float(os.environ.get("STEP_SECONDS", "0")))


callbacks_map["step_seconds"] = StepSeconds

# A data loader's worker imports plugins too, and is no rank.
if "RANK" in os.environ and multiprocessing.parent_process() is None:
    seconds = float(os.environ.get("COLLECTIVE_SECONDS", "30"))
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=seconds))
