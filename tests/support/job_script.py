"""Runs the script of a job without a Slurm: srun is a stand-in that starts the agents here."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slurmswift.atomic import read_json
from slurmswift.domain.plan import Plan, RestartPolicy
from slurmswift.files.bundle import node_bundle
from slurmswift.files.templates import render_script
from tests.support.run_folder import make_run

TEMPLATES = Path(__file__).parents[2] / "templates"

# The base with the smallest of all launchers: it runs the command as it stands.
PLAIN = """\
{% extends "base.sbatch.j2" %}
{% block launch %}
  exec "${SW_COMMAND[@]}" ${SW_ARGUMENTS[@]+"${SW_ARGUMENTS[@]}"} "$RESUME_FROM"
{% endblock %}
"""

PLAN = Plan(
    run_id="",
    name="tested",
    run_dir="",
    output_dir="",
    cluster="testcluster",
    chdir="/",
    sbatch=(("nodes", "2"), ("job-name", "tested")),
    nodes=2,
    framework="command",  # of which the preflight asks for no PyTorch
    template="torchrun",
    python=sys.executable,
    command=(),
    arguments=(),
    processes_per_node=2,
    interface="",
    variables=(),
    modules=(),
    setup="",
    checkpoint_directory="",
    checkpoint_format="auto",
    resume_flag="--resume_from_checkpoint",
    restart=RestartPolicy(50),
    profile="",
    origins=(),
)

SRUN = """\
#!/bin/bash
while [[ $1 == --* ]]; do shift; done
rank=0 pids=() worst=0
for node in $NODES; do
  SLURMD_NODENAME=$node SLURM_NODEID=$rank "$@" & pids+=($!)
  rank=$((rank + 1))
done
trap : TERM
for pid in "${pids[@]}"; do
  wait "$pid"; status=$?
  while kill -0 "$pid" 2>/dev/null; do wait "$pid"; status=$?; done
  ((status == 0)) || worst=$status
done
exit "$worst"
"""


def render(template: str, run_dir: Path, command: list[str], **values: Any) -> str:
    """The script of a plan of two nodes; ``plain`` names the template of this module."""
    if template == "plain":
        folder = run_dir.parent / "templates"
        folder.mkdir(exist_ok=True)
        template = str(folder / "plain.sbatch.j2")
        Path(template).write_text(PLAIN)
    plan = replace(PLAN, template=template, run_id="tested-250101-abcde", run_dir=str(run_dir))
    folders = {"output_dir": f"{run_dir}/output", "checkpoint_directory": f"{run_dir}/output"}
    plan = replace(plan, command=tuple(command), **{**folders, **values})
    return render_script(plan, [TEMPLATES]).text


@dataclass(frozen=True)
class JobScript:
    """A run directory with a script in it, and a way to start it as Slurm would."""

    run_dir: Path
    tools: Path
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(
        cls, run_dir: Path, command: list[str], *, template: str = "plain", **values: Any
    ) -> JobScript:
        make_run(run_dir)
        (run_dir / "node.pyz").write_bytes(node_bundle())
        (run_dir / "job.sbatch").write_text(render(template, run_dir, command, **values))
        tools = run_dir.parent / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "srun").write_text(SRUN)
        (tools / "srun").chmod(0o755)
        return cls(run_dir, tools)

    def start(
        self,
        *arguments: str,
        job_id: int = 7,
        nodes: str = "n1 n2",
        environment: dict[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        names = nodes.split()
        return subprocess.Popen(
            ["/bin/bash", str(self.run_dir / "job.sbatch"), *arguments],
            env={
                # No HOME, no TERM, no user's PATH: what a job submitted by cron finds.
                "PATH": f"{self.tools}:{os.defpath}",
                "NODES": nodes,
                "SLURM_JOB_ID": str(job_id),
                "SLURM_JOB_NODELIST": ",".join(names),
                "SLURM_JOB_NUM_NODES": str(len(names)),
                "SLURMD_NODENAME": names[0],
                "SLURM_CLUSTER_NAME": "testcluster",
                **(environment or {}),
            },
            cwd=self.run_dir.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(
        self,
        *arguments: str,
        job_id: int = 7,
        nodes: str = "n1 n2",
        environment: dict[str, str] | None = None,
    ) -> tuple[int, str]:
        """Return the script's status and what it wrote to Slurm's own log."""
        process = self.start(*arguments, job_id=job_id, nodes=nodes, environment=environment)
        said, _ = process.communicate(timeout=60)
        return process.returncode, said

    def attempts(self) -> list[str]:
        return sorted(path.name for path in (self.run_dir / "attempts").glob("[0-9]*"))

    def record(self, attempt: str, name: str) -> dict[str, object]:
        body = read_json(self.run_dir / "attempts" / attempt / name)
        assert isinstance(body, dict)
        return body

    def log(self, attempt: str) -> str:
        return (self.run_dir / "attempts" / attempt / "job.log").read_text()
