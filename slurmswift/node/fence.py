"""Whether this attempt may (still) train, by what stands in the run directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from slurmswift.errors import StateError
from slurmswift.node.attempt import RunFolder


@dataclass(frozen=True)
class Fence:
    """One attempt's place in its run: its number and the epoch it was submitted under."""

    run: RunFolder
    number: int
    epoch: int

    def why_closed(self) -> Optional[str]:
        """Say why this attempt must not train; None where it may."""
        if self.run.stop_requested():
            return "the run was stopped"
        return self.why_superseded()

    def why_superseded(self) -> Optional[str]:
        """Say which other attempt has the right to train; None where none has.

        A file that cannot be read for now says nothing: the agent's own clock decides how long
        it may go on blind.
        """
        try:
            grant = self.run.grant()
        except (FileNotFoundError, StateError):
            # Damaged or missing: whoever did that, it named no other epoch.
            grant = None
        if grant is not None and grant.epoch != self.epoch:
            return f"epoch {grant.epoch} was granted, this is epoch {self.epoch}"
        newest = self.run.highest_claim()
        if newest > self.number:
            return f"attempt {newest} has started, this is attempt {self.number}"
        return None
