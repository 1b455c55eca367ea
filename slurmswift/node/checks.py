"""What is looked at on every node before a training starts: one table, one function a check."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from slurmswift.domain.preflight import Value
from slurmswift.domain.records import Rendezvous
from slurmswift.node.interface import NoAddressError, address_of, link_state
from slurmswift.node.meeting import NoMeetingError, call

TORCH_SECONDS = 120.0
LOOK_SECONDS = 15.0
SHM_MIB = 128
STOP_FILE = Path("/tmp/stop")  # noqa: S108 - the very file that ms-swift looks for
SHM = Path("/dev/shm")  # noqa: S108
# Frameworks whose ranks are known to be PyTorch's.
TORCH_FRAMEWORKS = ("torchrun", "swift", "megatron-swift", "accelerate", "deepspeed")
_GPU_TOOLS = (("nvidia-smi", ("-L",)),)
_MAX_MESSAGE = 300


@dataclass(frozen=True)
class Place:
    """Where a check looks."""

    node: str
    attempt_dir: Path
    word: str  # of this preflight alone
    interface: str
    framework: str
    meeting: Rendezvous
    environment: Mapping[str, str]

    @property
    def gpus_asked(self) -> int:
        asked = self.environment.get("SLURM_GPUS_ON_NODE", "")
        return int(asked) if asked.isdigit() else 0


@dataclass(frozen=True)
class Found:
    """A check's answer. ``ok`` None: it was left out, and the message says why."""

    ok: Optional[bool]
    value: Value = None
    limit: Value = None
    message: str = ""


def _good(value: Value = None, limit: Value = None, message: str = "") -> Found:
    return Found(True, value, limit, message)  # noqa: FBT003 - the name says it


def _bad(value: Value, limit: Value, message: str) -> Found:
    return Found(False, value, limit, message)  # noqa: FBT003


def _left_out(why: str) -> Found:
    return Found(None, message=why)


@dataclass(frozen=True)
class Check:
    """One row of the table."""

    id: str
    what: str
    why: str
    default: str
    look: Callable[[Place], Found]
    seconds: float = LOOK_SECONDS  # a node on which it takes longer does not pass


