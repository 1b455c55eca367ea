"""A test's handle on a devcluster: commands, hosts, and questions asked until they come true."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

BIN = Path(__file__).resolve().parents[2] / "bin"


def eventually(question: Callable[[], T], *, within: float, what: str) -> T:
    """The first true answer; an AssertionError with the last one when the time is over."""
    deadline = time.monotonic() + within
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}; last answer {answer!r}")
        time.sleep(0.2)


@dataclass(frozen=True)
class DevCluster:
    """One cluster, by its state folder. It need not be up."""

    root: Path
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def shared(self) -> Path:
        return self.root / "shared"

    @property
    def id(self) -> str:
        return hashlib.sha256(str(self.root).encode()).hexdigest()[:6]

    @property
    def environment(self) -> dict[str, str]:
        conf = str(self.root / "etc/slurm.conf")
        return {
            **os.environ,
            "DEVCLUSTER_ROOT": str(self.root),
            "SLURM_CONF": conf,
            **self.settings,
        }

    def try_(self, *words: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """bin/devcluster, whatever it answers."""
        return self.command(BIN / "devcluster", *words, timeout=timeout)

    def do(self, *words: str | Path, timeout: float = 120) -> str:
        """bin/devcluster, which must succeed; what it printed."""
        return must_succeed(self.try_(*words, timeout=timeout))

    def on(self, host: str, *words: str | Path, timeout: float = 120) -> str:
        """A command on a host, which must succeed; what it printed."""
        return self.do("exec", host, *words, timeout=timeout)

    def command(self, *words: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """A command of this machine that looks at this cluster."""
        return subprocess.run(
            [str(word) for word in words],
            cwd="/",
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def ask(self, *words: str | Path, timeout: float = 120) -> str:
        """A command of this machine, which must succeed; what it printed."""
        return must_succeed(self.command(*words, timeout=timeout))

    def sbatch(self, script: str, *options: str) -> str:
        """The id of a new job that runs this shell text; its output is shared/job-<id>.out."""
        output = f"--output={self.shared}/job-%j.out"
        return self.ask(
            "sbatch", "--parsable", output, "--open-mode=append", *options, f"--wrap={script}"
        ).strip()

    def output(self, job: str) -> str:
        path = self.shared / f"job-{job}.out"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def job_state(self, job: str) -> str:
        """Slurm's present word for a job, as squeue or (once it is over) scontrol says it."""
        row = self.ask("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")
        return row.strip()

    def node_state(self, node: str) -> str:
        return self.ask("sinfo", "--noheader", "--partition=gpu", "--format=%T", f"--nodes={node}")

    def make_whole(self, *, within: float = 60) -> None:
        """Daemons run, hosts are on, cables are in, no job is left."""
        lines = self.do("status").splitlines()
        for daemon in ("dbd", "ctld"):
            self.do(daemon, "start")
        for name, state, *rest in [
            line.split() for line in lines if line.startswith(("node", "login"))
        ]:
            if state == "off":
                self.do("revive", name)
                continue
            for network, cable in zip(rest[0:4:2], rest[1:4:2], strict=False):
                if cable == "cut":
                    self.do("heal", name, network)
            if name.startswith("node"):
                self.do("resume", name)
        self.ask("scancel", "--user=root")
        self.ask("scancel", "--user=nobody")
        eventually(
            lambda: not self.ask("squeue", "--noheader"), within=within, what="every job is gone"
        )

    def traces(self) -> list[str]:
        """What of this cluster is on the machine besides its folder: nothing, once it is down."""
        found = [f"interface {name}" for name in network_interfaces() if self.id in name]
        found += [
            f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(f"*/devcluster-{self.id}*")
        ]
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
        found += [f"mount {line}" for line in mounts if str(self.root) in line]
        found += [f"process {pid}" for pid in self.processes()]
        found += [f"folder {path}" for path in Path("/run").glob(f"devcluster-{self.id}*")]
        return found

    def processes(self) -> list[int]:
        """Processes with the state folder on their command line, and their hosts' daemons."""
        needle = str(self.root).encode()
        return [pid for pid in all_pids() if needle in command_line(pid)]


@contextlib.contextmanager
def another(*up: str | Path, **settings: str) -> Iterator[DevCluster]:
    """A further cluster, beside those that are up. Its folder's path is short."""
    folder = Path(tempfile.mkdtemp(prefix="dct."))
    folder.chmod(0o755)
    cluster = DevCluster(folder / "a", settings)
    try:
        cluster.do("up", *up)
        yield cluster
    finally:
        cluster.do("down")
        shutil.rmtree(folder, ignore_errors=True)


def must_succeed(result: subprocess.CompletedProcess[str]) -> str:
    told = f"{result.args} ended {result.returncode}: {result.stdout}{result.stderr}"
    assert result.returncode == 0, told
    return result.stdout


def network_interfaces() -> list[str]:
    return sorted(path.name for path in Path("/sys/class/net").iterdir())


def all_pids() -> list[int]:
    """Every process but this one."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if pid != os.getpid()]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
