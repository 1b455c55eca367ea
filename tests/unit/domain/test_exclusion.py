"""Exclusions leave enough nodes to run (invariant I8)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slurmswift.domain.exclusion import excluded_nodes

FOUR = frozenset({"n1", "n2", "n3", "n4"})


def test_a_suspect_is_excluded_beside_the_users_own() -> None:
    assert excluded_nodes(["n1"], ["n3"], available=FOUR, needed=2) == ("n1", "n3")


def test_the_oldest_evidence_gives_way_where_too_few_nodes_would_be_left() -> None:
    assert excluded_nodes([], ["n1", "n2", "n3"], available=FOUR, needed=2) == ("n2", "n3")


def test_nodes_that_do_not_exist_are_left_out() -> None:
    assert excluded_nodes(["gone"], ["None", "n2"], available=FOUR, needed=2) == ("n2",)


@given(
    users=st.lists(st.sampled_from(sorted(FOUR)), unique=True),
    avoid=st.lists(st.sampled_from([*sorted(FOUR), "x"])),
    needed=st.integers(1, 4),
)
def test_ours_never_take_a_node_that_the_run_needs(
    users: list[str], avoid: list[str], needed: int
) -> None:
    excluded = excluded_nodes(users, avoid, available=FOUR, needed=needed)

    assert set(users) <= set(excluded) <= FOUR
    if set(excluded) != set(users):
        assert len(FOUR) - len(excluded) >= needed
