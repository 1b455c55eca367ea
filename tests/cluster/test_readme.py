"""Every command of the README is run, here or by the test that is named beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster.slurmswift_cli import EXAMPLE, ROOT, Cli, wait_for
from tests.support.devcluster import DevCluster

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (.+)$", README, re.MULTILINE)
ELSEWHERE = {
    "bin/quickstart": "tests/cluster/test_quickstart.py",
    "bin/test": ".ci/run",
    "python3 -m pip install .": "tests/packaging/test_wheel.py",
}


def test_the_recipe_shown_is_the_examples_own() -> None:
    shown = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)

    assert shown is not None
    assert shown.group(1) in EXAMPLE.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", sorted(ELSEWHERE))
def test_what_is_run_elsewhere_stands_in_the_readme(command: str) -> None:
    assert command in COMMANDS
    assert (ROOT / ELSEWHERE[command]).exists()


@pytest.mark.cluster
def test_the_commands_of_the_readme_run_one_after_the_other(
    tmp_path: Path, devcluster: DevCluster
) -> None:
    runs = devcluster.shared / tmp_path.name / "runs"
    cli = Cli(tmp_path / "state", runs, devcluster.root / "etc" / "profile.yaml")
    mine = [command for command in COMMANDS if command not in ELSEWHERE]
    assert all(command.startswith("slurmswift ") for command in mine), mine
    assert len(mine) >= 8

    for command in mine:
        words = command.split()[1:]
        words = [str(ROOT / word) if word.startswith("examples/") else word for word in words]
        if words[0] == "logs":
            state = Path(cli.json("status")[0]["run_dir"])
            wait_for_attempt(state)
        done = cli.run(*words)
        assert done.returncode == 0, f"{command}: {done.returncode}: {done.stderr}"
        assert done.stdout or done.stderr or words == ["watch", "--once"], command


def wait_for_attempt(run_dir: Path) -> None:
    wait_for("an attempt's log", lambda: any(run_dir.glob("attempts/*/job.log")))


@pytest.mark.parametrize("entry", re.findall(r"^\*/5 .*$", README, re.MULTILINE))
def test_the_lines_for_cron_name_a_command_that_exists(entry: str) -> None:
    assert entry.split(maxsplit=5)[-1].endswith("/slurmswift watch --once")
