"""What a user asks for: the recipe's keys as values, checked one by one (DESIGN.md 5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Dict, Optional, Tuple

from slurmswift.domain.arguments import Words, read_arguments, read_command, read_program, script_of
from slurmswift.domain.causes import CAUSES
from slurmswift.domain.environment import Inherit
from slurmswift.domain.placeholders import check_placeholders
from slurmswift.domain.policy import POLICY
from slurmswift.domain.sbatch_values import SbatchPairs, read_sbatch
from slurmswift.domain.schema import Place, Problems, Reader, Table, UnreadableError, flatten
from slurmswift.domain.schema_values import (
    a_folder,
    a_name,
    a_path,
    any_text,
    choice,
    one_line,
    variable_name,
    whole_number,
)
from slurmswift.domain.swift import FLAVOURS, read_swift_command, unread_file
from slurmswift.domain.variables import Variables, read_variables

FRAMEWORKS = ("torchrun", "swift", "megatron-swift", "srun", "command")
LATER_FRAMEWORKS = ("accelerate", "deepspeed", "mpi")
ANY_PROGRAM = frozenset({"srun", "command"})  # what they start need not be Python
ONE_A_NODE = frozenset({"command"})  # how many processes it starts is its own business
FORMATS = (
    *("auto", "megatron", "megatron-legacy", "megatron-swift", "dcp", "hf-fsdp", "accelerate"),
    *("hf-trainer", "hf-deepspeed", "deepspeed", "lightning", "flash", "generic"),
)
RESUME_FLAG = "--resume_from_checkpoint"
MAX_PROCESSES = 1024

_KEYS = (
    *("schema", "name", "template", "sbatch", "environment", "launch", "checkpoints", "restart"),
    *("runs", "extends"),  # files/recipe_tree.py has followed it by then
)
_LATER_KEYS = ("preflight", "hang", "notify", "check")
# Words of other tools, and keys written one level too high.
_HINTS = {
    "slurm": "write sbatch",
    "env": "write environment",
    "modules": "write it under environment",
    "variables": "write it under environment",
    "command": "write it under launch",
    "arguments": "write it under launch",
    "args": "write arguments under launch",
    "script": "write command under launch",
    **dict.fromkeys(("partition", "nodes", "time", "account", "qos"), "write it under sbatch"),
    **dict.fromkeys(("gpus_per_node", "mem", "cpus_per_task"), "write it under sbatch"),
}


@dataclass(frozen=True)
class Environment:
    """What the training starts in. None where a recipe leaves it to the profile."""

    modules: Optional[Words] = None
    setup: Optional[str] = None
    variables: Variables = ()
    inherit: Inherit = "all"


@dataclass(frozen=True)
class Launch:
    """What is started, by which launcher."""

    framework: str
    command: Words
    arguments: Words = ()
    python: Optional[str] = None
    processes_per_node: Optional[int] = None

    @property
    def script(self) -> Optional[str]:
        """The file that is started, as seen from the recipe's folder; None where it is none."""
        return script_of(self.command, any_program=self.framework in ANY_PROGRAM)


@dataclass(frozen=True)
class Checkpoints:
    """Where the training leaves checkpoints, and how it is told to go on from one."""

    directory: str = "{output_dir}"
    format: str = "auto"
    flag: Optional[str] = RESUME_FLAG  # None: the training finds its checkpoint itself


@dataclass(frozen=True)
class Restart:
    """How often a run may be put back in the queue."""

    max_restarts: int = 50
    budgets: Tuple[Tuple[str, int], ...] = ()  # a row of the policy, or a category -> restarts


@dataclass(frozen=True)
class Recipe:
    """A recipe whose every key was read; ``places`` says where each was written."""

    name: str
    launch: Launch
    template: Optional[str] = None
    sbatch: SbatchPairs = ()
    environment: Environment = Environment()
    checkpoints: Checkpoints = Checkpoints()
    restart: Restart = Restart()
    runs: Optional[str] = None
    places: Tuple[Tuple[str, Place], ...] = ()


def parse_recipe(tree: Table, problems: Problems) -> Recipe:
    """Return the recipe that a tree holds. Usable only where ``problems`` has no errors."""
    reader = Reader(tree, problems, keys=_KEYS, later=_LATER_KEYS, hints=_HINTS)
    require_schema(reader)
    name = reader.read("name", a_name)
    if not reader.given("name"):
        reader.missing("name", "write a name for the run: name: my-training")
    # The flag first: the arguments must not have it.
    checkpoints = _checkpoints(
        Reader(
            reader.table_of("checkpoints"),
            problems,
            path="checkpoints",
            keys=("directory", "format", "flag"),
        )
    )
    return Recipe(
        name=name or "",
        template=reader.read("template", a_path),
        sbatch=read_sbatch(reader.table_of("sbatch"), problems),
        environment=_environment(reader.table_of("environment"), problems),
        launch=_launch(reader, problems, flag=checkpoints.flag),
        checkpoints=checkpoints,
        restart=_restart(reader.table_of("restart"), problems),
        runs=reader.read("runs", a_folder),
        places=tuple(flatten(tree).items()),
    )


