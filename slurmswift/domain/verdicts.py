"""The steps of a diagnosis, in their order: the first that concludes something decides."""

from __future__ import annotations

from dataclasses import replace
from typing import FrozenSet, Optional, Tuple

from slurmswift.domain.causes import CAUSES
from slurmswift.domain.evidence import (
    ENDED_BY_SLURM,
    Case,
    Evidence,
    Step,
    Verdict,
    earliest,
    evidence_of,
    shown,
)
from slurmswift.domain.findings import FAILING, Finding
from slurmswift.domain.records import NodeRecord, RankEnd
from slurmswift.domain.rule import Role

# Signals that end a process against its will; 15 is how everybody ends everybody.
_FATAL_SIGNALS = (4, 6, 7, 8, 9, 11)
# A loopback interface and many virtual ones are "unknown" when they are well.
_HEALTHY_INTERFACES = ("up", "unknown")
# So many seconds or lines of lost peers before the cancel: then the cancel was the consequence.
_LONG_BEFORE_SECONDS = 60.0
_OFTEN = 3


def succeeded(case: Case) -> Optional[Verdict]:
    """Nothing failed; for a run of ours only its own record can say so."""
    facts = case.facts
    record = facts.exit_record
    if record is not None:
        done = record.status == 0 and facts.state in ("", "COMPLETED")
    elif facts.of_a_run:
        done = False
    elif facts.state:
        done = facts.state == "COMPLETED" and facts.exit_code in (None, (0, 0))
    else:
        done = facts.exit_code == (0, 0) or (facts.exit_code is None and not _looks_failed(case))
    return Verdict("none", "nothing-failed", None) if done else None


def _looks_failed(case: Case) -> bool:
    return bool(case.endings) or any(
        (found.rule.role in FAILING and not found.survived) or (found.status or 0) != 0
        for found in case.findings
    )


def fenced(case: Case) -> Optional[Verdict]:
    """The agents ended the ranks: another attempt has the right to train, or the run was stopped."""
    record = case.facts.exit_record
    fences = [node for node in case.facts.node_records if node.fenced]
    if (record is None or record.cause_hint != "fenced") and not fences:
        return None
    evidence = [
        Evidence(f"nodes/{node.node}.json", 1, shown(f"fenced: {node.fenced}")) for node in fences
    ]
    if record is not None and record.message:
        evidence.append(Evidence("exit.json", 1, shown(record.message)))
    return Verdict(
        "sched-cancelled",
        "fenced",
        None,
        evidence=tuple(evidence),
        remedy="slurmswift ended this attempt itself, since it had lost the right to train (the run "
        "was stopped, or another attempt of it had started): nothing to do for this one",
    )


def roots(case: Case) -> Optional[Verdict]:
    """The earliest message that is a cause by itself."""
    found = {finding.rule.id for finding in case.findings} | _said_by_slurm(case)
    candidates = [
        finding
        for finding in case.of_role(Role.ROOT)
        if not found.intersection(finding.rule.yields_to)
    ]
    if case.facts.state == "NODE_FAIL":
        # What programs say on or beside a dying node is its consequence.
        candidates = [finding for finding in candidates if finding.cause.startswith("hw-")]
    first = earliest(candidates)
    return None if first is None else Verdict.of(first)


def _said_by_slurm(case: Case) -> FrozenSet[str]:
    """Slurm's state stands for the line that it may not have printed."""
    if case.facts.state == "OUT_OF_MEMORY" or case.facts.exit_code == (0, 125):
        return frozenset({"slurm-oom"})
    return frozenset({"slurm-node-failure"} if case.facts.state == "NODE_FAIL" else ())


def out_of_memory(case: Case) -> Optional[Verdict]:
    """Slurm counted an OOM kill, which 22.05 prints into no log of a batch job's step."""
    if "slurm-oom" not in _said_by_slurm(case):
        return None
    killed = [
        finding
        for finding in case.of_rules("torchrun-rank-killed", "torchrun-table")
        if finding.status == -9
    ]
    evidence = (_state(case), *(evidence_of(finding) for finding in killed[:1]))
    cause = CAUSES["mem-host-oom"]
    verdict = Verdict(cause.name, "slurm-state-oom", cause.transient, evidence=evidence)
    if killed:
        return replace(verdict, finding=killed[0])
    died = _died_by_signal(case, (9,))
    if len(died) == 1:
        node, rank = died[0]
        return replace(
            verdict,
            rank=rank.rank,
            node=node.node,
            evidence=(*evidence, _rank_evidence(node, rank)),
        )
    return verdict


def node_failed(case: Case) -> Optional[Verdict]:
    """A node that Slurm declared down, or that left no record when the others did."""
    facts = case.facts
    record = facts.exit_record
    silent = record.nodes_silent if record is not None else ()
    lost = record is not None and record.cause_hint == "node-lost"
    if facts.state != "NODE_FAIL" and facts.state != "BOOT_FAIL" and not lost:
        return None
    evidence = [_state(case)] if facts.state in ("NODE_FAIL", "BOOT_FAIL") else []
    evidence += _silent_evidence(silent)
    node = silent[0] if len(silent) == 1 else None
    if lost and facts.state != "NODE_FAIL" and _never_started(case, silent):
        cause = CAUSES["sched-launch-failure"]
        return Verdict(cause.name, "node-never-started", True, node=node, evidence=tuple(evidence))
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


