"""A recipe with nothing left to decide: every value, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from slurmswift.domain.arguments import Words
from slurmswift.domain.records import SCHEMA, Fields, JsonValue
from slurmswift.domain.sbatch_values import SbatchPairs
from slurmswift.domain.script_check import TemplateValues
from slurmswift.domain.variables import Variables
from slurmswift.errors import StateError


@dataclass(frozen=True)
class RestartPolicy:
    """How often the run may be put back in the queue."""

    max_restarts: int
    budgets: Tuple[Tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Plan:
    """All that the script, the watcher and a reader of the run need to know of the request."""

    run_id: str
    name: str
    run_dir: str
    output_dir: str
    cluster: str
    chdir: str
    sbatch: SbatchPairs  # in the order of the script's #SBATCH lines; None for a flag
    nodes: int  # the fewest that the run needs
    framework: str
    template: str
    python: str  # empty: the first that the set-up brings
    command: Words
    arguments: Words
    processes_per_node: int
    interface: str  # empty: the training chooses
    variables: Variables
    modules: Words
    setup: str
    checkpoint_directory: str
    checkpoint_format: str
    resume_flag: str  # empty: the training finds its checkpoint itself
    restart: RestartPolicy
    profile: str  # empty: none
    origins: Tuple[Tuple[str, str], ...]  # dotted key -> where its value was written

    def sbatch_value(self, option: str) -> Optional[str]:
        """Return an option's value by its long name; None where it is absent or a flag."""
        return dict(self.sbatch).get(option)

    def to_json(self) -> Dict[str, JsonValue]:
        """Return the content of plan.json."""
        return {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "name": self.name,
            "run_dir": self.run_dir,
            "output_dir": self.output_dir,
            "cluster": self.cluster,
            "profile": self.profile,
            "chdir": self.chdir,
            "nodes": self.nodes,
            "processes_per_node": self.processes_per_node,
            "sbatch": [[option, value] for option, value in self.sbatch],
            "framework": self.framework,
            "template": self.template,
            "python": self.python,
            "command": list(self.command),
            "arguments": list(self.arguments),
            "interface": self.interface,
            "variables": dict(self.variables),
            "modules": list(self.modules),
            "setup": self.setup,
            "checkpoint_directory": self.checkpoint_directory,
            "checkpoint_format": self.checkpoint_format,
            "resume_flag": self.resume_flag,
            "restart": {
                "max_restarts": self.restart.max_restarts,
                "budgets": dict(self.restart.budgets),
            },
            "origins": dict(self.origins),
        }

    def template_values(self) -> TemplateValues:
        """Return what a template may see."""
        return TemplateValues(
            texts={
                "run_id": self.run_id,
                "run_dir": self.run_dir,
                "output_dir": self.output_dir,
                "cluster": self.cluster,
                "framework": self.framework,
                "python": self.python,
                "interface": self.interface,
                "checkpoint_directory": self.checkpoint_directory,
                "resume_flag": self.resume_flag,
            },
            numbers={"nodes": self.nodes, "processes_per_node": self.processes_per_node},
            words={"command": self.command, "arguments": self.arguments},
            pairs={"sbatch": self.sbatch, "variables": self.variables},
        )

    @classmethod
    def from_json(cls, source: object, where: str = "plan.json") -> Plan:
        """Return the plan of a decoded plan.json; StateError where it is damaged."""
        fields = Fields.of_record(source, where)
        return cls(
            run_id=fields.get("run_id", str),
            name=fields.get("name", str),
            run_dir=fields.get("run_dir", str),
            output_dir=fields.get("output_dir", str),
            cluster=fields.get("cluster", str),
            chdir=fields.get("chdir", str),
            sbatch=_pairs(fields, where),
            nodes=fields.get("nodes", int),
            framework=fields.get("framework", str),
            template=fields.get("template", str),
            python=fields.get("python", str),
            command=fields.strings("command"),
            arguments=fields.strings("arguments"),
            processes_per_node=fields.get("processes_per_node", int),
            interface=fields.get("interface", str),
            variables=_texts(fields, "variables", where),
            modules=fields.strings("modules"),
            setup=fields.get("setup", str),
            checkpoint_directory=fields.get("checkpoint_directory", str),
            checkpoint_format=fields.get("checkpoint_format", str),
            resume_flag=fields.get("resume_flag", str),
            restart=_restart(fields, where),
            profile=fields.get("profile", str),
            origins=_texts(fields, "origins", where),
        )


def _pairs(fields: Fields, where: str) -> SbatchPairs:
    pairs: List[Tuple[str, Optional[str]]] = []
    for pair in fields.get("sbatch", list):
        if not isinstance(pair, list) or [type(pair[0]), len(pair)] != [str, 2]:
            raise StateError(f"{where}: damaged: 'sbatch' is not a list of pairs")
        if not isinstance(pair[1], (str, type(None))):
            raise StateError(f"{where}: damaged: the value of --{pair[0]} is not text")
        pairs.append((pair[0], pair[1]))
    return tuple(pairs)


def _texts(fields: Fields, key: str, where: str) -> Variables:
    body = fields.get(key, dict)
    if not all(isinstance(value, str) for value in body.values()):
        raise StateError(f"{where}: damaged: {key!r} is not text throughout")
    return tuple(body.items())


def _restart(fields: Fields, where: str) -> RestartPolicy:
    restart = fields.object("restart")
    if restart is None:
        raise StateError(f"{where}: damaged: 'restart' is missing")
    budgets = restart.get("budgets", dict)
    if not all(type(count) is int for count in budgets.values()):
        raise StateError(f"{where}: damaged: 'budgets' are not whole numbers")
    return RestartPolicy(restart.get("max_restarts", int), tuple(budgets.items()))
