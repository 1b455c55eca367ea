"""The table of rules: every message that is known, in the order in which a line tries them."""

from __future__ import annotations

from typing import Dict, Tuple

from slurmswift.domain.rule import Role, Rule
from slurmswift.domain.rules_checkpoint import CHECKPOINT_RULES
from slurmswift.domain.rules_connection import CONNECTION_RULES
from slurmswift.domain.rules_data import DATA_RULES
from slurmswift.domain.rules_launcher import LAUNCHER_RULES
from slurmswift.domain.rules_machine import MACHINE_RULES
from slurmswift.domain.rules_peer import PEER_RULES
from slurmswift.domain.rules_slurm import SLURM_RULES
from slurmswift.domain.rules_training import EXCEPTION_RULE, TRAINING_RULES

# The first that matches a line has it: the particular before the general.
RULES: Tuple[Rule, ...] = (
    *SLURM_RULES,
    *LAUNCHER_RULES,
    *MACHINE_RULES,
    *CHECKPOINT_RULES,
    *DATA_RULES,
    *TRAINING_RULES,
    *CONNECTION_RULES,
    *PEER_RULES,
)

RULE_BY_ID: Dict[str, Rule] = {rule.id: rule for rule in (*RULES, EXCEPTION_RULE)}

# Each line that any rule knows holds one of these, so that all other lines cost a search, no more.
# Few and long-lived pieces of words: each costs one pass over the log.
GATES: Tuple[bytes, ...] = (
    b"rror",
    b"xception",
    b"Traceback (most",
    b"ailed",
    b"NCCL WARN",
    b"imed out",
    b"atchdog",
    b" signal",
    b"exitcode",
    b"return code",
    b"ut of memory",
    b"Xid",
    b"ncclCommInit",
    b"AF_INET",
    b"Unable to",
    b"KeyboardInterrupt",
    b"not found",
    b"No module named",
    b"t open file",
    b"Assertion `",
    b"No space left",
    b"quota exceeded",
    b"Cannot allocate",
    b"ndpoint",
    b"exit-on-missing",
    b"BadZipFile",
    b"access fault by",
    b"stopping training",
    b"retry count exceeded",
    b"No route to host",
    b"driver not loaded",
    b"this job is ",
    b"auto-requeue",
    b"t join collective",
    b"t finish collective",
    b"the lagging ranks that",
    b"std::bad_alloc",
    b"paths are missing",
    b"Cuda failure",
    b"MPI_ABORT",
)

# Common words that matter beside one rule's message alone: looked for once that rule has matched.
GATES_BESIDE: Dict[str, Tuple[bytes, ...]] = {
    "nccl-watchdog": (b"'loss': 0.0,",),
    "nccl-id-not-received": (b"Running tokenizer", b"Tokenizing"),
}

__all__ = ["EXCEPTION_RULE", "GATES", "GATES_BESIDE", "RULES", "RULE_BY_ID", "Role", "Rule"]
