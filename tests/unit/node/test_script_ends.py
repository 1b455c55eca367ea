"""The job's script without a Slurm: a second launch, and ends that are slurmswift's own fault."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from slurmswift.domain.diagnosis import AttemptFacts, LogText, diagnose
from slurmswift.domain.records import ExitRecord
from tests.support.job_script import JobScript


@pytest.fixture
def script(tmp_path: Path) -> JobScript:
    training = tmp_path / "train"
    training.write_text('#!/bin/bash\neval "$TRAINING"\n')
    return JobScript.make(tmp_path / "a 'run'", ["bash", str(training)])


def test_a_launch_whose_port_was_taken_is_made_again_at_another(script: JobScript) -> None:
    training = (
        'echo "$MASTER_PORT" >>"$OUT/ports-$SLURMSWIFT_NODE"; '
        '[[ $(wc -l <"$OUT/ports-$SLURMSWIFT_NODE") -lt 3 ]] || exit 0; '
        'echo "torch.distributed.DistNetworkError: The server socket has failed to listen on any '
        'local network address. port: 1, useIpv6: false, code: -98, name: EADDRINUSE"; exit 1'
    )
    environment = {"TRAINING": training, "OUT": str(script.run_dir / "output")}
    status, _ = script.run("1", environment=environment)
    ports = (script.run_dir / "output" / "ports-n1").read_text().split()

    assert status == 0, script.log("001-7")
    assert len(set(ports)) == 3
    attempt = script.run_dir / "attempts" / "001-7"
    assert "EADDRINUSE" in (attempt / "job.cycle-1.log").read_text()
    assert "EADDRINUSE" not in script.log("001-7")
    assert (attempt / "cycle-2" / "n2.json").exists()
    assert not (attempt / "failure.json").exists()


def break_(script: JobScript, module: str, function: str) -> None:
    """Put a bug into the run's node.pyz."""
    bundle = script.run_dir / "node.pyz"
    with zipfile.ZipFile(bundle) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files[f"slurmswift/node/{module}.py"] += (
        f"\ndef {function}(_): return {{}}['no such key']\n".encode()
    )
    with zipfile.ZipFile(bundle, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    ("module", "function"),
    [("begin", "begin"), ("check_nodes", "check_nodes"), ("agent", "agent"), ("finish", "finish")],
)
def test_a_bug_of_our_own_is_not_the_trainings(
    script: JobScript, module: str, function: str
) -> None:
    break_(script, module, function)
    status, _ = script.run("1", environment={"TRAINING": "exit 0"})
    ended = ExitRecord.parse(script.record("001-7", "exit.json"), "exit.json")
    log = script.log("001-7")
    facts = AttemptFacts(slurm_state="FAILED", exit_record=ended, nodes=("n1", "n2"))
    diagnosis = diagnose([LogText("job.log", log.encode())], facts)

    assert status != 0
    assert ended.cause_hint == "bug", log
    assert (diagnosis.cause, diagnosis.rule) == ("unexplained", "slurmswift-bug")
    assert "Traceback" not in log
    files = list((script.run_dir / "attempts" / "001-7").glob("bug-*.txt"))
    assert all("KeyError: 'no such key'" in path.read_text() for path in files)
    assert files


def test_a_bug_in_the_preflight_of_one_node_says_where_to_look(script: JobScript) -> None:
    break_(script, "preflight", "preflight")
    script.run("1", environment={"TRAINING": "exit 0"})
    ended = ExitRecord.parse(script.record("001-7", "exit.json"), "exit.json")

    assert ended.nodes_silent == ("n1", "n2")
    assert "a bug in slurmswift itself (preflight" in script.log("001-7")


def test_no_name_of_the_users_is_taken_for_the_scripts_own(script: JobScript) -> None:
    """Exported before the submission, or set by setup.sh: the training gets them as they were."""
    exported = {
        name: f"my own {name}"
        for name in ("RUN_DIR", "OUTPUT_DIR", "COMMAND", "STATUS", "EPOCH", "MESSAGE", "NOW")
    }
    (script.run_dir / "setup.sh").write_text("export PYTHON=set INTERFACE=$RUN_DIR; HINT=x\n")
    out = script.run_dir / "output" / "environment"
    training = f'env >"{out}-$SLURMSWIFT_NODE"'
    status, _ = script.run("1", environment={**exported, "TRAINING": training})
    seen = dict(
        line.split("=", 1)
        for line in out.with_name("environment-n2").read_text().splitlines()
        if "=" in line
    )

    assert status == 0, script.log("001-7")
    assert {name: seen[name] for name in exported} == exported
    assert (seen["PYTHON"], seen["INTERFACE"]) == ("set", "my own RUN_DIR")
    assert not [name for name in seen if name.startswith("SW_")]