def require_schema(reader: Reader) -> None:
    """Note a schema number that is missing, or of another version than this one reads."""
    if not reader.given("schema"):
        reader.missing("schema", "write as the first line: schema: 1")
    reader.read("schema", _schema)


def _schema(text: str) -> None:
    if text != "1":
        raise UnreadableError(f"'{text}' is not a schema of this version", "write schema: 1")


def _environment(table: Table, problems: Problems) -> Environment:
    path = "environment"
    keys = ("modules", "setup", "variables", "inherit")
    reader = Reader(table, problems, path=path, keys=keys, later=("container",))
    return Environment(
        modules=reader.read_list("modules", one_line),
        setup=reader.read("setup", any_text),
        variables=read_variables(reader.table_of("variables"), problems),
        inherit=_inherit(reader),
    )


def _inherit(reader: Reader) -> Inherit:
    names = reader.read_list("inherit", one_line)
    if names is None:
        return "all"
    if names in (("all",), ("none",)):
        return names[0]
    return reader.read_list("inherit", variable_name) or "none"


def _launch(recipe: Reader, problems: Problems, *, flag: Optional[str]) -> Launch:
    path = "launch"
    keys = ("framework", "command", "arguments", "processes_per_node", "python")
    hints = {
        "args": "write arguments",
        "script": "write command",
        "nproc_per_node": "write processes_per_node",
    }
    reader = Reader(recipe.table_of(path), problems, path=path, keys=keys, hints=hints)
    for key, fix in (
        ("framework", f"write one of: {', '.join(FRAMEWORKS)}"),
        ("command", "write the script that is started: command: train.py"),
    ):
        if not reader.given(key):
            reader.missing(key, fix)
    framework = reader.read("framework", choice(FRAMEWORKS, LATER_FRAMEWORKS)) or ""
    if framework in ANY_PROGRAM:
        command = read_program(reader.table.get("command"), problems)
    elif framework in FLAVOURS:
        command = reader.read("command", partial(read_swift_command, framework=framework)) or ()
    else:
        command = reader.read("command", read_command) or ()
    arguments = read_arguments(reader.table.get("arguments"), problems, flag=flag)
    if framework in FLAVOURS:
        _refuse_unread(reader, arguments, problems, wrapper=FLAVOURS[framework].wrapper)
    return Launch(
        framework=framework,
        command=command,
        arguments=arguments,
        python=reader.read("python", a_path),
        processes_per_node=reader.read("processes_per_node", whole_number(1, MAX_PROCESSES)),
    )


def _refuse_unread(reader: Reader, arguments: Words, problems: Problems, *, wrapper: str) -> None:
    entry, unread = reader.table.get("arguments"), unread_file(arguments)
    if entry is not None and unread:
        problems.add(
            entry.place,
            "launch.arguments",
            f"{unread} would be read by the {wrapper} wrapper, which is not started",
            "write what it holds under launch.arguments",
        )


def _checkpoints(reader: Reader) -> Checkpoints:
    built_in = Checkpoints()
    directory = reader.read("directory", _directory)
    entry = reader.table.get("flag")
    flag = built_in.flag if entry is None else _flag(reader)
    return Checkpoints(
        directory=directory or built_in.directory,
        format=reader.read("format", choice(FORMATS)) or built_in.format,
        flag=flag,
    )


def _flag(reader: Reader) -> Optional[str]:
    """Return the resume flag; written empty (``flag:``) it means that the training needs none."""
    entry = reader.table.get("flag")
    node = None if entry is None else entry.value
    if getattr(node, "is_null", False):
        return None
    return reader.read("flag", _flag_text)


def _flag_text(text: str) -> str:
    if not text.startswith("-") or any(character.isspace() for character in text):
        raise UnreadableError(
            f"{text!r} is not a flag",
            "write it like --resume, or nothing if the training needs none",
        )
    return one_line(text)


def _directory(text: str) -> str:
    return check_placeholders(a_path(text))


def _restart(table: Table, problems: Problems) -> Restart:
    path = "restart"
    later = ("in_allocation", "spare_nodes", "max_lost_gpu_hours", "escalate")
    reader = Reader(table, problems, path=path, keys=("max_restarts", "budgets"), later=later)
    most = reader.read("max_restarts", whole_number(0, 100_000))
    rows = budget_names()
    budgets = Reader(reader.table_of("budgets"), problems, path=f"{path}.budgets", keys=tuple(rows))
    read = {
        rows[entry.key]: budgets.read(entry.key, whole_number(0, 1000))
        for entry in budgets.table.entries
        if entry.key in rows
    }
    return Restart(
        max_restarts=Restart().max_restarts if most is None else most,
        budgets=tuple((name, count) for name, count in read.items() if count is not None),
    )


def budget_names() -> Dict[str, str]:
    """Return the keys that ``restart.budgets`` knows, and what the policy calls each."""
    rows = [row.name for row in POLICY if row.action == "resume"]
    resumed = [
        cause.category
        for cause in CAUSES.values()
        if any(row.matches(cause.name) for row in POLICY if row.action == "resume")
    ]
    return {name.replace(" ", "_"): name for name in (*rows, *resumed)}
