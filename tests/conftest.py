"""Guards: no test sees this user's home and runs, nor a cluster unless it asks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SLURM_COMMANDS = ("sbatch", "scontrol", "squeue", "sacct", "scancel", "sinfo", "srun")
FORBIDDEN = """\
#!/bin/sh
echo "$0 was called by a test without the mark 'cluster': use the fakes of tests/support" >&2
exit 97
"""


@pytest.fixture(scope="session")
def no_slurm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of Slurm commands that say what is wrong with the test that calls them."""
    folder = tmp_path_factory.mktemp("no-slurm")
    for command in SLURM_COMMANDS:
        program = folder / command
        program.write_text(FORBIDDEN, encoding="utf-8")
        program.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def _guarded(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    no_slurm: Path,
) -> None:
    nowhere = tmp_path_factory.getbasetemp() / "nowhere"
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("SLURMSWIFT_RUNS", raising=False)
    monkeypatch.setenv("HOME", str(nowhere))
    if request.node.get_closest_marker("cluster") is None:
        for name in [name for name in os.environ if name.startswith(("SLURM_", "SBATCH_"))]:
            monkeypatch.delenv(name)
        monkeypatch.delenv("SLURMSWIFT_PROFILE", raising=False)
        monkeypatch.setenv("SLURMSWIFT_STATE", str(nowhere))
        monkeypatch.setenv("SLURM_CONF", str(nowhere / "slurm.conf"))
        monkeypatch.setenv("PATH", str(no_slurm), prepend=os.pathsep)
    else:
        monkeypatch.setenv("SLURMSWIFT_STATE", str(tmp_path_factory.mktemp("state")))
