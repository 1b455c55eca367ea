"""What one cluster offers to every run on it: options, interface, environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from slurmswift.domain.arguments import Words
from slurmswift.domain.recipe import require_schema
from slurmswift.domain.sbatch_values import SbatchPairs, read_sbatch
from slurmswift.domain.schema import Place, Problems, Reader, Table, flatten
from slurmswift.domain.schema_values import a_folder, a_name, an_interface, any_text, one_line
from slurmswift.domain.variables import Variables, read_variables

_KEYS = ("schema", "name", "sbatch", "network", "environment", "runs")
_LATER_KEYS = ("partitions", "container", "containers", "policy", "floors", "scratch", "notify")


@dataclass(frozen=True)
class Profile:
    """A profile whose every key was read. The one without a name is no profile at all."""

    name: str = ""
    sbatch: SbatchPairs = ()
    interface: Optional[str] = None  # the network of the training, where there are several
    modules: Words = ()
    setup: str = ""
    variables: Variables = ()
    runs: Optional[str] = None
    places: Tuple[Tuple[str, Place], ...] = ()


def parse_profile(tree: Table, problems: Problems) -> Profile:
    """Return the profile that a tree holds. Usable only where ``problems`` has no errors."""
    reader = Reader(tree, problems, keys=_KEYS, later=_LATER_KEYS)
    require_schema(reader)
    name = reader.read("name", a_name)
    if not reader.given("name"):
        reader.missing("name", "write the cluster's name: name: my-cluster")
    network = Reader(reader.table_of("network"), problems, path="network", keys=("interface",))
    environment = Reader(
        reader.table_of("environment"),
        problems,
        path="environment",
        keys=("modules", "setup", "variables"),
        later=("container",),
    )
    return Profile(
        name=name or "",
        sbatch=read_sbatch(reader.table_of("sbatch"), problems),
        interface=network.read("interface", an_interface),
        modules=environment.read_list("modules", one_line) or (),
        setup=environment.read("setup", any_text) or "",
        variables=read_variables(environment.table_of("variables"), problems),
        runs=reader.read("runs", a_folder),
        places=tuple(flatten(tree).items()),
    )
