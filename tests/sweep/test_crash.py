"""Killed at any effect, slurmswift leaves what the next pass can go on from (I1, I2, I5, I9).

Each command line runs for real and dies by SIGKILL right before its N-th effect, in the middle of a
write, or right after it started a process. Then time goes by and passes run.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.support.crash import Kill, kills
from tests.support.crash_site import Site
from tests.support.crash_stories import PATIENCE, STORIES

PARTS = 4
SAMPLE = 2
SEED = os.environ.get("CRASH_SEED", "20261201")


@pytest.fixture(autouse=True)
def _no_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


def _site(folder: Path) -> Site:
    folder.mkdir()
    return Site(folder)


def _all_kills(name: str, folder: Path) -> list[Kill]:
    """Every place where the story's command can die: counted by a run that lives."""
    story, site = STORIES[name], _site(folder / "counted")
    story.before(site)
    ended = site.command(*story.command(site))
    assert ended.status == 0, ended.said
    site.go_on(1, 10)
    story.after(site)
    found = kills(ended.effects)
    assert len(found) > 1, ended.effects
    return found


def _kill_and_go_on(name: str, kill: Kill, folder: Path) -> None:
    story, site = STORIES[name], _site(folder / f"{kill.number}-{kill.manner}")
    story.before(site)
    ended = site.command(*story.command(site), kill=kill)
    try:
        assert ended.status is None, f"it was not killed: {ended}"
        site.assert_whole()
        # A pass while whoever was killed may still be thought to be at it, and one after that.
        site.go_on(1, PATIENCE, 10)
        story.after(site)
        site.assert_whole()
        site.assert_no_epoch_twice()
        assert not site.overlaps
    except BaseException as error:
        last = ended.effects[-1] if ended.effects else "nothing"
        error.add_note(f"{name}: killed {kill.manner} effect {kill.number} ({last})")
        error.add_note(site.story())
        raise


@pytest.mark.parametrize("name", STORIES)
def test_sample(name: str, tmp_path: Path) -> None:
    every = _all_kills(name, tmp_path)
    chosen = random.Random(f"{SEED} {name}").sample(every, min(SAMPLE, len(every)))  # noqa: S311
    for kill in chosen:
        _kill_and_go_on(name, kill, tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", STORIES)
def test_every_kill(name: str, part: int, tmp_path: Path) -> None:
    for kill in _all_kills(name, tmp_path)[part::PARTS]:
        _kill_and_go_on(name, kill, tmp_path)
