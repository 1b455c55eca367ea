"""Host lists as Slurm writes and reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmswift.domain.hostlist import compress, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node01", ("node01",)),
        ("node[01-03]", ("node01", "node02", "node03")),
        ("node[01-02,7],login", ("node01", "node02", "node7", "login")),
        ("r[1-2]n[08-09]-x", ("r1n08-x", "r1n09-x", "r2n08-x", "r2n09-x")),
        ("node[9-11]", ("node9", "node10", "node11")),
        ("a,,b", ("a", "b")),
        ("", ()),
        ("None assigned", ()),
        ("(null)", ()),
    ],
)
def test_a_host_list_expands_in_its_own_order(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize("text", ["node[1-3", "node]1[", "node[[1]]", "node[a-b]", "node[]"])
def test_what_is_no_host_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a (host list|range)"):
        expand(text)


@pytest.mark.parametrize("text", ["n[1-99999999]", "n[1-300][1-300]", ",".join(["n[1-60000]"] * 9)])
def test_a_hostile_list_does_not_fill_the_memory(text: str) -> None:
    with pytest.raises(ValueError, match="more than"):
        expand(text)


def test_numbers_of_one_width_fold_into_ranges() -> None:
    assert (
        compress(["node03", "node01", "node02", "node10", "gpu7", "a"]) == "a,gpu7,node[01-03,10]"
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["n", "rack-2-gpu", "x9y"]), st.integers(0, 200), st.integers(1, 4)
        )
    )
)
def test_folding_and_expanding_give_the_same_nodes(parts: list[tuple[str, int, int]]) -> None:
    names = [f"{prefix}{str(number).zfill(width)}" for prefix, number, width in parts]

    assert sorted(expand(compress(names))) == sorted(set(names))
