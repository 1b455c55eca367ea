"""The steps of a diagnosis, in their order: the first that concludes something decides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import FrozenSet, Optional, Tuple

from slurmswift.domain.causes import CAUSES
from slurmswift.domain.evidence import (
    ENDED_BY_SLURM,
    Case,
    Step,
    Verdict,
    earliest,
    evidence_of,
)
from slurmswift.domain.findings import FAILING, Finding
from slurmswift.domain.preflight_verdict import preflight_checked
from slurmswift.domain.record_verdicts import (
    SIGKILL,
    died_by_signal,
    died_ranks,
    fenced,
    interface_down,
    left_when_asked,
    never_launched,
    node_failed,
    own_bug,
    preflight_failed,
    rank_evidence,
    setup_failed,
    slurm_state,
    with_interface,
)
from slurmswift.domain.rule import Role

# Peers lost for so long, or reported so often, before the cancel: the cancel came of that.
_LONG_BEFORE_SECONDS = 60.0
_OFTEN = 3
# How srun names the ends that a process does not choose. Killed and Terminated: srun itself does.
_CRASHES = ("Segmentation fault", "Aborted", "Bus error", "Illegal instruction")


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
        if finding.status == -SIGKILL
    ]
    evidence = (slurm_state(case), *(evidence_of(finding) for finding in killed[:1]))
    cause = CAUSES["mem-host-oom"]
    verdict = Verdict(cause.name, "slurm-state-oom", cause.transient, evidence=evidence)
    if killed:
        return replace(verdict, finding=killed[0])
    died = died_by_signal(case, (SIGKILL,))
    if len(died) == 1:
        node, rank = died[0]
        return replace(
            verdict,
            rank=rank.rank,
            node=node.node,
            evidence=(*evidence, rank_evidence(node, rank)),
        )
    return verdict


def suspects(case: Case) -> Optional[Verdict]:
    """The earliest time-out, refused connection or killed rank, where no root explains it."""
    first = earliest(case.of_role(Role.SUSPECT))
    if first is None:
        return None
    verdict = _ids_awaited(case, first) or _zero_before(case, first) or _met_alone(case, first)
    return with_interface(case, verdict or Verdict.of(first))


def _ids_awaited(case: Case, first: Finding) -> Optional[Verdict]:
    """Ranks waited for NCCL's id while rank 0 prepared data: slow, and not lost."""
    busy = case.of_rules("rank-zero-preprocessing")
    if first.rule.id != "nccl-id-not-received" or not busy:
        return None
    cause = CAUSES["config-timeout-too-short"]
    return replace(
        Verdict.of(first),
        cause=cause.name,
        transient=cause.transient,
        evidence=(evidence_of(first), evidence_of(busy[-1])),
        remedy="",
    )


def _zero_before(case: Case, first: Finding) -> Optional[Verdict]:
    zero = case.of_rules("loss-zero")
    if first.rule.id != "nccl-watchdog" or not zero or zero[0].place >= first.place:
        return None
    return replace(
        Verdict.of(first),
        transient=False,
        evidence=(evidence_of(first), evidence_of(zero[0])),
        remedy="The loss had become exactly 0.0 before, which is how NaN is logged: the "
        "numbers were broken and the time-out came after. Look at the data and the precision "
        "of those steps (logging_nan_inf_filter false shows the NaN) and go back to a "
        "checkpoint before them; another start goes the same way",
    )


