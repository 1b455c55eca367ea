"""sbatch's options in a recipe: all known, each refused one with its reason, values looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmswift.domain.sbatch_options import OPTIONS, Kind, find_option, suggest_option
from slurmswift.domain.sbatch_values import gpus_of_node, read_sbatch
from slurmswift.domain.schema import Entry, Listing, Node, Place, Problems, Scalar, Table
from slurmswift.errors import Problem
from tests.support.recipes import WHOLE, a_plan, problems

HERE = Place("recipe.yaml", 3)


def read(key: str, node: Node) -> tuple[tuple[tuple[str, str | None], ...], list[Problem]]:
    found = Problems()
    pairs = read_sbatch(Table((Entry(key, HERE, node),), HERE), found)
    return pairs, found.found


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_every_option_is_found_by_its_key_and_a_refused_one_says_why(option: object) -> None:
    found = [mine for mine in OPTIONS.values() if find_option(mine.key) is mine]

    assert option in found
    assert bool(getattr(option, "refused", "")) == bool(getattr(option, "instead", ""))


@pytest.mark.parametrize(
    "name",
    [
        *("array", "wrap", "wait", "test-only", "parsable", "output", "error", "open-mode"),
        *("job-name", "requeue", "no-requeue", "signal", "export", "export-file", "get-user-env"),
        *("ntasks", "ntasks-per-node", "gpus-per-task", "uid", "gid", "quiet", "help", "clusters"),
    ],
)
def test_what_slurmswift_owns_is_refused_with_its_reason(name: str, tmp_path: Path) -> None:
    key = name.replace("-", "_")
    (problem,) = problems(tmp_path, WHOLE.replace("nodes: 2", f"nodes: 2\n  {key}: 1"))

    assert problem.where == f"recipe.yaml:5: sbatch.{key}"
    assert problem.message == OPTIONS[name].refused
    assert problem.fix


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("gpu_per_node", "did you mean 'gpus_per_node'?"),
        ("gpus-per-node", "write gpus_per_node"),
        ("--nodes", "write nodes"),
        ("N", "write nodes"),
        ("p", "write partition"),
        ("partiton", "did you mean 'partition'?"),
        ("xyzzy", ""),
    ],
)
def test_an_unknown_option_comes_with_the_one_that_was_meant(key: str, fix: str) -> None:
    assert suggest_option(key) == fix


@pytest.mark.parametrize(
    ("key", "text", "fix"),
    [
        ("time", "25h", "write it as 1-01:00:00"),
        ("time_min", "1h", "write it as 01:00:00"),
        ("mem", "64GiB", "write 64G"),
        ("mem", "64 GB", "write 64G"),
        ("mem", "1.5G", "write 1536M"),
        ("mem", "1P", "write 1024T"),
        ("mem", "lots", "write it like 64G or 512M"),
        ("mem", "0.0001K", "write it like 64G or 512M"),
        ("nodes", "0", "write 1 or more"),
        ("nodes", "4-2", "write 2-4"),
        ("nodes", "1,3", "write it like 4, or 2-4"),
        ("nodes", "two", "write it like 4, or 2-4"),
        ("gpus_per_node", "gpu:8", "write 8"),
        ("gpus_per_node", "8:a100", "write it like 8, or a100:8"),
        ("cpus_per_task", "eight", "write 1 to 1000000000"),
        ("cpus_per_task", "0", "write 1 to 1000000000"),
        ("partition", "a\nb", "write it in one line"),
        ("partition", "", "write a value, or remove the line"),
        ("account", "$ACCOUNT", "write the value itself, not the variable"),
        ("qos", "$(id)", "write the value itself, not the variable"),
        ("chdir", "~/x", "write the whole path"),
        ("chdir", "$HOME/x", "write the path itself, not the variable"),
        ("exclude", "./nodes.txt", "write the nodes' names: node[01-04],node07"),
        ("comment", "of {runid}", "write {run_id}"),
        ("contiguous", "maybe", "write true or false"),
    ],
)
def test_a_value_that_slurm_would_refuse_or_misread_comes_with_a_better_one(
    key: str, text: str, fix: str
) -> None:
    pairs, (problem,) = read(key, Scalar(text, HERE, quoted=True))

    assert pairs == ()
    assert (problem.where, problem.fix) == (f"recipe.yaml:3: sbatch.{key}", fix)


@pytest.mark.parametrize(
    ("key", "node", "expected"),
    [
        ("time", Scalar("24:00:00", HERE), ("time", "24:00:00")),
        ("account", Scalar("007", HERE), ("account", "007")),
        ("partition", Scalar("on", HERE), ("partition", "on")),
        ("mem", Scalar("0", HERE), ("mem", "0")),
        ("mem", Scalar("64GB", HERE), ("mem", "64GB")),
        ("nodes", Scalar("2-4", HERE), ("nodes", "2-4")),
        ("gpus_per_node", Scalar("a100:4,h100:4", HERE), ("gpus-per-node", "a100:4,h100:4")),
        ("exclude", Scalar("n[1-2],n7", HERE), ("exclude", "n[1-2],n7")),
        ("exclusive", Scalar("", HERE), ("exclusive", None)),
        ("exclusive", Scalar("yes", HERE), ("exclusive", None)),
        ("exclusive", Scalar("user", HERE), ("exclusive", "user")),
        ("contiguous", Scalar("true", HERE), ("contiguous", None)),
        (
            "mail_type",
            Listing((Scalar("END", HERE), Scalar("FAIL", HERE)), HERE),
            ("mail-type", "END,FAIL"),
        ),
    ],
)
def test_a_good_value_is_taken_as_it_was_written(
    key: str, node: Node, expected: tuple[str, str | None]
) -> None:
    assert read(key, node) == ((expected,), [])


def test_a_list_where_sbatch_takes_one_value_is_refused() -> None:
    pairs, (problem,) = read("qos", Listing((Scalar("a", HERE),), HERE))

    assert pairs == ()
    assert problem.message == "needs one value, not a list"


def test_a_flag_takes_no_list() -> None:
    pairs, (problem,) = read("contiguous", Listing((), HERE))

    assert pairs == ()
    assert problem.message == "needs one value, not a list"


def test_a_list_with_nothing_good_in_it_asks_for_nothing() -> None:
    pairs, found = read("partition", Listing((Scalar("a\nb", HERE, quoted=True),), HERE))

    assert pairs == ()
    assert len(found) == 1


def test_an_option_of_the_profile_can_be_switched_off(tmp_path: Path) -> None:
    profile = "schema: 1\nname: here\nsbatch: {exclusive: true, contiguous: true}\n"
    text = WHOLE.replace("nodes: 2", "nodes: 2\n  exclusive: false")
    plan = a_plan(tmp_path, text, profile=profile)

    assert "exclusive" not in dict(plan.sbatch)
    assert dict(plan.sbatch)["contiguous"] is None


@pytest.mark.parametrize(
    ("pairs", "gpus"),
    [
        ((("gpus-per-node", "8"),), 8),
        ((("gpus-per-node", "a100:4,h100:2"),), 6),
        ((("gres", "gpu:a100:4"),), 4),
        ((("gres", "lustre,gpu:2"),), 2),
        ((("gres", "gpu"),), 1),
        ((("gres", "lustre"),), None),
        ((("gpus", "16"),), None),
        ((), None),
    ],
)
def test_the_gpus_of_a_node_are_known_where_the_request_says_so(
    pairs: tuple[tuple[str, str | None], ...], gpus: int | None
) -> None:
    assert gpus_of_node(pairs) == gpus


def test_kinds_that_take_a_list_are_those_that_sbatch_splits_at_commas() -> None:
    split = {option.name for option in OPTIONS.values() if option.kind is Kind.WORDS}

    assert {"partition", "mail-type", "gres", "licenses", "dependency"} <= split
    assert "constraint" not in split
