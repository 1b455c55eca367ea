"""`check`: everything at once, sbatch's word last, and nothing left behind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from slurmswift.app.check import Checked, check
from slurmswift.app.submit import Request
from slurmswift.app.tools import Tools
from slurmswift.cli.show_check import show_check
from slurmswift.errors import SlurmUnavailableError
from slurmswift.files.state_folder import StateFolder
from slurmswift.slurm.client import Slurm
from slurmswift.slurm.runner import CommandResult
from tests.support.recipes import WHOLE, write

CONFIG = "ClusterName             = here\n"
FORECAST = "sbatch: Job 7 to start at 2026-01-01T00:00:00 using 2 processors on nodes n[1-2]\n"


@dataclass
class Answering:
    """A Slurm that says what a test gives it; None for no answer at all."""

    config: str | None = CONFIG
    status: int = 0
    said: str | None = FORECAST
    asked: list[tuple[str, ...]] = field(default_factory=list)
    script: str = ""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
        umask: int = -1,  # noqa: ARG002 - a keyword of the protocol
    ) -> CommandResult:
        assert timeout > 0
        self.asked.append(tuple(argv))
        if argv[0] == "sinfo":
            return CommandResult(tuple(argv), 0, "gpu\n", "")
        answer = self.config if argv[0] == "scontrol" else self.said
        if answer is None:
            raise SlurmUnavailableError(f"{argv[0]} gave no answer within 60 s")
        if argv[0] == "scontrol":
            return CommandResult(tuple(argv), 0, answer, "")
        assert env is not None
        assert "SLURM_CLUSTERS" not in env
        self.script = Path(argv[-2]).read_text(encoding="utf-8")
        return CommandResult(tuple(argv), self.status, "", answer)


def tools(folder: Path, slurm: Answering, *, has_sbatch: bool = True) -> Tools:
    programs = folder / "bin"
    programs.mkdir()
    if has_sbatch:
        (programs / "sbatch").touch(mode=0o755)
    environ = {"PATH": str(programs), "HOME": str(folder)}
    return Tools(Slurm(slurm), StateFolder(folder / "state"), environ, lambda: 0.0, lambda _: None)


def judge(folder: Path, slurm: Answering, text: str = WHOLE, *, has_sbatch: bool = True) -> Checked:
    return check(Request(write(folder, text)), tools(folder, slurm, has_sbatch=has_sbatch))


def test_a_good_recipe_gets_sbatchs_forecast_and_leaves_nothing(tmp_path: Path) -> None:
    slurm = Answering()
    checked = judge(tmp_path, slurm)

    assert checked == Checked((), FORECAST.strip().replace("sbatch: ", ""))
    assert slurm.asked[-1][:3] == ("sbatch", "--parsable", "--test-only")
    assert slurm.script.startswith("#!/bin/bash\n#SBATCH --job-name=tiny-")
    assert not Path(slurm.asked[-1][-2]).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "recipe.yaml", "train.py"]


def test_where_there_is_no_sbatch_the_recipe_is_checked_all_the_same(tmp_path: Path) -> None:
    slurm = Answering()

    assert judge(tmp_path, slurm, has_sbatch=False) == Checked(())
    assert slurm.asked == []


def test_mistakes_and_warnings_come_together_and_sbatch_is_not_asked(tmp_path: Path) -> None:
    slurm = Answering()
    text = WHOLE.replace("nodes: 2", "nodes: two") + "  arguments: {out: $HOME, x: {a: 1, b: 2}}\n"
    checked = judge(tmp_path, slurm, text)

    assert [(found.where.rpartition("/")[2], found.severity) for found in checked.problems] == [
        ("recipe.yaml:4: sbatch.nodes", "error"),
        ("recipe.yaml:10: launch.arguments.out", "warning"),
        ("recipe.yaml:10: launch.arguments.x", "error"),
    ]
    assert checked.failed
    assert all(argv[0] != "sbatch" for argv in slurm.asked)


def test_a_refusal_of_slurms_is_a_problem_in_our_words(tmp_path: Path) -> None:
    said = (
        "sbatch: error: invalid partition specified: x\n"
        "allocation failure: Invalid partition name specified\n"
    )
    checked = judge(tmp_path, Answering(status=1, said=said))

    (problem,) = checked.problems
    assert (problem.rule, problem.severity) == ("sbatch", "error")
    assert problem.message.startswith("sbatch refused the job: invalid partition specified: x")
    assert "this cluster has the partitions: gpu" in problem.message


@pytest.mark.parametrize("slurm", [Answering(config=None), Answering(said=None)])
def test_a_slurm_that_is_silent_is_only_a_warning(slurm: Answering, tmp_path: Path) -> None:
    checked = judge(tmp_path, slurm)

    (problem,) = checked.problems
    assert (problem.rule, problem.severity) == ("sbatch", "warning")
    assert problem.message.startswith("not tested: ")
    assert not checked.failed


def test_a_template_at_fault_is_named(tmp_path: Path) -> None:
    (problem,) = judge(tmp_path, Answering(), WHOLE + "template: nothing\n").problems

    assert problem.rule == "template"
    assert "there is no template 'nothing.sbatch.j2'" in problem.message


@pytest.mark.parametrize(
    ("text", "status", "last"),
    [
        (WHOLE, 0, "no problems; sbatch: Job 7 to start at"),
        (WHOLE + "  arguments: {out: $HOME}\n", 0, "1 warning; sbatch: Job 7 to start at"),
        (WHOLE.replace("nodes: 2", "nodes: two\n  tme: 3"), 3, "2 errors"),
    ],
)
def test_what_a_person_sees_and_the_exit_status(
    text: str, status: int, last: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, used = write(tmp_path, text), tools(tmp_path, Answering())

    assert show_check(used, path, (), None, as_json=False) == status
    assert capsys.readouterr().out.splitlines()[-1].startswith(last)
    assert show_check(used, path, (), None, as_json=True) == status
    body = json.loads(capsys.readouterr().out)
    keys = {"rule", "severity", "where", "message", "fix"}
    assert all(found.keys() == keys for found in body["problems"])
