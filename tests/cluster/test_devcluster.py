"""The devcluster does what docs/devcluster.md says, on its hosts and for real jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.support.devcluster import BIN, DevCluster, eventually

pytestmark = pytest.mark.cluster


def pings(cluster: DevCluster, source: str, target: str) -> bool:
    """Whether one host reaches another's address: a refused connection was answered, too."""
    probe = (
        "import socket, sys\n"
        "try: socket.create_connection((sys.argv[1], 9), timeout=1)\n"
        "except ConnectionRefusedError: sys.exit(0)\n"
        "except OSError: sys.exit(1)\n"
    )
    result = cluster.try_("exec", source, "/usr/bin/python3", "-c", probe, target)
    assert result.returncode in (0, 1), result.stderr
    return result.returncode == 0


def rows(cluster: DevCluster, job: str) -> list[str]:
    """State of each attempt of a job, as accounting has it."""
    words = ("sacct", "--duplicates", "-X", "--noheader", "-P", "--format=State", "--jobs")
    return cluster.ask(*words, job).split()


def test_every_node_runs_tasks_under_its_own_name(devcluster: DevCluster) -> None:
    names = devcluster.ask("srun", "--nodes=4", "hostname").split()

    assert sorted(names) == ["node01", "node02", "node03", "node04"]


def test_a_batch_job_of_two_nodes_is_in_accounting_with_its_comment(devcluster: DevCluster) -> None:
    job = devcluster.sbatch("srun hostname", "--nodes=2", "--comment=a word")

    eventually(lambda: rows(devcluster, job) == ["COMPLETED"], within=30, what="it completes")
    assert sorted(devcluster.output(job).split()) == ["node01", "node02"]
    fields = devcluster.ask("sacct", "-X", "-nP", "--format=Comment,Account,Cluster", "-j", job)
    assert fields.strip() == "a word|lab|devcluster"


def test_simulated_gpus_are_given_out(devcluster: DevCluster) -> None:
    script = 'echo "$CUDA_VISIBLE_DEVICES"; ls /run/devcluster'
    text = devcluster.ask("srun", "--gpus-per-node=2", "bash", "-c", script)

    assert text.split() == ["0,1", "nvidia0", "nvidia1", "nvidia2", "nvidia3"]


def test_hosts_have_folders_and_processes_of_their_own(devcluster: DevCluster) -> None:
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run"):  # noqa: S108
        devcluster.on("node01", "touch", f"{folder}/only-here")
        assert devcluster.try_("exec", "node02", "ls", f"{folder}/only-here").returncode == 2
        assert not Path(folder, "only-here").exists()
    assert devcluster.on("node01", "ps", "-o", "comm=", "-p", "1").strip() == "bash"
    assert "slurmctld" not in devcluster.on("node01", "ps", "-e", "-o", "comm=")


def test_hosts_see_the_checkout_and_the_shared_folder(devcluster: DevCluster) -> None:
    devcluster.on("node01", "cp", BIN / "devcluster", devcluster.shared / "copy")

    assert devcluster.on("login1", "cat", devcluster.shared / "copy") == (
        BIN / "devcluster"
    ).read_text(encoding="utf-8")


def test_names_resolve_to_both_networks(devcluster: DevCluster) -> None:
    def address(name: str) -> str:
        return devcluster.on("login1", "getent", "ahostsv4", name).split()[0]

    def own(network: str) -> str:
        return devcluster.on("node02", "ip", "-br", "-4", "addr", "show", network).split()[2]

    assert own("eth0") == f"{address('node02')}/24"
    assert own("hsn0") == f"{address('node02-hsn0')}/24"


@pytest.mark.parametrize("host", ["login1", "login2"])
def test_login_hosts_need_no_environment_to_submit(devcluster: DevCluster, host: str) -> None:
    bare = ("env", "-i", "PATH=/usr/bin:/bin")
    words = ("sbatch", "--parsable", "--chdir=/", f"--output={devcluster.shared}/bare-%j.out")
    job = devcluster.on(host, *bare, *words, "--wrap=echo from $SLURM_SUBMIT_HOST").strip()

    eventually(lambda: rows(devcluster, job) == ["COMPLETED"], within=30, what="it completes")
    text = (devcluster.shared / f"bare-{job}.out").read_text(encoding="utf-8")
    assert text == f"from {host}\n"


