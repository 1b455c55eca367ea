"""What docs/reference/recipe.md is printed from: every key of a recipe, and every sbatch option."""  # noqa: INP001

from __future__ import annotations

from dataclasses import dataclass

from slurmswift.domain.recipe import FORMATS, FRAMEWORKS, RESUME_FLAG, Recipe, budget_names
from slurmswift.domain.sbatch_options import OPTIONS, SbatchOption
from slurmswift.domain.swift import FLAVOURS

NEEDED = "must be written"


@dataclass(frozen=True)
class Key:
    """One key by its dotted name; ``example`` is a value that a recipe can have."""

    name: str
    kind: str
    default: str
    meaning: str
    example: str


_BUDGETS = ", ".join(f"`{name}`" for name in budget_names())

KEYS = (
    Key("schema", "`1`", NEEDED, "The version of this page.", "1"),
    Key(
        "name",
        "letters, digits, `.`, `_`, `-`; at most 48",
        NEEDED,
        "A run's id and its job's name begin with it.",
        "qwen3-sft",
    ),
    Key(
        "extends",
        "a path or a list of paths",
        "none",
        "Recipes to start from, as seen from this file's folder. The later ones lie over the "
        "earlier, this file over all. Keys below keys are merged; lists and values replace.",
        "[base.yaml]",
    ),
    Key(
        "template",
        "a template's name, or a path with a slash or ending in `.j2`",
        "the framework's",
        "The script's text. Names are looked for in `templates/` beside the recipe, then here.",
        "torchrun",
    ),
    Key(
        "runs",
        "a folder; `~` is the home",
        "the profile's, `$SLURMSWIFT_RUNS`, or `slurmswift-runs` beside the recipe",
        "Where run directories are made. Every node must see it.",
        "/shared/ada/runs",
    ),
    Key("sbatch", "keys", "none", "sbatch's long options, see [below](#sbatch).", "{nodes: 2}"),
    Key(
        "environment.modules",
        "a list of words",
        "the profile's",
        "Loaded by `module load`, in this order, before the set-up.",
        "[cuda/12.4]",
    ),
    Key(
        "environment.setup",
        "lines of bash",
        "the profile's",
        "Sourced on the first node before anything else of the attempt; a failure ends it.",
        "source /opt/venv/bin/activate",
    ),
    Key(
        "environment.variables",
        "names and values",
        "the profile's, name by name",
        "Exported as they stand. Those of the rendezvous are slurmswift's.",
        "{NCCL_DEBUG: WARN}",
    ),
    Key(
        "environment.inherit",
        "`all`, `none`, or a list of names",
        "`all`",
        "What every attempt gets of the environment at the moment of `submit`.",
        "[HF_HOME]",
    ),
    Key(
        "launch.framework",
        ", ".join(f"`{name}`" for name in FRAMEWORKS),
        NEEDED,
        "How the ranks of a node are started, see [below](#frameworks).",
        "torchrun",
    ),
    Key(
        "launch.command",
        "a script's path or `-m module`; for `swift`, `megatron-swift` a sub-command; for `srun`, "
        "`command` any program, or a list of words",
        NEEDED,
        "What is started. A path is seen from the recipe's folder. No shell reads any of it.",
        "train.py",
    ),
    Key(
        "launch.arguments",
        "names and values, or a list of words",
        "none",
        "The training's own: `name: value` is `--name value`, without a value the bare flag, with "
        "a list several words. A list is passed on as it stands.",
        "{lr: 1e-4, packing: }",
    ),
    Key(
        "launch.python",
        "a program's name or a path",
        "`python` or `python3`, whichever the set-up brings",
        "The training's Python, 3.8 or newer; slurmswift's part in the job runs on it too.",
        "/opt/venv/bin/python",
    ),
    Key(
        "launch.processes_per_node",
        "1 to 1024",
        "the GPUs of a node; 1 for `command`",
        "The ranks of a node.",
        "8",
    ),
    Key(
        "checkpoints.directory",
        "a path",
        f"`{Recipe.checkpoints.directory}`",
        "Where `checkpoint-N` directories appear. Every node must see it.",
        '"{output_dir}"',
    ),
    Key(
        "checkpoints.format",
        ", ".join(f"`{name}`" for name in FORMATS),
        f"`{Recipe.checkpoints.format}`",
        "By which framework's rules a checkpoint is judged to be whole; `auto` knows them apart.",
        "auto",
    ),
    Key(
        "checkpoints.flag",
        "a flag, or nothing",
        f"`{RESUME_FLAG}`",
        "Comes last in the training's words, with the checkpoint to go on from. Left empty "
        "(`flag:`), the training finds it itself, or reads `$RESUME_FROM`.",
        "--resume",
    ),
    Key(
        "restart.max_restarts",
        "0 to 100000",
        f"`{Recipe.restart.max_restarts}`",
        "Restarts in a run's whole life.",
        "20",
    ),
    Key(
        "restart.budgets",
        "kinds of ends and 0 to 1000",
        "[causes](causes.md)",
        f"Restarts without a new checkpoint, by kind: {_BUDGETS}.",
        "{communication: 5}",
    ),
)


