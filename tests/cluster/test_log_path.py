"""Where Slurm writes a job's log: the folder's own name, whatever characters it has."""

from __future__ import annotations

import subprocess

import pytest

from slurmswift.domain.quoting import directive, filename_pattern
from tests.support.devcluster import DevCluster

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("name", ["50%j", "100%", "a 'b' \"c\" $(d) `e` #f;&", "é"])
def test_a_log_lands_in_the_folder_that_was_named(name: str, devcluster: DevCluster) -> None:
    folder = devcluster.shared / name
    folder.mkdir()
    script = devcluster.shared / "script"
    output = directive("output", f"{filename_pattern(str(folder))}/slurm-%j.out")
    script.write_text(f"#!/bin/bash\n#SBATCH {output}\ntrue\n", encoding="utf-8")
    subprocess.run(["sbatch", "--wait", script], check=True, timeout=60)  # noqa: S607 - on PATH

    assert len(list(folder.glob("slurm-*.out"))) == 1
