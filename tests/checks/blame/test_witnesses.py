"""Tests witnesses: actors whose exception follows from what others did not do. The cause comes before their exceptions
in the report.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsim.checks.blame.witnesses import gave_up
from dpsim.checks.run_index import RunIndex
from dpsim.contract.world import CommunicatorSpec
from tests.checks.handmade import Hand, Made


def get(hand: Hand, outcome: Any, timeout_ns: int | None) -> None:
    hand.learned(hand.note("take", "get", mailbox="box", how="get", timeout_ns=timeout_ns), outcome)


def fails(hand: Hand) -> None:
    hand.note("raised", "Late", message="nothing came")


def is_witness(made: Made, rank: int) -> bool:
    return gave_up(RunIndex.of(made.world, made.run(*["raised"] * len(made.hands))), rank) is not None


@pytest.mark.parametrize(
    ("outcome", "timeout_ns", "expected"),
    [(None, 5, True), ("one", 5, False), ("one", None, False), (("gone", 1), None, True)],
)
def test_a_time_out_that_passed(outcome: Any, timeout_ns: int | None, expected: bool) -> None:
    made = Made(1)
    get(made[0], outcome, timeout_ns)
    fails(made[0])
    assert is_witness(made, 0) == expected


def test_a_rank_that_did_not_raise_is_no_witness() -> None:
    made = Made(1)
    get(made[0], None, 5)
    assert gave_up(RunIndex.of(made.world, made.run("blocked")), 0) is None


@pytest.mark.parametrize(("between", "expected"), [("look", True), ("post", True), ("launch", False), ("get", False)])
def test_a_witness_may_post_and_poll_before_it_raises(between: str, expected: bool) -> None:
    """After its time-out a witness may post messages and poll before it raises. An actor that works, or receives a
    message, continued, so it is no witness.
    """
    made = Made(2)
    get(made[0], None, 5)
    if between == "post":
        made[0].post(1, "late")
    elif between == "launch":
        made[0].launch("kernel", "main")
    else:
        get(made[0], "one", 0 if between == "look" else 5)
    fails(made[0])
    assert is_witness(made, 0) == expected


@pytest.mark.parametrize("first", ["witness", "raises", "healthy"])
def test_a_rank_that_learns_of_a_failure_is_a_witness(first: str) -> None:
    made = Made(2)
    if first == "witness":
        get(made[0], None, 5)
    made[0].post(1, "failed")
    if first == "healthy":
        made[0].launch("kernel", "main")
    fails(made[0])
    get(made[1], "failed", None)
    fails(made[1])
    assert is_witness(made, 1) == (first != "healthy")


def test_two_ranks_that_notify_each_other_explain_nothing() -> None:
    made = Made(2)
    for rank in (0, 1):
        made[rank].post(1 - rank, "failed")
        get(made[rank], "failed", None)
        made[rank].post(1 - rank, "failed")
        made[rank].launch("kernel", "main")
        fails(made[rank])
    assert not is_witness(made, 0)


@pytest.mark.parametrize("waits", [True, False])
def test_a_hang_is_reported_before_the_exception_of_its_witness(waits: bool) -> None:
    """Rank 0 raises in step 0, and ranks 1 and 2 wait for each other in step 1. If rank 0 is a witness, the hang comes
    first.
    """
    made = Made(3)
    specs = [CommunicatorSpec(name, name, "host", (1, 2)) for name in ("a", "b")]
    made.world = replace(made.world, communicators=tuple(specs))
    get(made[0], None if waits else "one", 5)
    fails(made[0])
    for rank, name in ((1, "a"), (2, "b")):
        made[rank].step = 1
        made[rank].collective(name, None)
    crash = [one.klass for one in made.findings("raised", "blocked", "blocked")].index("CRASH:LATE")
    assert (crash > 0) == waits
