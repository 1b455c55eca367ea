"""The user's state folder: which runs there are, and where (an index, nothing more)."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurmswift.atomic import read_json, write_json
from slurmswift.domain.records import SCHEMA, Fields
from slurmswift.errors import StateError

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*-\d{6}-[a-z2-7]{5}")
REMEMBERED = ("PATH", "SLURM_CONF")


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One run: its id, its directory, and the cluster that may run it."""

    run_id: str
    run_dir: Path
    cluster: str


@dataclass(frozen=True, slots=True)
class StateFolder:
    """``~/.slurmswift``: one small file per run, and each cluster's lease."""

    path: Path

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> StateFolder:
        """Cron has neither HOME nor XDG variables: the home is the password database's."""
        chosen = environ.get("SLURMSWIFT_STATE")
        home = pwd.getpwuid(os.getuid()).pw_dir
        return cls(Path(chosen) if chosen else Path(home) / ".slurmswift")

    @property
    def _runs(self) -> Path:
        return self.path / "runs"

    def watch_folder(self, cluster: str) -> Path:
        """Where a cluster's watchers keep their lease: those of another must not be kept out."""
        return self.path / f"watch.{re.sub(r'[^A-Za-z0-9_.-]', '_', cluster)}"

    def add(self, entry: IndexEntry) -> None:
        self._runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        body = {"schema": SCHEMA, "run_dir": str(entry.run_dir), "cluster": entry.cluster}
        write_json(self._runs / entry.run_id, body)

    def remove(self, run_id: str) -> None:
        (self._runs / run_id).unlink(missing_ok=True)

    def entries(self, troubles: list[str] | None = None) -> tuple[IndexEntry, ...]:
        """Every run in the index, by id; of one that is damaged, ``troubles`` gets a line.

        StateError where there is nobody to tell, or where the folder cannot be read.
        """
        if not self._runs.is_dir():
            return ()
        names = sorted(path.name for path in self._runs.iterdir())
        found = []
        for name in names:
            if not _RUN_ID.fullmatch(name):
                continue  # left by an editor or a crash: never one of ours
            try:
                found.append(self._read(name))
            except StateError as error:
                if troubles is None:
                    raise
                troubles.append(str(error))
        return tuple(found)

    def _read(self, name: str) -> IndexEntry:
        path = self._runs / name
        fields = Fields.of_record(read_json(path), str(path))
        return IndexEntry(name, Path(fields.get("run_dir", str)), fields.get("cluster", str))

    def remember_shell(self, environ: Mapping[str, str]) -> None:
        """Note where Slurm's commands were found: a pass from cron starts without a PATH."""
        kept = {name: environ[name] for name in REMEMBERED if environ.get(name)}
        write_json(self.path / "shell.json", {"schema": SCHEMA, "variables": kept})

    def remembered_shell(self) -> dict[str, str]:
        try:
            body = read_json(self.path / "shell.json")
        except FileNotFoundError:
            return {}
        variables = Fields.of_record(body, str(self.path / "shell.json")).get("variables", dict)
        return {name: str(variables[name]) for name in REMEMBERED if name in variables}
