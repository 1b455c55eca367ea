"""Decides what a recipe left open, and writes down where each value came from.

Precedence: built-in < profile < what the user's shell asks of sbatch < recipe < ``--set``.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Tuple

from slurmswift.domain.arguments import Words
from slurmswift.domain.placeholders import replace
from slurmswift.domain.plan import Plan, RestartPolicy
from slurmswift.domain.profile import Profile
from slurmswift.domain.quoting import filename_pattern
from slurmswift.domain.recipe import ONE_A_NODE, RESUME_FLAG, Launch, Recipe
from slurmswift.domain.sbatch_values import OFF, SbatchPairs, fewest_nodes, gpus_of_node
from slurmswift.domain.schema import Place, UnreadableError
from slurmswift.domain.schema_values import one_line
from slurmswift.domain.slurm_time import parse_slurm_time
from slurmswift.domain.swift import FLAVOURS, MEGATRON_SWIFT, megatron_resume_flag, with_added
from slurmswift.errors import Problem, RecipeError

BUILT_IN = "built-in"
SAVE_LEAD_SECONDS = 120  # how long before the time limit the training is asked to save
_SHELL_VARIABLES = {
    "account": "SBATCH_ACCOUNT",
    "partition": "SBATCH_PARTITION",
    "qos": "SBATCH_QOS",
    "clusters": "SLURM_CLUSTERS",
}


@dataclass(frozen=True)
class Run:
    """The run that a plan is for."""

    run_id: str
    run_dir: str
    recipe_dir: str
    cluster: str

    @property
    def output_dir(self) -> str:
        return posixpath.join(self.run_dir, "output")

    def fill(self, text: str) -> str:
        """Return a value with its placeholders replaced."""
        values = {"run_id": self.run_id, "run_dir": self.run_dir, "output_dir": self.output_dir}
        return replace(text, values)


def make_plan(
    recipe: Recipe,
    profile: Profile,
    *,
    run_id: str,
    run_dir: str,
    recipe_dir: str,
    cluster: str,
    asked_by_shell: Mapping[str, str] = {},
) -> Plan:
    """Return the plan of one run; RecipeError where something cannot be decided.

    ``asked_by_shell``: sbatch's options that the user's environment variables ask for.
    """
    run = Run(run_id, run_dir, recipe_dir, cluster)
    problems = (
        *undecided(recipe, profile),
        *_unfit_folder(run_dir),
        *_other_cluster(asked_by_shell, cluster),
    )
    if problems:
        raise RecipeError(problems)
    options = _merged(recipe, profile, asked_by_shell)
    asked = {option: value for option, (value, _) in options.items()}
    chdir = posixpath.normpath(posixpath.join(recipe_dir, run.fill(asked.pop("chdir", None) or "")))
    nodes = asked.pop("nodes", None) or "1"
    environment = recipe.environment
    return Plan(
        run_id=run_id,
        name=recipe.name,
        run_dir=run_dir,
        output_dir=run.output_dir,
        cluster=cluster,
        chdir=chdir,
        sbatch=(*_owned(run, asked, nodes=nodes, chdir=chdir), *_users(run, asked)),
        nodes=fewest_nodes(nodes),
        framework=recipe.launch.framework,
        template=_template(run, recipe),
        python=_python(run, recipe.launch.python or ""),
        command=_command(run, recipe.launch),
        arguments=_arguments(run, recipe.launch),
        processes_per_node=_processes(recipe, tuple(asked.items())) or 1,
        interface=profile.interface or "",
        variables=_variables(run, recipe, profile),
        modules=profile.modules if environment.modules is None else environment.modules,
        setup=profile.setup if environment.setup is None else environment.setup,
        checkpoint_directory=posixpath.normpath(
            posixpath.join(chdir, run.fill(recipe.checkpoints.directory))
        ),
        checkpoint_format=recipe.checkpoints.format,
        resume_flag=_resume_flag(recipe),
        restart=RestartPolicy(recipe.restart.max_restarts, recipe.restart.budgets),
        profile=profile.name,
        origins=_origins(recipe, profile, options),
    )


def undecided(recipe: Recipe, profile: Profile) -> Tuple[Problem, ...]:
    """Return what recipe and profile together leave open and slurmswift cannot choose."""
    options = {option: value for option, (value, _) in _merged(recipe, profile, {}).items()}
    told = not recipe.launch.framework or recipe.launch.framework in ONE_A_NODE
    if not told and _processes(recipe, tuple(options.items())) is None:
        place = dict(recipe.places).get("launch", Place("recipe"))
        return (
            Problem(
                f"{place}: launch.processes_per_node",
                "missing, and sbatch.gpus_per_node does not tell it either",
                "write how many processes start on each node",
            ),
        )
    return ()


def _processes(recipe: Recipe, options: SbatchPairs) -> Optional[int]:
    return recipe.launch.processes_per_node or gpus_of_node(options) or None


def _unfit_folder(run_dir: str) -> Tuple[Problem, ...]:
    """Slurm's file name patterns, the script and its records must all bear the run's path."""
    try:
        filename_pattern(one_line(run_dir))
    except UnreadableError as error:
        return (Problem("runs", error.message, error.fix or "write another folder to runs"),)
    return ()


def _other_cluster(asked: Mapping[str, str], cluster: str) -> Tuple[Problem, ...]:
    clusters = asked.get("clusters", cluster)
    if clusters == cluster:
        return ()
    return (
        Problem(
            _SHELL_VARIABLES["clusters"],
            f"asks for '{clusters}', and this is cluster '{cluster}'",
            "unset it, or submit on the cluster it names",
        ),
    )


_Options = Dict[str, Tuple[Optional[str], str]]  # option -> its value, and where that was written


def _merged(recipe: Recipe, profile: Profile, asked_by_shell: Mapping[str, str]) -> _Options:
    """Return the user's options, later layers over earlier ones, without what was switched off."""
    merged: _Options = {}
    of_profile, of_recipe = dict(profile.places), dict(recipe.places)
    for option, value in profile.sbatch:
        merged[option] = (value, _where(of_profile, option))
    for option, text in asked_by_shell.items():
        if option != "clusters":
            merged[option] = (text, _SHELL_VARIABLES.get(option, "environment"))
    for option, value in recipe.sbatch:
        merged[option] = (value, _where(of_recipe, option))
    return {option: found for option, found in merged.items() if found[0] != OFF}