def suspects(case: Case) -> Optional[Verdict]:
    """The earliest time-out, refused connection or killed rank, where no root explains it."""
    first = earliest(case.of_role(Role.SUSPECT))
    if first is None:
        return None
    verdict = Verdict.of(first)
    if first.rule.id == "nccl-id-not-received":
        busy = case.of_rules("rank-zero-preprocessing")
        if busy:
            cause = CAUSES["config-timeout-too-short"]
            evidence = (*verdict.evidence, evidence_of(busy[-1]))
            verdict = replace(
                verdict, cause=cause.name, transient=cause.transient, evidence=evidence, remedy=""
            )
    return _with_interface(case, verdict)


def ended_from_outside(case: Case) -> Optional[Verdict]:
    """A time limit, a preemption, a cancel: by Slurm's state, else by the line."""
    by_state = ENDED_BY_SLURM.get(case.facts.state)
    first = earliest(case.endings)
    if by_state is None and first is None:
        return None
    if _lost_long_before(case, first):
        return None
    name = by_state or (first.cause if first is not None else "")
    if name == "sched-cancelled":
        # Slurm says CANCELLED in its state for ends that its own line gives a reason for.
        stated = earliest(end for end in case.endings if end.cause != name)
        name = stated.cause if stated is not None else name
    line = earliest(end for end in case.endings if end.cause == name) or first
    if line is None:
        return Verdict(name, "slurm-state", CAUSES[name].transient, evidence=(_state(case),))
    verdict = Verdict.of(line)
    if line.cause == name:
        return verdict
    return replace(
        verdict,
        cause=name,
        transient=CAUSES[name].transient,
        evidence=(*verdict.evidence, _state(case)),
        remedy="",
    )


def _lost_long_before(case: Case, ending: Optional[Finding]) -> bool:
    """Whether peers were lost so long before the end that somebody ended what had failed."""
    lost = case.of_role(Role.CONSEQUENCE)
    if not lost or ending is None:
        return bool(lost) and not case.endings
    before = [found for found in lost if found.place < ending.place and found.log == ending.log]
    if not before:
        return False
    first, end = before[0].line.time, ending.line.time
    if first is not None and end is not None:
        return end - first >= _LONG_BEFORE_SECONDS
    return len(before) >= _OFTEN


def died_ranks(case: Case) -> Optional[Verdict]:
    """A rank whose end its agent saw: killed or crashed while its launcher lived."""
    died = _died_by_signal(case, _FATAL_SIGNALS)
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
        evidence=tuple(_rank_evidence(node, one) for _, one in died[:3])
        + tuple(evidence_of(found) for found in case.of_role(Role.CONSEQUENCE)[:1]),
        remedy=f"Rank {rank.rank} ended by signal {rank.signal} and nothing says who sent it: look in "
        f"dmesg on {node.node} for the OOM killer and in sacct for OUT_OF_MEMORY",
    )


def _died_by_signal(case: Case, signals: Tuple[int, ...]) -> Tuple[Tuple[NodeRecord, RankEnd], ...]:
    """Return the ranks that a signal ended, where their launcher was not itself being ended."""
    forced = {found.pid for found in case.of_rules("torchrun-forced-kill")}
    return tuple(
        (node, rank)
        for node in case.facts.node_records
        if node.launcher.signal is None and not node.fenced
        for rank in node.ranks
        if rank.signal in signals and rank.pid not in forced
    )


def _rank_evidence(node: NodeRecord, rank: RankEnd) -> Evidence:
    end = f"signal {rank.signal}" if rank.signal is not None else f"status {rank.status}"
    return Evidence(f"nodes/{node.node}.json", 1, f"rank {rank.rank} ended with {end}")


def consequences(case: Case) -> Optional[Verdict]:
    """Lost peers, cut writes: somebody else's end, whose own reason is not here."""
    found = case.of_role(Role.CONSEQUENCE)
    first = earliest(found)
    if first is None:
        return None
    verdict = Verdict.of(first)
    if first.cause != "comm-remote-peer-lost":
        return verdict
    return _with_interface(case, _with_silent_culprit(case, verdict))


def _with_silent_culprit(case: Case, verdict: Verdict) -> Verdict:
    """Name the rank that a launcher saw fail without a word, while the others lost it."""
    complained = {found.rank for found in case.of_role(Role.CONSEQUENCE)}
    quiet = [
        found
        for found in case.of_rules("torchrun-table")
        if found.status not in (None, 0, -15) and found.rank not in complained
    ]
    if len({found.rank for found in quiet}) != 1 or quiet[0].rank is None:
        return verdict
    return replace(
        verdict,
        rank=quiet[0].rank,
        node=quiet[0].node,
        evidence=(evidence_of(quiet[0]), *verdict.evidence),
    )


def never_launched(case: Case) -> Optional[Verdict]:
    """A job of a run that ended and left no attempt: its script never ran."""
    if not case.facts.left_no_attempt:
        return None
    return Verdict("sched-launch-failure", "left-no-attempt", None, evidence=(_state(case),))


def interface_down(case: Case) -> Optional[Verdict]:
    """Nothing in the logs, but the training's network is down on a node."""
    cause = CAUSES["comm-network-fabric"]
    verdict = Verdict(cause.name, "", cause.transient)
    noted = _with_interface(case, verdict)
    return None if noted is verdict else noted


def _with_interface(case: Case, verdict: Verdict) -> Verdict:
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


def _state(case: Case) -> Evidence:
    facts = case.facts
    code = "" if facts.exit_code is None else f" ExitCode={facts.exit_code[0]}:{facts.exit_code[1]}"
    return Evidence("slurm", 1, f"State={facts.slurm_state or 'unknown'}{code}")


STEPS: Tuple[Step, ...] = (
    succeeded,
    fenced,
    roots,
    out_of_memory,
    node_failed,
    setup_failed,
    suspects,
    ended_from_outside,
    died_ranks,
    consequences,
    interface_down,
    never_launched,
)
