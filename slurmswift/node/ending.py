"""The attempt's own verdict, written where an attempt ends before or after its training."""

from __future__ import annotations

import time
from typing import Optional, Tuple

from slurmswift.atomic import write_json
from slurmswift.domain.records import ExitRecord
from slurmswift.node.attempt import Attempt


def write_exit(
    attempt: Attempt,
    *,
    status: int,
    cause_hint: Optional[str],
    message: Optional[str],
    srun_status: Optional[int] = None,
    nodes_expected: int = 0,
    nodes_reported: int = 0,
    nodes_silent: Tuple[str, ...] = (),
) -> ExitRecord:
    record = ExitRecord(
        status=status,
        srun_status=srun_status,
        nodes_expected=nodes_expected,
        nodes_reported=nodes_reported,
        nodes_silent=nodes_silent,
        cause_hint=cause_hint,
        message=message,
        ended_at=time.time(),
    )
    write_json(attempt.exit_file, record.to_json())
    return record
