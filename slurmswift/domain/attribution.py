"""Finds who failed first: the rank and the node that a cause belongs to."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Iterable, Optional, Tuple

from slurmswift.domain.evidence import Case, Evidence, Verdict, evidence_of
from slurmswift.domain.findings import Finding
from slurmswift.domain.rule import Role

# What launchers say about the rank that they saw fail first.
_FIRST_FAILED = (
    "torchrun-rank-failed",
    "torchrun-rank-killed",
    "spawned-rank-failed",
    "deepspeed-rank-failed",
)
_LAUNCHERS = ("torchrun-rank-failed", "torchrun-rank-killed", "torchrun-table")
# Whoever reports these waited for somebody else: the reporter is not the culprit.
_WAITED = ("nccl-watchdog", "gloo-timed-out", "socket-timeout", "rendezvous-clients-missing")

# Causes that a node or Slurm has, and not one process.
_NO_RANKS_OWN = ("hw-node", "sched-", "comm-", "config-port")
_TOLD_FROM_OUTSIDE = ("srun: ", "NVRM: ")
_KERNEL = "kernel-oom"


def attribute(case: Case, verdict: Verdict) -> Verdict:
    """Fill in the rank and node of a verdict as far as logs and records tell."""
    finding = verdict.finding
    if finding is None:
        return replace(verdict, node=verdict.node or _node_of_rank(case, verdict.rank))
    if finding.rule.role is Role.ENDING:
        # One that each node tells of is none of theirs.
        nodes = {found.node for found in case.of_rules(finding.rule.id)}
        return replace(verdict, node=verdict.node or (finding.node if len(nodes) == 1 else None))
    if finding.rule.id in _WAITED:
        return _with_culprit(case, verdict)
    # Whoever lost a peer is not the one that ended.
    seen_alone = finding.rule.role is Role.CONSEQUENCE and finding.cause != "storage-full"
    rank = verdict.rank
    if rank is None and not seen_alone:
        rank = _rank(case, finding)
    node = verdict.node or _node(case, finding, rank, seen_alone=seen_alone)
    return replace(verdict, rank=rank, node=node, evidence=_confirmed(case, verdict, rank))


def _with_culprit(case: Case, verdict: Verdict) -> Verdict:
    """A launcher had to kill the hung rank: it is the one that never answered."""
    waiting = {found.rank for found in case.findings if found.rule.id in _WAITED}
    culprits = {}
    for forced in case.of_rules("torchrun-forced-kill"):
        rank = _rank_of_pid(case, forced)
        if rank is not None and rank not in waiting:
            culprits[rank] = forced
    # What the watchdog's own report names: the rank that never entered the collective.
    for found in case.of_rules("desync-straggler"):
        if not culprits and found.rank is not None:
            culprits[found.rank] = found
    owner = case.silent_owner()
    if not culprits and owner is not None:
        return replace(verdict, rank=owner.rank, node=owner.node or verdict.node)
    if len(culprits) != 1:
        return verdict
    rank, forced = next(iter(culprits.items()))
    return replace(
        verdict,
        rank=rank,
        node=verdict.node
        or _node_of_rank(case, rank)
        or _node_of_task(case, forced)
        or forced.node,
        evidence=(*verdict.evidence, evidence_of(forced)),
    )


def _rank(case: Case, finding: Finding) -> Optional[int]:
    """Return the global rank: from the line, its process, its cause's other lines, the launcher."""
    own = _own_rank(case, finding)
    if own is not None:
        return own
    for other in case.findings:
        if other.cause == finding.cause and other is not finding:
            rank = _own_rank(case, other)
            if rank is not None:
                return rank
    return _rank_by_launcher(case, finding)


def _own_rank(case: Case, finding: Finding) -> Optional[int]:
    if finding.rank is not None:
        return finding.rank
    by_pid = _rank_of_pid(case, finding)
    if by_pid is not None:
        return by_pid
    if finding.local_rank is not None:
        return _rank_of_local(case, finding)
    return finding.task if finding.task is not None and _one_task_a_rank(case) else None


def _rank_of_pid(case: Case, finding: Finding) -> Optional[int]:
    """Find a process again in torchrun's table, NCCL's greeting or an agent's record."""
    if finding.pid is None:
        return None
    for found in case.of_rules("torchrun-table", "nccl-rank-of-process"):
        # Nodes have process ids of their own, and the same ones.
        by_nccl = found.rule.id == "nccl-rank-of-process" and found.node == finding.node
        by_table = found.rule.id == "torchrun-table" and _same_writer(found, finding)
        if found.pid == finding.pid and (by_nccl or by_table) and found.rank is not None:
            return found.rank
    if finding.rule.id == _KERNEL:
        return _rank_of_killed(case, finding)
    node = _node_of_task(case, finding)
    ranks = {
        rank.rank
        for record in case.facts.node_records
        for rank in record.ranks
        if rank.pid == finding.pid and node in (None, record.node)
    }
    return ranks.pop() if len(ranks) == 1 else None


