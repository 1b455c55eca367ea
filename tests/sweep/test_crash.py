"""Killed at any effect, slurmswift leaves what the next pass can go on from (I1, I2, I5, I9).

Each command line runs for real and dies by SIGKILL right before its N-th effect, in the middle of a
write, or right after it started a process. Then time goes by and passes run.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.support.crash import Kill, kills
from tests.support.crash_site import Site
from tests.support.crash_stories import PATIENCE, STORIES

PARTS = 2
SAMPLE = 2
SEED = os.environ.get("CRASH_SEED", "20261201")


@pytest.fixture(autouse=True)
def _no_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


class Stage:
    """A story's beginning, set up once and put back before each kill."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.story = name, STORIES[name]
        self._folder, self._kept = folder / "site", folder / "kept"
        self._folder.mkdir()
        self.story.before(Site(self._folder))
        shutil.copytree(self._folder, self._kept, symlinks=True)

    def begin(self) -> Site:
        shutil.rmtree(self._folder)
        shutil.copytree(self._kept, self._folder, symlinks=True)
        return Site(self._folder)

    def every_kill(self) -> list[Kill]:
        """Every place where the story's command can die: counted by one that lives."""
        site = self.begin()
        ended = site.command(*self.story.command(site))
        assert ended.status == 0, ended.said
        site.go_on(1, PATIENCE, 10)
        self.story.after(site)
        found = kills(ended.effects)
        assert len(found) > 1, ended.effects
        return found

    def kill_and_go_on(self, kill: Kill) -> None:
        site = self.begin()
        ended = site.command(*self.story.command(site), kill=kill)
        try:
            assert ended.status is None, f"it was not killed: {ended}"
            site.assert_whole()
            # A pass while the one who was killed may still be at it, for all that others know,
            # and passes after that.
            site.go_on(1, PATIENCE, 10)
            self.story.after(site)
            site.assert_whole()
            site.assert_no_epoch_twice()
            assert not site.overlaps
        except BaseException as error:
            last = ended.effects[-1] if ended.effects else "nothing"
            error.add_note(f"{self.name}: killed {kill.manner} effect {kill.number} ({last})")
            error.add_note(site.story())
            raise


@pytest.mark.parametrize("name", STORIES)
def test_sample(name: str, tmp_path: Path) -> None:
    stage = Stage(name, tmp_path)
    every = stage.every_kill()
    for kill in random.Random(f"{SEED} {name}").sample(every, SAMPLE):  # noqa: S311
        stage.kill_and_go_on(kill)


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", STORIES)
def test_every_kill(name: str, part: int, tmp_path: Path) -> None:
    stage = Stage(name, tmp_path)
    for kill in stage.every_kill()[part::PARTS]:
        stage.kill_and_go_on(kill)