def _met_alone(case: Case, first: Finding) -> Optional[Verdict]:
    """One node of many could not connect: what all share would have stopped the others too."""
    if first.rule.id != "nccl-connect-failed" or first.node is None:
        return None
    complaints = case.of_rules(first.rule.id)
    exits = case.of_rules("slurm-task-exit")
    places = {found.rank if found.task is None else found.task for found in complaints}
    places |= {found.task for found in exits if found.node == first.node}
    # Place 0 is the first node, which every other connects to: it is alone in what it does.
    elsewhere = bool(places - {None}) and 0 not in places
    if not elsewhere or {found.node for found in complaints} != {first.node}:
        return None
    return replace(
        Verdict.of(first),
        transient=True,
        remedy="Only this node could not connect: resume without it (the watcher leaves it out), "
        "and ask for it to be looked at: its route, its firewall, its interface. If the next "
        "attempt fails the same way from another node, it is the address or the settings",
    )


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
        return Verdict(name, "slurm-state", CAUSES[name].transient, evidence=(slurm_state(case),))
    verdict = Verdict.of(line)
    if line.cause == name:
        return verdict
    return replace(
        verdict,
        cause=name,
        transient=CAUSES[name].transient,
        evidence=(*verdict.evidence, slurm_state(case)),
        remedy="",
    )


def _lost_long_before(case: Case, ending: Optional[Finding]) -> bool:
    """Whether peers were lost so long before the end that somebody ended what had failed."""
    lost = case.of_role(Role.CONSEQUENCE)
    if ending is None or case.facts.state not in ("", "CANCELLED"):
        return False
    before = [found for found in lost if found.place < ending.place and found.log == ending.log]
    if not before:
        return False
    first, end = before[0].line.time, ending.line.time
    if first is not None and end is not None:
        return end - first >= _LONG_BEFORE_SECONDS
    # Each rank says once that its peers closed; who says it again and again was left waiting.
    return max(Counter(found.line.text for found in before).values()) >= _OFTEN


def crashed_tasks(case: Case) -> Optional[Verdict]:
    """A task that srun saw crash, while nothing says why: the others lost it."""
    crashed = [
        found
        for found in case.of_rules("slurm-task-exit")
        if any(f": {crash}" in found.line.shown for crash in _CRASHES)
    ]
    if not crashed:
        return None
    cause = CAUSES["comm-remote-peer-lost"]
    return Verdict(
        cause.name,
        "task-crashed",
        cause.transient,
        evidence=(evidence_of(crashed[0]),),
        remedy="A task crashed and says no more: keep a core file (ulimit -c unlimited), set "
        "PYTHONFAULTHANDLER=1 for the next attempt, and look in dmesg on its node",
        finding=crashed[0],
    )


def consequences(case: Case) -> Optional[Verdict]:
    """Lost peers, cut writes: somebody else's end, whose own reason is not here."""
    found = case.of_role(Role.CONSEQUENCE)
    first = earliest(found)
    if first is None:
        return None
    verdict = Verdict.of(first)
    if first.cause != "comm-remote-peer-lost":
        return verdict
    if first.rule.id == "rendezvous-host-lost" and len(case.of_rules(first.rule.id)) < _OFTEN:
        # A launcher that ended after a rank's own failure leaves a line or two of these too.
        verdict = replace(verdict, transient=None, remedy="")
    return with_interface(case, _with_silent_culprit(case, verdict))


def _with_silent_culprit(case: Case, verdict: Verdict) -> Verdict:
    """Name the rank that a launcher saw fail without a word, while the others lost it."""
    complained = {found.rank for found in case.of_role(Role.CONSEQUENCE)}
    quiet = [
        found
        for found in case.of_rules("torchrun-table")
        if found.status not in (None, 0, -15) and found.rank not in complained
    ]
    if len({found.rank for found in quiet}) != 1 or quiet[0].rank is None:
        owner = case.silent_owner()
        return verdict if owner is None else replace(verdict, rank=owner.rank, node=owner.node)
    return replace(
        verdict,
        rank=quiet[0].rank,
        node=quiet[0].node,
        evidence=(evidence_of(quiet[0]), *verdict.evidence),
    )


STEPS: Tuple[Step, ...] = (
    succeeded,
    fenced,
    own_bug,
    left_when_asked,
    preflight_checked,
    roots,
    out_of_memory,
    node_failed,
    setup_failed,
    preflight_failed,
    suspects,
    ended_from_outside,
    died_ranks,
    crashed_tasks,
    consequences,
    interface_down,
    never_launched,
)
