"""Paths of a run and of one attempt, as the parts inside the job see them."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Tuple

from slurmswift.atomic import read_json
from slurmswift.domain.records import ExitRecord, Grant, NodeRecord, StartRecord

_ATTEMPT = re.compile(r"^(\d{3,})-[^/]+$")
_CLAIM = re.compile(r"^\.claim-(\d{3,})$")


@dataclass(frozen=True)
class Attempt:
    """One attempt's directory and the records in it."""

    path: Path
    number: int

    @classmethod
    def at(cls, path: Path) -> Attempt:
        match = _ATTEMPT.match(path.name)
        if match is None:
            raise ValueError(f"{path}: not an attempt's directory (NNN-<job id>)")
        return cls(path, int(match.group(1)))

    @property
    def nodes(self) -> Path:
        return self.path / "nodes"

    @property
    def start_file(self) -> Path:
        return self.path / "start.json"

    @property
    def exit_file(self) -> Path:
        return self.path / "exit.json"

    def alive_file(self, node: str) -> Path:
        return self.nodes / f"{node}.alive"

    def node_file(self, node: str) -> Path:
        return self.nodes / f"{node}.json"

    def start(self) -> StartRecord:
        return StartRecord.parse(read_json(self.start_file), str(self.start_file))

    def exit(self) -> Optional[ExitRecord]:
        try:
            return ExitRecord.parse(read_json(self.exit_file), str(self.exit_file))
        except FileNotFoundError:
            return None

    def node_record(self, node: str) -> Optional[NodeRecord]:
        path = self.node_file(node)
        try:
            return NodeRecord.parse(read_json(path), str(path))
        except FileNotFoundError:
            return None

    def nodes_with_agents(self) -> Tuple[str, ...]:
        """Nodes whose agent has been alive at some time."""
        ending = ".alive"
        try:
            names = [path.name for path in self.nodes.iterdir()]
        except FileNotFoundError:
            return ()
        return tuple(sorted(name[: -len(ending)] for name in names if name.endswith(ending)))


@dataclass(frozen=True)
class RunFolder:
    """The run's directory."""

    path: Path

    @property
    def attempts_folder(self) -> Path:
        return self.path / "attempts"

    def stop_requested(self) -> bool:
        return os.path.lexists(self.path / "stop")

    def grant(self) -> Grant:
        path = self.path / "grant.json"
        return Grant.parse(read_json(path), str(path))

    def attempts(self) -> List[Attempt]:
        """Every attempt with a directory, oldest first."""
        found = [
            Attempt.at(path)
            for path in self.attempts_folder.iterdir()
            if _ATTEMPT.match(path.name) and stat.S_ISDIR(path.lstat().st_mode)
        ]
        return sorted(found, key=lambda attempt: attempt.number)

    def highest_claim(self) -> int:
        """The highest attempt number taken, whether its directory is there already or not."""
        numbers = [0]
        for path in self.attempts_folder.iterdir():
            match = _CLAIM.match(path.name) or _ATTEMPT.match(path.name)
            if match:
                numbers.append(int(match.group(1)))
        return max(numbers)
