"""What the real sbatch reads in a script, without a cluster: it prints that before it connects."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

SBATCH = shutil.which("sbatch")  # found before a test's own PATH is in place
# Nobody listens on port 1: it can submit nothing.
_CONF = """\
ClusterName=nowhere
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=1
AuthType=auth/none
AllowSpecResourcesUsage=Yes
NodeName=n[1-9]
PartitionName=p Nodes=ALL
"""
_END = "end of defined options"


def defined_options(folder: Path, directives: Sequence[str]) -> dict[str, str]:
    """Return what the ``#SBATCH`` lines ask for by sbatch's own list; ``error`` if it refuses."""
    assert SBATCH is not None
    conf, script = folder / "slurm.conf", folder / "script"
    conf.write_text(_CONF, encoding="ascii")
    lines = "".join(f"#SBATCH {directive}\n" for directive in directives)
    script.write_text(f"#!/bin/bash\n{lines}true\n", encoding="utf-8")
    options: dict[str, str] = {}
    with subprocess.Popen(
        [SBATCH, "-v", str(script)],
        env={"SLURM_CONF": str(conf), "LC_ALL": "C.UTF-8"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="surrogateescape",
        cwd=folder,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said = line.rstrip("\n").removeprefix("sbatch: ")
            if said == _END:
                process.kill()  # it would go on trying to connect
                break
            name, colon, value = said.partition(": ")
            if colon:
                options[name.strip()] = value
        process.kill()
    options.pop("verbose", None)
    return options
