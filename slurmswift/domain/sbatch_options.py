"""All long options of sbatch, 22.05 to 26.05: their kinds of values, and which are slurmswift's.

From the man pages of these releases. Plug-ins of a site may add more; those are not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Dict, Optional, Tuple

from slurmswift.domain.schema import did_you_mean


class Kind(Enum):
    """What stands after an option's ``=``."""

    FLAG = "true or false"
    TEXT = "text"
    OPTIONAL = "text or nothing"
    WORDS = "one or more words"  # joined by commas
    COUNT = "a whole number"
    TIME = "a time"
    MEMORY = "an amount of memory"
    NODES = "a number of nodes"
    GPUS = "a number of GPUs"
    NODE_NAMES = "names of nodes"
    PATH = "a path"


@dataclass(frozen=True)
class SbatchOption:
    """One option. ``refused`` says why a recipe cannot have it, ``instead`` what it can have."""

    name: str
    kind: Kind = Kind.TEXT
    short: str = ""
    refused: str = ""
    instead: str = ""

    @property
    def key(self) -> str:
        return self.name.replace("-", "_")


_REMOVE = "remove it"
_OURS = "slurmswift sets it"
_SUBMITS = "slurmswift submits the job, and reads sbatch's answer"
_ONE_TASK = "slurmswift starts one task a node, which starts the training's processes"
_PROCESSES = "write launch.processes_per_node"
_ENVIRONMENT = "every attempt of a run starts in the environment that was frozen at its submission"
_INHERIT = "write environment.inherit and environment.variables"
_OWNER = "a run belongs to the user who submits it"
_LOG = "the run directory has a place for the log of every attempt"


def _option(name: str, kind: Kind = Kind.TEXT, short: str = "") -> SbatchOption:
    return SbatchOption(name, kind, short)


def _refused(name: str, why: str, instead: str = _REMOVE, *, short: str = "") -> SbatchOption:
    return SbatchOption(name, Kind.TEXT, short, why, instead)


