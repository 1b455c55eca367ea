"""The files of one checkpoint: listed once, within bounds, and judged by their kind."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Callable, Dict, FrozenSet, Iterable, Iterator, List, Optional, Set, Tuple

from slurmswift.checkpoints.checkpoint import Problem, State
from slurmswift.checkpoints.contents import DamagedError
from slurmswift.checkpoints.json_file import check_json_file
from slurmswift.checkpoints.safetensors_file import check_safetensors_file
from slurmswift.checkpoints.torch_file import check_torch_file

# Names that a writer uses until a file is whole: a killed save leaves them behind.
_UNFINISHED = re.compile(r"^\.tmp|\.tmp$|^tmp-|~$")

_MAX_FILES = 100_000  # 8 files a rank for ten thousand ranks, and then some
_MAX_DEPTH = 8
_MOST_DAMAGED = 200  # files of one checkpoint: after so many nobody asks for the next

Check = Callable[..., None]  # (path, deep=False); raises DamagedError

# How a file is judged, by the end of its name.
_CHECKS: Tuple[Tuple[Tuple[str, ...], Check], ...] = (
    ((".safetensors",), check_safetensors_file),
    ((".pt", ".pth", ".bin", ".ckpt"), check_torch_file),
    ((".json",), check_json_file),
)


class Files:
    """What one checkpoint holds, by relative names; a checkpoint of one file holds itself."""

    def __init__(
        self, path: Path, names: FrozenSet[str], problems: Tuple[Problem, ...] = ()
    ) -> None:
        self.path = path  # names are relative to it
        self.names = names  # regular files, or whatever else lies under a name; no left-overs
        self.problems = problems

    @classmethod
    def of(cls, path: Path) -> Files:
        """List a folder once, without following a link; of a file, its folder and itself."""
        try:
            kind = os.lstat(path).st_mode
        except OSError as error:
            raise DamagedError(f"{path}: cannot be read: {error.strerror}") from error
        if not stat.S_ISDIR(kind):
            return cls(path.parent, frozenset({path.name}))
        walk = _Walk(path)
        walk.run()
        return cls(path, frozenset(walk.names), tuple(walk.problems))

    def below(self, folder: str) -> Files:
        """Return the files of a folder of this checkpoint, by names relative to that folder."""
        start = f"{folder}/"
        inside = frozenset(n[len(start) :] for n in self.names if n.startswith(start))
        return Files(self.path / folder, inside)

    def folders(self) -> FrozenSet[str]:
        """Return the names of the folders directly in it that hold a file."""
        return frozenset(name.partition("/")[0] for name in self.names if "/" in name)

    def matching(self, pattern: str) -> Tuple[str, ...]:
        """Return the relative names that a regular expression matches as a whole, sorted."""
        whole = re.compile(pattern)
        return tuple(sorted(name for name in self.names if whole.fullmatch(name)))

    def damage(self, names: Iterable[str], *, deep: bool = False) -> Iterator[Problem]:
        """Judge each file by the kind that its name tells; of other kinds nothing is known."""
        found = 0
        for name in names:
            problem = self.damage_of(name, check_for(name), deep=deep)
            if problem is not None:
                yield problem
                found += 1
                if found == _MOST_DAMAGED:
                    yield damaged(".", f"{found} files are damaged; the rest was not looked at")
                    return

    def damage_of(self, name: str, check: Optional[Check], *, deep: bool) -> Optional[Problem]:
        """Judge one file by ``check``, whatever its name."""
        if check is None:
            return None
        try:
            check(self.path / name, deep=deep)
        except DamagedError as error:
            return Problem(name, str(error), State.CORRUPT)
        return None

    def stats(self) -> Dict[str, os.stat_result]:
        """Return each file's size and times: one call a file, so for few checkpoints only."""
        found = {}
        for name in self.names:
            try:
                found[name] = (self.path / name).stat()
            except OSError:  # gone since it was listed
                continue
        return found


def check_for(name: str) -> Optional[Check]:
    """Return how a file of this name is judged, None where its name tells nothing."""
    return next((check for endings, check in _CHECKS if name.endswith(endings)), None)


def missing(name: str, message: str = "missing") -> Problem:
    return Problem(name, message, State.INCOMPLETE)


def damaged(name: str, message: str) -> Problem:
    return Problem(name, message, State.CORRUPT)


class _Walk:
    """One walk through a checkpoint, bounded in files and depth."""

    def __init__(self, top: Path) -> None:
        self._top = str(top)
        self.names: Set[str] = set()
        self.problems: List[Problem] = []
        self._folders: List[Tuple[str, int]] = [("", 0)]

    def run(self) -> None:
        while self._folders:
            prefix, depth = self._folders.pop()
            try:
                with os.scandir(os.path.join(self._top, prefix)) as entries:  # noqa: PTH118 - quick
                    for entry in entries:
                        self._take(entry, f"{prefix}{entry.name}", depth)
                        if len(self.names) + len(self._folders) > _MAX_FILES:
                            self.problems.append(damaged(".", f"more than {_MAX_FILES} files"))
                            return
            except OSError as error:
                self.problems.append(damaged(prefix or ".", f"cannot be read: {error.strerror}"))

    def _take(self, entry: os.DirEntry[str], name: str, depth: int) -> None:
        if entry.is_symlink():
            if self._leads_out(entry.path):
                message = "a link out of the checkpoint, not followed"
                self.problems.append(missing(name, message))
            elif not _is_folder(entry):
                self.names.add(name)
        elif not entry.is_dir(follow_symlinks=False):
            if not _UNFINISHED.search(entry.name):
                self.names.add(name)
        elif depth < _MAX_DEPTH:
            self._folders.append((f"{name}/", depth + 1))
        else:
            self.problems.append(damaged(name, f"folders deeper than {_MAX_DEPTH} levels"))

    def _leads_out(self, link: str) -> bool:
        top, target = os.path.realpath(self._top), os.path.realpath(link)
        return target != top and not target.startswith(f"{top}/")


def _is_folder(link: os.DirEntry[str]) -> bool:
    try:
        return link.is_dir()
    except OSError:  # a link to itself: whoever opens it is told
        return False