def test_an_ordinary_user_submits_and_runs_as_himself(devcluster: DevCluster) -> None:
    as_nobody = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
    words = ("sbatch", "--parsable", "--chdir=/", f"--output={devcluster.shared}/job-%j.out")
    job = devcluster.ask(*as_nobody, *words, "--wrap=whoami; srun whoami").strip()

    eventually(lambda: rows(devcluster, job) == ["COMPLETED"], within=30, what="it completes")
    assert devcluster.output(job).split() == ["nobody", "nobody"]


def test_env_tells_a_shell_of_this_machine_where_everything_is(devcluster: DevCluster) -> None:
    script = f'eval "$({BIN}/devcluster env)"; sinfo -h -o %P; cat "$SLURMSWIFT_PROFILE"'
    root = f"DEVCLUSTER_ROOT={devcluster.root}"
    text = devcluster.ask("env", "-i", "PATH=/usr/bin:/bin", root, "bash", "-c", script)
    partitions, profile = text.split("schema:")

    assert partitions.split() == ["gpu*", "debug"]
    assert yaml.safe_load(f"schema:{profile}") == {
        "schema": 1,
        "name": "devcluster",
        "sbatch": {"partition": "gpu"},
        "network": {"interface": "hsn0"},
        "environment": {"variables": {"NCCL_SOCKET_IFNAME": "hsn0", "GLOO_SOCKET_IFNAME": "hsn0"}},
    }


@pytest.mark.ci
def test_a_cut_of_hsn0_leaves_slurm_healthy(devcluster: DevCluster) -> None:
    assert pings(devcluster, "node01", "node02-hsn0")

    devcluster.do("cut", "node02")

    assert devcluster.on("node02", "cat", "/sys/class/net/hsn0/carrier").strip() == "0"
    assert not pings(devcluster, "node01", "node02-hsn0")
    assert pings(devcluster, "node01", "node02")
    assert devcluster.ask("srun", "--nodelist=node02", "hostname") == "node02\n"
    assert re.search(r"^node02 .* hsn0 cut ", devcluster.do("status"), re.MULTILINE)

    devcluster.do("heal", "node02")

    eventually(
        lambda: pings(devcluster, "node01", "node02-hsn0"), within=10, what="hsn0 works again"
    )


def test_a_cut_of_eth0_loses_a_node_whose_processes_live_on(devcluster: DevCluster) -> None:
    ticks = devcluster.shared / "ticks"
    loop = f"while :; do date +%s%N >{ticks}; sleep 0.2; done"
    job = devcluster.sbatch(loop, "--nodelist=node03", "--no-requeue")
    eventually(ticks.exists, within=20, what="it writes")

    devcluster.do("cut", "node03", "eth0")

    eventually(
        lambda: devcluster.node_state("node03").startswith("down"), within=60, what="node03 is down"
    )
    assert devcluster.job_state(job) == "NODE_FAIL"
    before = ticks.read_text(encoding="utf-8")
    eventually(
        lambda: ticks.read_text(encoding="utf-8") not in ("", before),
        within=5,
        what="its process still writes to the shared folder",
    )

    devcluster.do("heal", "node03", "eth0")

    eventually(
        lambda: devcluster.node_state("node03").strip() == "idle", within=60, what="node03 is back"
    )


def test_power_loss_ends_a_job_as_node_fail_and_slurm_requeues_it(devcluster: DevCluster) -> None:
    job = devcluster.sbatch("echo started; srun sleep 600", "--nodelist=node01,node02")
    eventually(lambda: "started" in devcluster.output(job), within=20, what="it runs")

    devcluster.do("kill", "node02")

    assert devcluster.try_("exec", "node02", "true").returncode == 1
    eventually(lambda: "NODE_FAIL" in rows(devcluster, job), within=60, what="NODE_FAIL")
    eventually(
        lambda: devcluster.job_state(job) == "PENDING", within=60, what="it is in the queue again"
    )

    devcluster.do("revive", "node02")

    assert devcluster.node_state("node02").strip() in ("idle", "allocated", "mixed")
    assert devcluster.ask("srun", "--nodelist=node02", "hostname") == "node02\n"


def test_power_loss_of_a_login_host_ends_what_runs_there(devcluster: DevCluster) -> None:
    beat = devcluster.shared / "login-beat"
    loop = f"setsid bash -c 'while :; do date +%s%N >{beat}; sleep 0.1; done' >/dev/null 2>&1 &"
    devcluster.on("login2", "bash", "-c", loop)
    eventually(beat.exists, within=10, what="it writes")

    devcluster.do("kill", "login2")

    last = beat.read_text(encoding="utf-8")
    devcluster.do("revive", "login2")
    assert devcluster.on("login2", "hostname") == "login2\n"
    assert beat.read_text(encoding="utf-8") == last