def look_at_gpus(place: Place) -> Found:
    if not place.gpus_asked:
        return _left_out("no GPUs were asked for")
    tool = gpu_tool()
    if tool is None:
        return _left_out("no tool that lists GPUs is on this node")
    try:
        said = subprocess.run(
            tool, capture_output=True, text=True, timeout=LOOK_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return _bad(None, place.gpus_asked, f"{tool[0]} hangs")
    count = sum(line.startswith("GPU ") for line in said.stdout.splitlines())
    ok = said.returncode == 0 and count >= place.gpus_asked
    message = f"{count} of {place.gpus_asked} GPUs answer"
    if said.returncode != 0:
        message += f"; {tool[0]} says: {_last_line(said.stdout + said.stderr)}"
    return Found(ok, count, place.gpus_asked, message)


def gpu_tool() -> Optional[List[str]]:
    for name, options in _GPU_TOOLS:
        path = shutil.which(name)
        if path is not None:
            return [path, *options]
    return None


def look_at_python(_: Place) -> Found:
    version = ".".join(map(str, sys.version_info[:3]))
    return Found(sys.version_info >= (3, 8), version, "3.8", f"Python {version}")


def training_python() -> str:
    """Return the Python that the script found; what runs here may be wrapped by it."""
    return os.environ.get("SLURMSWIFT_PYTHON") or sys.executable


_IMPORT_TORCH = """
import json, torch, torch.distributed as d
there = d.is_available()
backends = [b for b in ("gloo", "nccl") if there and getattr(d, "is_%s_available" % b)()]
print(json.dumps([torch.__version__, backends]))
"""


def look_at_torch(place: Place) -> Found:
    if place.framework not in TORCH_FRAMEWORKS:
        return _left_out(f"framework {place.framework} need not be PyTorch")
    wanted = "nccl" if place.gpus_asked and gpu_tool() else "gloo"
    status, said, complaint = _run([training_python(), "-c", _IMPORT_TORCH], TORCH_SECONDS)
    if status is None:
        return _bad(None, wanted, f"import torch took longer than {TORCH_SECONDS:.0f} s")
    try:
        version, backends = json.loads(said.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return _bad(None, wanted, _last_line(complaint) or f"import torch ended {status}")
    ok = status == 0 and wanted in backends
    message = f"torch {version}" if ok else f"torch {version} has no backend {wanted}"
    return Found(ok, str(version), wanted, message)


def look_at_interface(place: Place) -> Found:
    if not place.interface:
        return _left_out("no network interface is named for the training")
    try:
        address = address_of(place.interface)
    except NoAddressError as error:
        return _bad("missing", "up", str(error))
    state = link_state(place.interface)
    message = f"{place.interface} ({address}) is {state}"
    return Found(state in ("up", "unknown"), state, "up", message)


def look_at_rendezvous(place: Place) -> Found:
    meeting = place.meeting
    where = f"{meeting.address}:{meeting.port}"
    try:
        _call(place)
    except NoMeetingError as error:
        return _bad(None, where, f"{meeting.node} at {error}")
    return _good(where, where, f"{meeting.node} answers at {where}")


def look_at_clock(place: Place) -> Found:
    """Judged by the first node, which has everybody's: there is no clock that is right."""
    try:
        ahead = _call(place)
    except NoMeetingError:
        return _left_out(f"{place.meeting.node}, to compare with, was not reached")
    return _good(round(-ahead, 3), None, "")


def look_at_run_directory(place: Place) -> Found:
    """Read what the first node wrote, and leave something for it to see."""
    path = place.attempt_dir / f".preflight-{place.word}"
    not_the_same = f"{place.attempt_dir} is not the folder that the first node sees"
    try:
        there = path.read_text(encoding="ascii").strip()
        mark = path.with_name(f"{path.name}-{place.node}")
        mark.write_text(place.word, encoding="ascii")
    except FileNotFoundError:
        return _bad(None, None, not_the_same)
    except OSError as error:
        return _bad(None, None, f"{place.attempt_dir}: {error.strerror}")
    return Found(there == place.word, None, None, "" if there == place.word else not_the_same)


def look_at_shm(_: Place) -> Found:
    try:
        room = os.statvfs(SHM)
    except OSError as error:
        return _bad(None, SHM_MIB, f"{SHM}: {error.strerror}")
    free = room.f_bavail * room.f_frsize >> 20
    return Found(free >= SHM_MIB, free, SHM_MIB, f"{free} MiB free in {SHM}")


def look_at_stop_file(_: Place) -> Found:
    if os.path.lexists(STOP_FILE):
        return _bad(str(STOP_FILE), None, f"somebody's {STOP_FILE} is there; remove it")
    return _good()


PORT_CHECK = Check(
    "port",
    "the port at which the ranks will meet can be listened on",
    "it was free a moment ago; an outgoing connection must not take it either",
    "below the ephemeral range, on the first node; another is chosen, twice",
    lambda _: _left_out("made by the first node itself, in check_nodes.py"),
)
CHECKS: Tuple[Check, ...] = (
    Check(
        "gpus",
        "as many GPUs answer as were asked for",
        "a GPU that fell off the bus is found by the first rank, minutes later and in other words",
        "SLURM_GPUS_ON_NODE; left out where none were asked for",
        look_at_gpus,
        LOOK_SECONDS + 5,
    ),
    Check(
        "python",
        "the training's Python is new enough on this node too",
        "PATH may lead elsewhere here",
        "3.8",
        look_at_python,
    ),
    Check(
        "torch",
        "torch can be imported and has the backend",
        "a node with a broken environment fails alone, and its peers wait for it",
        "nccl with GPUs, gloo without; left out where the framework need not be PyTorch",
        look_at_torch,
        TORCH_SECONDS + 5,
    ),
    Check(
        "interface",
        "the training's network interface has an address and a link",
        "Slurm's own network can be well while this one is not",
        "network.interface; left out where none is named",
        look_at_interface,
    ),
    Check(
        "rendezvous",
        "the first node is reached where the ranks will meet",
        "a firewall or a route fails a training only after its own time-out",
        "within 5 s, twice, from the training's interface",
        look_at_rendezvous,
    ),
    Check(
        "clock",
        "this node's clock agrees with the others'",
        "tokens expire, caches and makefiles go wrong, logs cannot be put in order",
        "5 s, by the exchange with the first node",
        look_at_clock,
    ),
    Check(
        "run_directory",
        "the run directory is one and the same everywhere",
        "checkpoints written elsewhere are lost, and the fence cannot end the ranks here",
        "a file each way",
        look_at_run_directory,
    ),
    Check(
        "shm",
        "/dev/shm has room",  # noqa: S108
        "data loaders and NCCL die of a bus error without it",
        f"{SHM_MIB} MiB",
        look_at_shm,
    ),
    Check(
        "stop_file",
        "there is no /tmp/stop of somebody's",
        "ms-swift's graceful_exit ends any user's training on the node as long as it is there",
        "none",
        look_at_stop_file,
    ),
)


def look_at_all(place: Place, checks: Sequence[Check] = CHECKS) -> Dict[str, Found]:
    """All at once: one that hangs (a dead mount, a GPU) must not hide what the others found."""
    found: Dict[str, Found] = {}
    threads = [
        threading.Thread(target=_look, args=(check, place, found), daemon=True) for check in checks
    ]
    for thread in threads:
        thread.start()
    for check, thread in zip(checks, threads):
        thread.join(check.seconds)
    # A snapshot: a thread that is late may still write.
    answered = dict(found)
    return {
        check.id: answered.get(check.id)
        or _bad(None, None, f"did not come back within {check.seconds:.0f} s")
        for check in checks
    }


def _look(check: Check, place: Place, found: Dict[str, Found]) -> None:
    try:
        answer = check.look(place)
    except Exception as error:  # noqa: BLE001 - a node on which a check breaks does not pass
        answer = _bad(None, None, f"{type(error).__name__}: {error}")
    found[check.id] = Found(answer.ok, answer.value, answer.limit, answer.message[:_MAX_MESSAGE])


def _call(place: Place) -> float:
    try:
        source = address_of(place.interface) if place.interface else ""
    except NoAddressError as error:
        raise NoMeetingError(str(error)) from error
    return call(place.meeting.address, place.meeting.port, place.word, source)


def _run(command: List[str], seconds: float) -> Tuple[Optional[int], str, str]:
    """Run a program in a session of its own; its status is None where it took too long."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, complaint = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, "", ""
    return process.returncode, said, complaint


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
