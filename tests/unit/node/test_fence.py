"""Whether an attempt may train: the one rule that keeps two from training at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmswift.node.attempt import Attempt, RunFolder
from slurmswift.node.fence import Fence
from slurmswift.node.older import wait_until_over, what_may_still_run
from tests.support.run_folder import (
    age,
    grant_to,
    leave_exit,
    leave_record,
    make_attempt,
    make_run,
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return make_run(tmp_path / 'a run\'s "folder"')


def test_the_newest_attempt_of_the_granted_epoch_may_train(run: RunFolder) -> None:
    make_attempt(run, 1)
    make_attempt(run, 2)

    assert Fence(run, number=2, epoch=1).why_closed() is None


def test_another_epoch_closes_the_fence(run: RunFolder) -> None:
    make_attempt(run, 1)
    grant_to(run.path, epoch=2)

    assert Fence(run, 1, 1).why_superseded() == "epoch 2 was granted, this is epoch 1"


def test_a_claim_closes_it_before_there_is_a_directory(run: RunFolder) -> None:
    make_attempt(run, 1)
    (run.attempts_folder / ".claim-002").mkdir()

    assert Fence(run, 1, 1).why_superseded() == "attempt 2 has started, this is attempt 1"


def test_numbers_above_999_are_compared_as_numbers(run: RunFolder) -> None:
    (run.attempts_folder / ".claim-1000").mkdir()

    assert Fence(run, 999, 1).why_superseded() is not None
    assert Fence(run, 1000, 1).why_superseded() is None


def test_a_stopped_run_starts_nothing(run: RunFolder) -> None:
    make_attempt(run, 1)
    (run.path / "stop").symlink_to("nowhere")

    assert Fence(run, 1, 1).why_closed() == "the run was stopped"


def test_a_grant_that_cannot_be_read_names_no_other_epoch(run: RunFolder) -> None:
    make_attempt(run, 1)
    (run.path / "grant.json").write_text("{")

    assert Fence(run, 1, 1).why_superseded() is None


class TestAnEarlierAttempt:
    @pytest.fixture
    def attempt(self, run: RunFolder) -> Attempt:
        attempt = make_attempt(run, 1, nodes=("n1", "n2"))
        age(attempt.path, 31)
        return attempt

    def alive(self, attempt: Attempt, node: str, seconds: float) -> None:
        attempt.alive_file(node).write_bytes(b".\n")
        age(attempt.alive_file(node), seconds)

    def test_is_over_when_nothing_was_heard_of_it_for_thirty_seconds(
        self, attempt: Attempt
    ) -> None:
        self.alive(attempt, "n1", 31)
        age(attempt.path, 31)

        assert what_may_still_run(attempt) is None

    def test_may_run_while_one_node_was_heard_of(self, attempt: Attempt) -> None:
        self.alive(attempt, "n1", 31)
        self.alive(attempt, "n2", 5)
        leave_exit(attempt)

        assert what_may_still_run(attempt) == "n2 of attempt 1, heard of 5 s ago"

    def test_is_over_at_once_with_its_exit_and_every_agents_record(self, attempt: Attempt) -> None:
        for node in ("n1", "n2"):
            self.alive(attempt, node, 0)
            leave_record(attempt, node)
        leave_exit(attempt)

        assert what_may_still_run(attempt) is None

    def test_without_an_end_its_own_folder_has_to_be_old_as_well(self, attempt: Attempt) -> None:
        age(attempt.path, 3)

        assert what_may_still_run(attempt) == "attempt 1 without an end, changed 3 s ago"

    def test_a_damaged_record_proves_nothing(self, attempt: Attempt) -> None:
        self.alive(attempt, "n1", 5)
        attempt.node_file("n1").write_text("{")
        leave_exit(attempt)

        assert what_may_still_run(attempt) == "n1 of attempt 1, heard of 5 s ago"

    def test_without_a_nodes_folder_it_never_started_an_agent(self, attempt: Attempt) -> None:
        attempt.nodes.rmdir()
        leave_exit(attempt)

        assert what_may_still_run(attempt) is None

    def test_asking_leaves_nothing_behind(self, run: RunFolder, attempt: Attempt) -> None:
        what_may_still_run(attempt)

        assert sorted(path.name for path in run.path.rglob("*")) == [
            ".claim-001", "001-7", "attempts", "claims", "grant.json", "nodes", "output",
            "run.json", "start.json",
        ]  # fmt: skip


def test_waiting_ends_when_the_last_sign_of_life_is_old_enough(run: RunFolder) -> None:
    first, second = make_attempt(run, 1), make_attempt(run, 2)
    make_attempt(run, 3)
    for attempt in (first, second):
        age(attempt.path, 31)
    second.alive_file("n1").write_bytes(b".\n")
    age(second.alive_file("n1"), 29)
    age(second.path, 31)
    said: list[str] = []
    alive = wait_until_over(run, 3, patience=30, say=said.append, why_closed=lambda: None, poll=0.1)

    assert alive is None
    assert [line.split(",")[0] for line in said] == ["waiting until it is over: n1 of attempt 2"]


def test_waiting_is_bounded_and_says_for_what(run: RunFolder) -> None:
    attempt = make_attempt(run, 1)
    make_attempt(run, 2)
    attempt.alive_file("n1").write_bytes(b".\n")
    alive = wait_until_over(
        run, 2, patience=0, say=lambda _: None, why_closed=lambda: None, poll=0.1
    )

    assert alive == "n1 of attempt 1, heard of 0 s ago"


def test_waiting_ends_when_this_attempt_is_itself_too_late(run: RunFolder) -> None:
    attempt = make_attempt(run, 1)
    make_attempt(run, 2)
    attempt.alive_file("n1").write_bytes(b".\n")

    assert (
        wait_until_over(run, 2, patience=60, say=lambda _: None, why_closed=lambda: "too late")
        is None
    )