def _added(framework: str) -> str:
    words = FLAVOURS[framework].added
    return ", ".join(f"`{flag} {value}` ({why})" for flag, value, why in words)


# Each is a template of that name; the sentence says who starts the ranks.
ABOUT_FRAMEWORKS = {
    "torchrun": "`python -m torch.distributed.run`, once a node, at the attempt's rendezvous. "
    "[Example](../../examples/torchrun-cpu/recipe.yaml).",
    "swift": "ms-swift: `sft`, `pt` or `rlhf` under torchrun, without its `swift` wrapper. Where "
    f"the recipe does not say otherwise, {_added('swift')} are added. "
    "[Example](../../examples/ms-swift/README.md).",
    "megatron-swift": "ms-swift's `megatron pt`, `sft` or `rlhf` under torchrun, without its "
    "wrapper. Where the recipe does not say otherwise, "
    f"{_added('megatron-swift')} are added. A resume says `--mcore_model` or, unless `tuner_type` "
    "is `full`, `--mcore_adapter`, and `--finetune false`. "
    "[Example](../../examples/ms-swift/megatron-sft.yaml).",
    "srun": "One process per rank, without a launcher: each has RANK, LOCAL_RANK, WORLD_SIZE, "
    "LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and what srun sets (SLURM_PROCID, SLURM_LOCALID, "
    "SLURM_NTASKS). When one fails, the others of its node are ended. "
    "[Example](../../examples/srun-cpu/recipe.yaml).",
    "command": "A command line of your own, once a node, with NNODES, NODE_RANK, MASTER_ADDR, "
    "MASTER_PORT, NPROC_PER_NODE and RESUME_FROM. "
    "[Example](../../examples/command/recipe.yaml).",
}
_HEAD = """\
# Recipe

<!-- Printed by docs/generate.py from docs/recipe_keys.py: do not edit. -->

A YAML file. Values stay the text that was written: `account: 007` is `007`, `time: 24:00:00` a day.
`{output_dir}`, `{run_dir}` and `{run_id}` in a value are replaced; no variable is, and no shell
reads it.
What lies later wins: built in, profile, `extends`, the recipe, `--set KEY=VALUE`.
`slurmswift check RECIPE` tells everything that is wrong, with file and line.

| key | value | where it is not written | meaning | example |
|---|---|---|---|---|
"""


def recipe_page() -> str:
    """Return the page of all keys."""
    rows = [
        f"| `{key.name}` | {key.kind} | {key.default} | {key.meaning} | `{key.example}` |"
        for key in KEYS
    ]
    frameworks = [f"- **`{name}`**: {ABOUT_FRAMEWORKS[name]}" for name in FRAMEWORKS]
    parts = [_HEAD + "\n".join(rows), "\n## Frameworks\n", *frameworks, "\n## sbatch\n"]
    parts += ["Options as in `man sbatch`, with `_` for `-`. Flags are `true`; `false` takes"]
    parts += ["away what the profile asks for.\n", _options(), "\nNot in a recipe:\n", _refused()]
    return "\n".join(parts) + "\n"


def _options() -> str:
    kinds: dict[str, list[str]] = {}
    for option in _known():
        if not option.refused:
            kinds.setdefault(option.kind.value, []).append(f"`{option.key}`")
    rows = [f"| {kind} | {' '.join(names)} |" for kind, names in sorted(kinds.items())]
    return "\n".join(["| value | options |", "|---|---|", *rows])


def _refused() -> str:
    rows = [
        f"| `{option.key}` | {option.refused} | {option.instead} |"
        for option in _known()
        if option.refused
    ]
    return "\n".join(["| option | why | instead |", "|---|---|---|", *rows])


def _known() -> list[SbatchOption]:
    return sorted(set(OPTIONS.values()), key=lambda option: option.name)