def _where(places: Mapping[str, Place], option: str) -> str:
    return str(places.get(f"sbatch.{option.replace('-', '_')}", ""))


def _owned(
    run: Run, asked: Dict[str, Optional[str]], *, nodes: str, chdir: str
) -> List[Tuple[str, Optional[str]]]:
    """Return the options that every script of slurmswift has, first in it."""
    return [
        ("job-name", run.run_id),
        # What Slurm itself says of the job; the attempts have logs of their own.
        ("output", f"{filename_pattern(run.run_dir)}/slurm-%j.out"),
        ("open-mode", "append"),
        ("requeue", None),
        ("comment", run.fill(asked.pop("comment", None) or f"slurmswift:{run.run_dir}")),
        ("chdir", chdir),
        ("nodes", nodes),
        ("ntasks-per-node", "1"),
        ("signal", f"B:USR2@{_lead(asked.get('time'))}"),
    ]


def _users(run: Run, asked: Mapping[str, Optional[str]]) -> List[Tuple[str, Optional[str]]]:
    return [(option, None if value is None else run.fill(value)) for option, value in asked.items()]


def _lead(time: Optional[str]) -> int:
    """Return the seconds before the limit at which to save: of a short job, a quarter."""
    seconds = None if time is None else parse_slurm_time(time)
    return SAVE_LEAD_SECONDS if seconds is None else max(1, min(SAVE_LEAD_SECONDS, seconds // 4))


def _command(run: Run, launch: Launch) -> Words:
    """Return the command with its script's path made whole: it is started from elsewhere."""
    words = tuple(run.fill(word) for word in launch.command)
    if launch.script is None:
        return words
    return (posixpath.normpath(posixpath.join(run.recipe_dir, words[0])), *words[1:])


def _arguments(run: Run, launch: Launch) -> Words:
    words = launch.arguments
    if launch.framework in FLAVOURS:
        words = with_added(words, launch.framework)
    return tuple(run.fill(word) for word in words)


def _resume_flag(recipe: Recipe) -> str:
    flag, launch = recipe.checkpoints.flag or "", recipe.launch
    if launch.framework == MEGATRON_SWIFT and flag == RESUME_FLAG:  # it has no such flag
        return megatron_resume_flag(launch.arguments)
    return flag


def _python(run: Run, python: str) -> str:
    """Return a program's name as it is, for PATH to find, and a path made whole."""
    return posixpath.join(run.recipe_dir, python) if "/" in python else python


def _template(run: Run, recipe: Recipe) -> str:
    """Return a template's name, or the whole path of one that the recipe names by path."""
    name = recipe.template or recipe.launch.framework
    is_path = "/" in name or name.endswith(".j2")
    return posixpath.normpath(posixpath.join(run.recipe_dir, name)) if is_path else name


def _variables(run: Run, recipe: Recipe, profile: Profile) -> Tuple[Tuple[str, str], ...]:
    merged = {**dict(profile.variables), **dict(recipe.environment.variables)}
    return tuple((name, run.fill(value)) for name, value in merged.items())


# Values of the plan that are one of the recipe's or the profile's keys, or slurmswift's choice.
_KEYS = (
    *("template", "environment.modules", "environment.setup", "environment.inherit"),
    *("launch.framework", "launch.command", "launch.arguments", "launch.python"),
    *("launch.processes_per_node", "checkpoints.directory", "checkpoints.format"),
    *("checkpoints.flag", "restart.max_restarts", "restart.budgets", "runs", "network.interface"),
)


def _origins(recipe: Recipe, profile: Profile, options: _Options) -> Tuple[Tuple[str, str], ...]:
    of_profile, of_recipe = dict(profile.places), dict(recipe.places)
    variables = {**dict(profile.variables), **dict(recipe.environment.variables)}
    keys = (*_KEYS, *(f"environment.variables.{name}" for name in variables))
    found = {key: str(of_recipe.get(key) or of_profile.get(key) or BUILT_IN) for key in keys}
    found.update(
        {f"sbatch.{option.replace('-', '_')}": where for option, (_, where) in options.items()}
    )
    found.setdefault("sbatch.nodes", BUILT_IN)
    if found["launch.processes_per_node"] == BUILT_IN:
        found["launch.processes_per_node"] = found.get(
            "sbatch.gpus_per_node", found.get("sbatch.gres", BUILT_IN)
        )
    return tuple(sorted(found.items()))