def test_a_step_over_its_memory_is_out_of_memory(devcluster: DevCluster) -> None:
    if "tracking    cgroup" not in devcluster.do("status"):
        pytest.skip("cgroups cannot be written here, so Slurm limits no memory")
    eat = "import time; x = bytearray(300 << 20); time.sleep(60)"
    job = devcluster.sbatch(f"srun /usr/bin/python3 -c '{eat}'", "--mem=100M")

    eventually(lambda: rows(devcluster, job), within=10, what="accounting knows it")
    steps = ("sacct", "-nP", "--format=JobIDRaw,State", "-j", job)
    eventually(
        lambda: f"{job}.0|OUT_OF_MEMORY" in devcluster.ask(*steps).split("\n"),
        within=40,
        what="the step is OUT_OF_MEMORY",
    )


def test_high_priority_work_requeues_low(devcluster: DevCluster) -> None:
    low = devcluster.sbatch("echo started; sleep 600", "--qos=low", "--nodes=4", "--exclusive")
    eventually(lambda: "started" in devcluster.output(low), within=20, what="low runs")

    high = devcluster.sbatch("true", "--qos=high", "--nodes=4", "--exclusive")

    eventually(lambda: rows(devcluster, high) == ["COMPLETED"], within=60, what="high completes")
    assert "PREEMPTED" in rows(devcluster, low)
    assert devcluster.job_state(low) == "PENDING"


def test_a_job_outlives_a_stop_of_the_controller(devcluster: DevCluster) -> None:
    go = devcluster.shared / "go-on"
    job = devcluster.sbatch(f"echo started; until [ -e {go} ]; do sleep 0.2; done; echo done")
    eventually(lambda: "started" in devcluster.output(job), within=20, what="it runs")

    devcluster.do("ctld", "stop")

    assert " is DOWN" in devcluster.command("scontrol", "ping").stdout
    go.touch()
    eventually(lambda: "done" in devcluster.output(job), within=10, what="it goes on")
    devcluster.do("ctld", "start")
    eventually(lambda: rows(devcluster, job) == ["COMPLETED"], within=60, what="it completes")


def test_accounting_can_be_away_and_come_back(devcluster: DevCluster) -> None:
    job = devcluster.sbatch("true")
    eventually(lambda: rows(devcluster, job) == ["COMPLETED"], within=30, what="it completes")

    devcluster.do("dbd", "stop")

    blind = devcluster.command("sacct", "-X", "-nP", "-j", job)
    assert blind.stdout == ""
    assert blind.stderr != ""
    assert re.search(r"^slurmdbd +stopped$", devcluster.do("status"), re.MULTILINE)
    devcluster.do("dbd", "start")
    assert rows(devcluster, job) == ["COMPLETED"]


def test_a_paused_slurmd_takes_no_job_until_it_resumes(devcluster: DevCluster) -> None:
    devcluster.do("pause", "node04")

    state = devcluster.on("node04", "ps", "-C", "slurmd", "-o", "stat=")
    assert state.startswith("T")
    job = devcluster.sbatch("echo started", "--nodelist=node04")
    eventually(
        lambda: devcluster.job_state(job) in ("RUNNING", "CONFIGURING"),
        within=20,
        what="it is allotted",
    )
    assert devcluster.output(job) == ""

    devcluster.do("resume", "node04")

    eventually(lambda: "started" in devcluster.output(job), within=60, what="it runs")


def test_a_killed_exec_takes_its_command_with_it(devcluster: DevCluster) -> None:
    script = f"timeout --signal=KILL 1 {BIN}/devcluster exec login1 sleep 987"
    devcluster.command("bash", "-c", script)

    eventually(
        lambda: "sleep 987" not in devcluster.on("login1", "ps", "-e", "-o", "args="),
        within=5,
        what="the command is gone",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("exec", "node9", "true"), "there is no host 'node9' here"),
        (("pause", "login1"), "there is no node 'login1' here"),
        (("cut", "login1", "hsn0"), "login1 has no network 'hsn0'; it has: eth0"),
        (("cut",), "usage: devcluster cut NODE [hsn0|eth0]"),
        (("revive", "node01"), "node01 is on already"),
        (("kill", "head"), "the head holds the cluster's networks"),
        (("explode",), "there is no command 'explode'"),
        (("ctld", "restart"), "usage: devcluster ctld stop|start"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_happens(
    devcluster: DevCluster, words: tuple[str, ...], message: str
) -> None:
    result = devcluster.try_(*words)

    assert result.returncode == 1
    assert f"devcluster: {message}" in result.stderr
