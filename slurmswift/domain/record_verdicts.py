"""What an attempt's own records conclude: exit.json, nodes/*.json, Slurm's state."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional, Tuple

from slurmswift.domain.causes import CAUSES
from slurmswift.domain.evidence import ENDED_BY_SLURM, Case, Evidence, Verdict, evidence_of, shown
from slurmswift.domain.records import NodeRecord, RankEnd
from slurmswift.domain.rule import Role

SIGKILL = 9
# Signals that end a process against its will; 15 is how everybody ends everybody.
_FATAL_SIGNALS = (4, 6, 7, 8, 9, 11)
# A loopback interface and many virtual ones are "unknown" when they are well.
_HEALTHY_INTERFACES = ("up", "unknown")
_NODE_STATES = ("NODE_FAIL", "BOOT_FAIL")
# What an attempt that saved and left was asked by, where Slurm's state does not say.
_ASKED_BY = {"time-limit": "sched-time-limit", "ended": "sched-preempted"}
# The job's own words, in node/beat.py and node/begin.py.
_BLIND = "could not write to the run directory"
_STILL_ALIVE = "an earlier attempt did not end"
_NO_CHECKPOINT_FITS = "no checkpoint fits this run"


def fenced(case: Case) -> Optional[Verdict]:
    """The agents ended the ranks: this attempt had lost the right to train, or its files."""
    record = case.facts.exit_record
    fences = [node for node in case.facts.node_records if node.fenced]
    hinted = record is not None and record.cause_hint == "fenced"
    if not hinted and not fences:
        return None
    evidence = [
        Evidence(f"nodes/{node.node}.json", 1, shown(f"fenced: {node.fenced}")) for node in fences
    ]
    if record is not None and record.message:
        evidence.append(Evidence("exit.json", 1, shown(record.message)))
    blind = [node for node in fences if _BLIND in (node.fenced or "")]
    if blind:
        cause = CAUSES["storage-fs-error"]
        return Verdict(
            cause.name,
            "node-blind",
            cause.transient,
            node=blind[0].node if len(blind) == 1 else None,
            evidence=tuple(evidence),
            remedy="The shared file system did not answer on the named node: the agent ended its "
            "ranks there, as a newer attempt could not have told it to. Resume; if it comes "
            "again on that node, leave it out",
        )
    return Verdict(
        "sched-cancelled",
        "fenced",
        None,
        evidence=tuple(evidence),
        remedy="slurmswift ended this attempt itself: the run was stopped, or another attempt "
        "of it had started. Nothing to do for this one",
    )


def own_bug(case: Case) -> Optional[Verdict]:
    """It broke in slurmswift's own part: whatever the log says besides, that ended it."""
    record = case.facts.exit_record
    if record is None or record.cause_hint != "bug":
        return None
    return Verdict(
        "unexplained",
        "slurmswift-bug",
        None,
        evidence=(Evidence("exit.json", 1, shown(record.message or "a bug in slurmswift")),),
        remedy="This is a bug in slurmswift and no fault of the training: please report it with "
        "the file bug-*.txt in the attempt's folder",
    )


def left_when_asked(case: Case) -> Optional[Verdict]:
    """It was asked to save and leave, and did: by Slurm's warning, or when it got a TERM."""
    record = case.facts.exit_record
    if record is None or record.cause_hint not in _ASKED_BY:
        return None
    # Slurm's own word says who sent the TERM. Without it: from its owner, Slurm would say
    # CANCELLED; a preemption leaves the job some time to end by itself, as FAILED.
    cause = CAUSES[ENDED_BY_SLURM.get(case.facts.state, _ASKED_BY[record.cause_hint])]
    evidence = (Evidence("exit.json", 1, shown(record.message or "")), slurm_state(case))
    return Verdict(cause.name, "left-when-asked", cause.transient, evidence=evidence)


def node_failed(case: Case) -> Optional[Verdict]:
    """A node that Slurm declared down, or that left no record when the others did."""
    facts = case.facts
    record = facts.exit_record
    silent = record.nodes_silent if record is not None else ()
    lost = record is not None and record.cause_hint == "node-lost"
    if facts.state not in _NODE_STATES and not lost:
        return None
    evidence = [slurm_state(case)] if facts.state in _NODE_STATES else []
    evidence += _silent_evidence(silent)
    node = silent[0] if len(silent) == 1 else None
    if lost and facts.state != "NODE_FAIL" and _never_started(case, silent):
        cause = CAUSES["sched-launch-failure"]
        return Verdict(
            cause.name, "node-never-started", transient=True, node=node, evidence=tuple(evidence)
        )
    cause = CAUSES["hw-node-failure"]
    return Verdict(cause.name, "node-lost", cause.transient, node=node, evidence=tuple(evidence))


def _never_started(case: Case, silent: Tuple[str, ...]) -> bool:
    """Whether srun says all is well over nodes that never reported: their launch failed.

    srun 22.05 to 26.05 exits 0 when a node's slurmd does not answer the launch.
    """
    record = case.facts.exit_record
    return record is not None and record.srun_status == 0 and bool(silent)


def _silent_evidence(silent: Tuple[str, ...]) -> Tuple[Evidence, ...]:
    if not silent:
        return ()
    return (Evidence("exit.json", 1, shown("left no record: " + ", ".join(silent))),)


