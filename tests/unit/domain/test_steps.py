from __future__ import annotations

import pytest

from slurmswift.domain.steps import last_step

SWIFT = b"""\
0: [default0]:Map: 100%|####| 64/64 [00:00<00:00, 900.1 examples/s]
0: [default0]:{'loss': '4.682', 'epoch': '2', 'global_step/max_steps': '32/40', 'x': '10s'}
0: [default0]:Train:  80%|####  | 32/40 [00:10<00:03,  2.27it/s]
"""


@pytest.mark.parametrize(
    ("log", "step"),
    [
        (SWIFT, 32),
        (b" 2%|#   | 10/500 [00:01<00:09]\r 3%|#   | 11/500 [00:01<00:09]", 11),
        (b" iteration      120/     500 | consumed samples", 120),
        (b"1: [rank3]: [rank 3] step 8 loss 0.25\n", 8),
        (b"starting\n", None),
        (b"", None),
    ],
)
def test_the_last_step_that_a_log_speaks_of(log: bytes, step: int | None) -> None:
    assert last_step(log) == step