def _rank_of_killed(case: Case, finding: Finding) -> Optional[int]:
    """The kernel knows processes alone, and writes a log of its own: a launcher knows the rank."""
    ranks = {
        found.rank
        for found in case.of_rules("torchrun-table")
        if found.pid == finding.pid and finding.node in (None, found.node)
    }
    return ranks.pop() if len(ranks) == 1 else None


def _same_writer(one: Finding, other: Finding) -> bool:
    """Whether one agent's launcher or ranks wrote both: the same log, the same srun task."""
    return one.log == other.log and one.line.task == other.line.task


def _rank_of_local(case: Case, finding: Finding) -> Optional[int]:
    """Turn a local rank into a global one: by the node's record, or where there is one node."""
    node = finding.node or _node_of_task(case, finding)
    for record in case.facts.node_records:
        if record.node == node or len(case.facts.node_records) == 1:
            for rank in record.ranks:
                if rank.local_rank == finding.local_rank:
                    return rank.rank
    return finding.local_rank if _one_node(case) else None


def _one_node(case: Case) -> bool:
    if case.facts.nodes:
        return len(case.facts.nodes) == 1
    logs = {found.log for found in case.findings}
    hosts = {found.node for found in case.findings if found.node}
    tasks = {found.task for found in case.findings if found.task is not None}
    return len(logs) <= 1 and len(hosts) <= 1 and tasks <= {0}


def _one_task_a_rank(case: Case) -> bool:
    """Whether srun started the ranks themselves, so that its task numbers are ranks."""
    return not case.of_rules(*_LAUNCHERS, "torchrun-closing", "torchrun-signalled") and (
        not case.facts.of_a_run
    )


def _rank_by_launcher(case: Case, finding: Finding) -> Optional[int]:
    """The rank that the launcher saw fail first, when the failure's own lines do not say."""
    for found in case.of_rules(*_FIRST_FAILED):
        rank = _own_rank(case, found) if _same_writer(found, finding) else None
        if rank is not None:
            return rank
    if _one_task_a_rank(case):
        exits = _first_exit(case)
        if exits is not None:
            return exits.task
        return 0 if _spoke_alone(case, finding) else None
    return None


def _spoke_alone(case: Case, finding: Finding) -> bool:
    """Whether one process wrote the whole log: nothing in it names a rank, a task or a device."""
    if finding.rule.role is not Role.ROOT or finding.cause.startswith(_NO_RANKS_OWN):
        return False
    if finding.rule.id == _KERNEL or finding.line.host:
        return False
    if any(word in finding.line.shown for word in _TOLD_FROM_OUTSIDE):
        return False
    named = any(
        (found.rank, found.task, found.local_rank) != (None, None, None) or found.line.label
        for found in case.findings
    )
    return not named and len({found.log for found in case.findings}) == 1


def _first_exit(case: Case) -> Optional[Finding]:
    """Return srun's word about the first task that ended by itself."""
    for found in case.of_rules("slurm-task-exit", "slurm-task-oom"):
        if ": Terminated" not in found.line.shown:
            return found
    return None


def _node(case: Case, finding: Finding, rank: Optional[int], *, seen_alone: bool) -> Optional[str]:
    if seen_alone:
        return _node_of_rank(case, rank)
    for found in _alike(case, finding):
        node = _known(case, found.node) or _node_of_task(case, found)
        if node is not None:
            return node
    by_rank = _node_of_rank(case, rank)
    if by_rank is not None:
        return by_rank
    for found in case.of_rules("torchrun-table"):
        if found.rank == rank and rank is not None and found.node is not None:
            return found.node
    exits = _first_exit(case)
    if exits is None or case.facts.of_a_run:
        return None
    return exits.node


def _alike(case: Case, finding: Finding) -> Iterable[Finding]:
    """The finding, then the others of its cause on the same rank or without one."""
    yield finding
    for other in case.findings:
        if other.cause == finding.cause and other is not finding and other.rule.role is Role.ROOT:
            yield other


def _known(case: Case, host: Optional[str]) -> Optional[str]:
    """Return the host by the name that Slurm uses for it; an unknown one is no node of the job."""
    nodes = case.facts.nodes
    if host is None or not nodes:
        return host
    for node in nodes:
        if host == node or host.split(".")[0] == node.split(".")[0]:
            return node
    return None


def _node_of_task(case: Case, finding: Finding) -> Optional[str]:
    """Slurm's label is the position in the job's nodes where one agent runs on each."""
    nodes = case.facts.nodes
    task = finding.line.task
    return nodes[task] if task is not None and task < len(nodes) else None


def _node_of_rank(case: Case, rank: Optional[int]) -> Optional[str]:
    nodes: Dict[int, str] = {
        end.rank: record.node for record in case.facts.node_records for end in record.ranks
    }
    return nodes.get(rank) if rank is not None else None


def _confirmed(case: Case, verdict: Verdict, rank: Optional[int]) -> Tuple[Evidence, ...]:
    """Add the launcher's word on the rank's end."""
    confirming = [
        evidence_of(found)
        for found in case.of_rules("torchrun-table")
        if rank is not None and found.rank == rank
    ]
    return (*verdict.evidence, *confirming[:1])
