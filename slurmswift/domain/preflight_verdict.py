"""What a failed preflight concludes: which cause, and which node to leave out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional, Tuple

from slurmswift.domain.causes import CAUSES
from slurmswift.domain.evidence import ENDED_BY_SLURM, Case, Evidence, Verdict, shown
from slurmswift.domain.preflight import (
    CheckResult,
    PreflightRecord,
    in_words,
    silent_in_words,
)


@dataclass(frozen=True)
class Blame:
    """A check's cause where it fails on some nodes, and where it fails on all of them."""

    on_some: str
    everywhere: str
    remedy: str


# The most telling first. Elsewhere helps against what is wrong with some nodes alone, whatever it
# is: their causes are those for which the policy leaves the node out.
BLAME: Dict[str, Blame] = {
    "run_directory": Blame(
        "sched-launch-failure",
        "storage-fs-error",
        "The run directory is another folder on the named node: its shared file system is not "
        "mounted there, or the runs folder lies on a local disk",
    ),
    "interface": Blame(
        "comm-network-fabric",
        "comm-interface-misconfig",
        "The training's network interface has no address or no link on the named node: compare "
        "network.interface with ip -br addr there",
    ),
    "rendezvous": Blame(
        "comm-socket-connect",
        "comm-socket-connect",
        "The named node and the first one do not reach each other over the training's network: "
        "look for a firewall between compute nodes, and at the routes of both",
    ),
    "port": Blame("config-port-in-use", "config-port-in-use", ""),
    "gpus": Blame("hw-gpu-fault", "hw-gpu-fault", ""),
    "torch": Blame(
        "sched-launch-failure",
        "code-import-env",
        "The training's environment does not work on the named node: try the import there with "
        "the same python",
    ),
    "python": Blame("sched-launch-failure", "code-import-env", ""),
    "clock": Blame(
        "sched-launch-failure",
        "sched-launch-failure",
        "The named node's clock is off: have its time service (chronyc sources) looked at",
    ),
    "shm": Blame(
        "sched-launch-failure",
        "mem-shm-exhausted",
        "Shared memory (/dev/shm) is full on the named node: somebody's files were left there",
    ),
    "stop_file": Blame(
        "sched-launch-failure",
        "sched-launch-failure",
        "Somebody left a /tmp/stop on the named node, which ends trainings of ms-swift: have it "
        "removed",
    ),
}
_NO_ANSWER = (
    "The named node did not start the preflight, or hung in it: its slurmd or a file system "
    "there does not answer"
)
_NODE_STATES = ("NODE_FAIL", "BOOT_FAIL")


def preflight_checked(case: Case) -> Optional[Verdict]:
    """A check said no: nothing was trained, and what logs say besides is its echo."""
    facts = case.facts
    record = facts.preflight
    if record is None or record.ok or facts.ending_signal is not None:
        return None
    if facts.state in ENDED_BY_SLURM or facts.state in _NODE_STATES:
        return None
    evidence = tuple(
        Evidence("preflight.json", 1, shown(words))
        for words in [
            *map(silent_in_words, record.nodes_silent),
            *map(in_words, record.failed),
        ]
    )
    if record.nodes_silent:
        return Verdict(
            "sched-launch-failure",
            "preflight-silent",
            transient=True,
            # Where none answered, it was not one node.
            node=record.nodes_silent[0] if len(record.nodes_silent) < len(facts.nodes) else None,
            evidence=evidence,
            remedy=_NO_ANSWER,
        )
    name = min({result.check for result in record.failed}, key=_place)
    failed = tuple(result for result in record.failed if result.check == name)
    blame = BLAME.get(name, Blame("sched-launch-failure", "sched-launch-failure", ""))
    node = _node_to_blame(record, name, failed)
    cause = blame.everywhere if node is None else blame.on_some
    transient = CAUSES[cause].transient if node is None else True
    return Verdict(
        cause,
        f"preflight-{name}",
        transient,
        node=node,
        evidence=evidence,
        remedy=blame.remedy,
    )


def _place(check: str) -> int:
    return list(BLAME).index(check) if check in BLAME else len(BLAME)


def _node_to_blame(
    record: PreflightRecord, check: str, failed: Tuple[CheckResult, ...]
) -> Optional[str]:
    """Return the node to leave out; None where the check failed on all that made it."""
    made = [result.node for result in record.checks if result.check == check]
    if check == "port":
        return None
    if check == "rendezvous":
        # The first node is where they would meet. That none of several gets there is its fault.
        others = set(made[1:])
        cut_off = len(others) > 1 and others <= {result.node for result in failed}
        return made[0] if cut_off else failed[0].node
    return None if len(failed) == len(made) else failed[0].node