_ALL: Tuple[SbatchOption, ...] = (
    _option("account", short="A"),
    _option("acctg-freq"),
    _refused("array", "a run is one training", "submit one recipe for each task", short="a"),
    _option("batch"),
    _option("bb"),
    _option("bbf", Kind.PATH),
    _option("begin", short="b"),
    _option("chdir", Kind.PATH, "D"),
    _option("cluster-constraint"),
    _refused(
        "clusters", "a run stays on the cluster it was submitted on", "submit there", short="M"
    ),
    _option("comment"),
    _option("consolidate-segments", Kind.FLAG),
    _option("constraint", short="C"),
    _option("container", Kind.PATH),
    _option("container-id"),
    _option("container-type"),
    _option("contiguous", Kind.FLAG),
    _option("core-spec", Kind.COUNT, "S"),
    _option("cores-per-socket", Kind.COUNT),
    _option("cpu-freq"),
    _option("cpus-per-gpu", Kind.COUNT),
    _option("cpus-per-task", Kind.COUNT, "c"),
    _option("deadline"),
    _option("delay-boot"),
    _option("dependency", Kind.WORDS, "d"),
    _option("distribution", short="m"),
    _refused("error", _LOG, short="e"),
    _option("exclude", Kind.NODE_NAMES, "x"),
    _option("exclusive", Kind.OPTIONAL),
    _refused("export", _ENVIRONMENT, _INHERIT),
    _refused("export-file", _ENVIRONMENT, _INHERIT),
    _option("extra"),
    _option("extra-node-info", short="B"),
    _refused("get-user-env", _ENVIRONMENT, _INHERIT),
    _refused("gid", _OWNER),
    _option("gpu-bind"),
    _option("gpu-freq"),
    _option("gpus", Kind.GPUS, "G"),
    _option("gpus-per-node", Kind.GPUS),
    _option("gpus-per-socket", Kind.GPUS),
    _refused("gpus-per-task", _ONE_TASK, "write gpus_per_node"),
    _option("gres", Kind.WORDS),
    _option("gres-flags", Kind.WORDS),
    _refused("help", _SUBMITS, short="h"),
    _option("hint"),
    _refused(
        "hold", "every restart would wait for a person", "write begin for a later start", short="H"
    ),
    _refused("ignore-pbs", "the script has no #PBS lines"),
    _refused("input", "the script reads nothing from its standard input", short="i"),
    _refused(
        "job-name", "it is the run's id, by which slurmswift finds its job", "write name", short="J"
    ),
    _option("kill-on-invalid-dep"),
    _option("licenses", Kind.WORDS, "L"),
    _option("mail-type", Kind.WORDS),
    _option("mail-user"),
    _option("mcs-label"),
    _option("mem", Kind.MEMORY),
    _option("mem-bind"),
    _option("mem-per-cpu", Kind.MEMORY),
    _option("mem-per-gpu", Kind.MEMORY),
    _option("mem-update"),
    _option("mincpus", Kind.COUNT),
    _option("network"),
    _option("nice", Kind.OPTIONAL),
    _refused("no-kill", "what happens when a node is lost is slurmswift's to decide", short="k"),
    _refused(
        "no-requeue", "slurmswift puts a run back in the queue", "write restart.max_restarts: 0"
    ),
    _refused("nodefile", "slurmswift may have to leave nodes out", "write nodelist", short="F"),
    _option("nodelist", Kind.NODE_NAMES, "w"),
    _option("nodes", Kind.NODES, "N"),
    _refused("ntasks", _ONE_TASK, f"write nodes, and for more {_PROCESSES[6:]}", short="n"),
    _refused("ntasks-per-core", _ONE_TASK, _PROCESSES),
    _refused("ntasks-per-gpu", _ONE_TASK, _PROCESSES),
    _refused("ntasks-per-node", _ONE_TASK, _PROCESSES),
    _refused("ntasks-per-socket", _ONE_TASK, _PROCESSES),
    _option("oom-kill-step", Kind.OPTIONAL),
    _refused("open-mode", f"{_OURS} to append: a restart must not empty the log"),
    _refused("output", _LOG, short="o"),
    _option("overcommit", Kind.FLAG, "O"),
    _option("oversubscribe", Kind.FLAG, "s"),
    _refused("parsable", _SUBMITS),
    _option("partition", Kind.WORDS, "p"),
    _option("power"),
    _option("prefer"),
    _option("priority"),
    _option("profile", Kind.WORDS),
    _option("propagate", Kind.OPTIONAL),
    _option("qos", short="q"),
    _refused("quiet", _SUBMITS, short="Q"),
    _option("reboot", Kind.FLAG),
    _refused("requeue", f"{_OURS}: Slurm's own restart is the quickest one"),
    _option("reservation", Kind.WORDS),
    _option("resources"),
    _option("resv-ports", Kind.OPTIONAL),
    _option("segment", Kind.COUNT),
    _refused("signal", f"{_OURS}: the training is asked to save ahead of the time limit"),
    _option("sockets-per-node", Kind.COUNT),
    _option("spread-job", Kind.FLAG),
    _option("spread-segments", Kind.FLAG),
    _option("stepmgr", Kind.FLAG),
    _option("switches"),
    _refused("test-only", _SUBMITS, "use: slurmswift submit --dry-run"),
    _option("thread-spec", Kind.COUNT),
    _option("threads-per-core", Kind.COUNT),
    _option("time", Kind.TIME, "t"),
    _option("time-min", Kind.TIME),
    _option("tmp", Kind.MEMORY),
    _option("tres-bind"),
    _refused("tres-per-task", _ONE_TASK, "write gpus_per_node and cpus_per_task"),
    _refused("uid", _OWNER),
    _refused("usage", _SUBMITS),
    _option("use-min-nodes", Kind.FLAG),
    _refused("verbose", _SUBMITS, short="v"),
    _refused("version", _SUBMITS, short="V"),
    _refused("wait", _SUBMITS, "use: slurmswift submit --watch", short="W"),
    _refused("wait-all-nodes", "the training starts when every node has answered"),
    _option("wckey"),
    _refused("wrap", "the script is rendered from a template", "write launch.command"),
)

OPTIONS: Dict[str, SbatchOption] = {option.name: option for option in _ALL}
_BY_SHORT: Dict[str, SbatchOption] = {option.short: option for option in _ALL if option.short}


def find_option(key: str) -> Optional[SbatchOption]:
    """Return the option that a recipe's key names, dashes written as underscores."""
    return OPTIONS.get(key.replace("_", "-")) if "-" not in key else None


def suggest_option(key: str) -> str:
    """Return what to write instead of a key that is no option."""
    bare = key.lstrip("-")
    option = OPTIONS.get(bare.replace("_", "-")) or _BY_SHORT.get(bare)
    if option is not None and not option.refused:
        return f"write {option.key}"
    return did_you_mean(bare, [option.key for option in _ALL if not option.refused])
