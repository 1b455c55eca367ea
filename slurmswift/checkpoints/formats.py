"""The table of formats: who judges a checkpoint. Read format.py before adding one."""

from __future__ import annotations

from typing import Tuple

from slurmswift.checkpoints import (
    accelerate_state,
    dcp,
    deepspeed,
    flash,
    generic,
    hf_fsdp,
    hf_trainer,
    lightning,
    megatron,
    megatron_swift,
)
from slurmswift.checkpoints.format import AUTO, Expected, Format

# Of those that find a checkpoint, the first that recognises it judges it: the general ones last.
FORMATS: Tuple[Format, ...] = (
    flash.FORMAT,
    megatron.FORMAT,
    megatron.LEGACY,
    megatron_swift.FORMAT,
    lightning.FORMAT,
    deepspeed.FORMAT,
    deepspeed.IN_TRAINER,
    dcp.FORMAT,
    hf_fsdp.FORMAT,
    accelerate_state.FORMAT,
    hf_trainer.FORMAT,
    generic.FORMAT,
)


def formats_for(expected: Expected) -> Tuple[Format, ...]:
    """Return the formats that may judge: the one that is named, or all that need no naming."""
    if expected.format == AUTO:
        return tuple(form for form in FORMATS if not form.only_named)
    chosen = tuple(form for form in FORMATS if form.name == expected.format)
    if not chosen:
        raise ValueError(f"no format is called {expected.format!r}")
    return chosen
