"""Our directives and tables, asked of the real sbatch. It needs no cluster for that."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmswift.domain.quoting import directive
from slurmswift.domain.sbatch_options import OPTIONS, Kind, SbatchOption
from slurmswift.domain.schema import UnreadableError
from slurmswift.domain.slurm_time import format_slurm_time, parse_slurm_time
from tests.support.sbatch_oracle import SBATCH, defined_options

pytestmark = pytest.mark.skipif(SBATCH is None, reason="needs sbatch (Debian: slurm-client)")

PRINTABLE = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=60
)
# Came after 22.05, whose sbatch ends at the first option it does not know.
NEWER = frozenset(
    {
        *("container-id", "container-type", "consolidate-segments", "spread-segments", "extra"),
        *("mem-update", "oom-kill-step", "resources", "resv-ports", "segment", "stepmgr"),
        *("tres-bind", "tres-per-task"),
    }
)
EXAMPLES = {
    "acctg-freq": "task=30",
    "begin": "2030-01-01",
    "cpu-freq": "high",
    "deadline": "2030-01-01",
    "delay-boot": "10",
    "distribution": "block",
    "extra-node-info": "1",
    "gpu-bind": "none",
    "gpu-freq": "low",
    "gres-flags": "enforce-binding",
    "hint": "compute_bound",
    "kill-on-invalid-dep": "yes",
    "mail-type": "END,FAIL",
    "mem-bind": "local",
    "nice": "5",
    "power": "level",
    "priority": "10",
    "profile": "task",
    "propagate": "NOFILE",
    "switches": "1",
}
OF_KIND = {
    Kind.COUNT: "2",
    Kind.TIME: "1:00:00",
    Kind.MEMORY: "2G",
    Kind.NODES: "2-4",
    Kind.GPUS: "a100:2",
    Kind.NODE_NAMES: "n[1-2]",
    Kind.PATH: "/etc",
}


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=PRINTABLE)
def test_sbatch_reads_a_directive_back_as_it_was(tmp_path: Path, value: str) -> None:
    assert defined_options(tmp_path, [directive("comment", value)]) == {"comment": value}


@pytest.mark.parametrize(
    "value",
    [
        *(
            "a b",
            "a#b",
            "a \"b\" 'c'",
            "a\\b",
            "\\",
            '"',
            "'",
            "$HOME `x` $(x)",
            "--wrap=x",
            "é",
            " a ",
        ),
        *("#SBATCH --wrap=x", "%j", "a\\\\b", '\\"', "{x}"),
    ],
)
def test_hostile_values_stay_in_their_directive(tmp_path: Path, value: str) -> None:
    asked = [directive("comment", value), directive("nodes", "3")]

    assert defined_options(tmp_path, asked) == {"comment": value, "nodes": "3"}


@pytest.mark.parametrize(
    "option",
    [option for option in OPTIONS.values() if not option.refused and option.name not in NEWER],
    ids=lambda option: option.name,
)
def test_sbatch_takes_each_option_with_a_value_of_its_kind(
    tmp_path: Path, option: SbatchOption
) -> None:
    value = EXAMPLES.get(option.name, OF_KIND.get(option.kind, "x"))
    asked = None if option.kind is Kind.FLAG or option.name == "exclusive" else value
    options = defined_options(tmp_path, [directive(option.name, asked)])

    assert "error" not in options


@pytest.mark.parametrize(
    "text",
    ["90", "90:30", "24:00:00", "100:00:00", "1-00", "2-12:30", "14-0", "1-1:1:1", "infinite"],
)
def test_sbatch_reads_a_time_as_we_do(tmp_path: Path, text: str) -> None:
    seconds = parse_slurm_time(text)
    # Slurm keeps whole minutes, the next one up.
    rounded = None if seconds is None else -(-seconds // 60) * 60

    assert defined_options(tmp_path, [directive("time", text)])["time"] == format_slurm_time(
        rounded
    )


@pytest.mark.parametrize("text", ["25h", "1.5", "1:2:3:4", "1d", "1 day", "1-1-1", " 5"])
def test_what_we_refuse_as_a_time_sbatch_refuses_too(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnreadableError):
        parse_slurm_time(text)

    assert defined_options(tmp_path, [directive("time", text)]) == {
        "error": "Invalid --time specification"
    }