def setup_failed(case: Case) -> Optional[Verdict]:
    """The script ended before the training: its environment, its python or the preflight."""
    record = case.facts.exit_record
    if record is None or record.cause_hint not in ("setup", "no-python"):
        return None
    cause = CAUSES["code-import-env"]
    message = record.message or {
        "setup": "the environment's setup failed",
        "no-python": "no python >= 3.8 was found",
    }.get(record.cause_hint, "")
    remedy = (
        "Correct environment.modules or environment.setup: the lines above this record in the log "
        "show what failed"
        if record.cause_hint == "setup"
        else "Name a python of at least 3.8 in launch.python, or load one in environment.setup"
    )
    return Verdict(
        cause.name,
        record.cause_hint,
        cause.transient,
        evidence=(Evidence("exit.json", 1, shown(message)),),
        remedy=remedy,
    )


def preflight_failed(case: Case) -> Optional[Verdict]:
    """The first node could not start the training: no address, no port, an earlier one alive."""
    record = case.facts.exit_record
    if record is None or record.cause_hint != "preflight":
        return None
    message = record.message or "the preflight failed"
    evidence = (Evidence("exit.json", 1, shown(message)),)
    if message.startswith(_STILL_ALIVE):
        return Verdict(
            "sched-launch-failure",
            "earlier-attempt-alive",
            transient=True,
            evidence=evidence,
            remedy="An earlier attempt's processes still ran on a node that does not answer: see "
            "that they end (squeue, the node itself), then resume",
        )
    if message.startswith(_NO_CHECKPOINT_FITS):
        cause = CAUSES["ckpt-incompatible"]
        return Verdict(
            cause.name,
            "no-checkpoint-fits",
            cause.transient,
            evidence=evidence,
            remedy="Ask for as many ranks as saved it, or convert it. To start from the beginning, "
            "give the run another output folder, or move its checkpoints away",
        )
    node = message.partition(":")[0]
    return Verdict(
        "comm-socket-connect",
        "preflight",
        CAUSES["comm-socket-connect"].transient,
        node=node if node in case.facts.nodes else None,
        evidence=evidence,
        remedy="The named node has no address or port for the ranks to meet at: compare the "
        "training's interface in the recipe or profile with ip -br addr there",
    )


def died_ranks(case: Case) -> Optional[Verdict]:
    """A rank whose end its agent saw: killed or crashed while its launcher lived."""
    died = died_by_signal(case, _FATAL_SIGNALS)
    if len({node.node for node, _ in died}) != 1:
        return None
    node, rank = died[0]
    world = sum(len(record.ranks) for record in case.facts.node_records)
    cause = CAUSES["comm-remote-peer-lost" if world > 1 else "unexplained"]
    return Verdict(
        cause.name,
        "rank-died",
        cause.transient,
        rank=rank.rank,
        node=node.node,
        evidence=tuple(rank_evidence(node, one) for _, one in died[:3])
        + tuple(evidence_of(found) for found in case.of_role(Role.CONSEQUENCE)[:1]),
        remedy=f"Rank {rank.rank} ended by signal {rank.signal} and nothing says who sent it: look "
        f"in dmesg on {node.node} for the OOM killer and in sacct for OUT_OF_MEMORY",
    )


def died_by_signal(case: Case, signals: Tuple[int, ...]) -> Tuple[Tuple[NodeRecord, RankEnd], ...]:
    """Return the ranks that a signal ended, where their launcher was not itself being ended."""
    forced = {found.pid for found in case.of_rules("torchrun-forced-kill")}
    return tuple(
        (node, rank)
        for node in case.facts.node_records
        if node.launcher.signal is None and not node.fenced
        for rank in node.ranks
        if rank.signal in signals and rank.pid not in forced
    )


def rank_evidence(node: NodeRecord, rank: RankEnd) -> Evidence:
    end = f"signal {rank.signal}" if rank.signal is not None else f"status {rank.status}"
    return Evidence(f"nodes/{node.node}.json", 1, f"rank {rank.rank} ended with {end}")


def never_launched(case: Case) -> Optional[Verdict]:
    """A job of a run that ended and left no attempt: its script never ran."""
    if not case.facts.left_no_attempt:
        return None
    return Verdict("sched-launch-failure", "left-no-attempt", None, evidence=(slurm_state(case),))


def interface_down(case: Case) -> Optional[Verdict]:
    """Nothing in the logs, but the training's network is down on a node."""
    cause = CAUSES["comm-network-fabric"]
    verdict = Verdict(cause.name, "", cause.transient)
    noted = with_interface(case, verdict)
    return None if noted is verdict else noted


def with_interface(case: Case, verdict: Verdict) -> Verdict:
    """Name the node whose training interface was down when its launcher ended."""
    if CAUSES[verdict.cause].category != "communication":
        return verdict
    looked = [node for node in case.facts.node_records if node.interface is not None]
    bad = [
        node
        for node in looked
        if node.interface is not None and node.interface.state not in _HEALTHY_INTERFACES
    ]
    if not bad:
        return verdict
    evidence = tuple(
        Evidence(f"nodes/{node.node}.json", 1, f"{node.interface.name} is {node.interface.state}")
        for node in bad
        if node.interface is not None
    )
    states = {node.interface.state for node in bad if node.interface is not None}
    everywhere = len(bad) == len(looked) and len(looked) > 1
    name = "comm-network-fabric"
    if everywhere and states == {"missing"}:
        name = "comm-interface-misconfig"
    alone = bad[0].node if len(bad) == 1 else None
    return replace(
        verdict,
        cause=name,
        rule="node-interface-down",
        transient=True if alone else CAUSES[name].transient,
        node=alone,
        evidence=(*verdict.evidence, *evidence[:3]),
        remedy="",
    )


def slurm_state(case: Case) -> Evidence:
    facts = case.facts
    code = "" if facts.exit_code is None else f" ExitCode={facts.exit_code[0]}:{facts.exit_code[1]}"
    return Evidence("slurm", 1, f"State={facts.slurm_state or 'unknown'}{code}")
