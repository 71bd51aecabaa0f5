"""Tests equal collectives that two ranks call in opposite order, so that different calls meet (crosswise). The checks
find them by their sites. Two sites that name one call are no finding.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpsim.checks.finding import Finding
from dpsim.contract.interface import Rank
from tests.checks.handmade import Made
from tests.programs import Script, explored, judged, world_of
from tests.records import changed

SITES = "MISMATCH:COLLECTIVE:SITES"


def steps(*lists: tuple[str, ...], on: str = "dp") -> Made:
    """Returns the calls of the ranks, a row for each step. In the row ("ab", "ba"), rank 0 calls sites a and b, and
    rank 1 calls b and a.
    """
    made = Made(len(lists[0]))
    for step, row in enumerate(lists):
        for hand, sites in zip(made.hands, row, strict=True):
            hand.step = step
            for site in sites:
                hand.collective(on, None if on == "cpu" else "main")
                hand.journal[-1] = changed(hand.journal[-1], site=site)
    return made


def found(made: Made) -> Finding | None:
    listed = [finding for finding in made.findings() if finding.klass == SITES]
    assert len(listed) < 2
    return listed[0] if listed else None


def culprit(finding: Finding | None) -> tuple[int, int] | None:
    assert finding is not None
    return None if finding.culprit is None else (finding.culprit.rank, finding.culprit.step)


@pytest.mark.parametrize("on", ["cpu", "dp"])
def test_two_calls_in_two_orders(on: str) -> None:
    crossed = found(steps(("ab", "ba"), on=on))
    assert crossed is not None
    assert crossed.culprit is None
    assert crossed.message == (
        f"ranks of {on} pair up crosswise in step 0, as two calls are both all_reduce int32[8] on {on} #0. "
        "One is a at here.py:0 by rank 0, the other b at here.py:0 by rank 1. "
        "Make these calls in one order, or give those that belong together one site"
    )
    assert crossed.details == ("rank 0: a, b", "rank 1: b, a")


@pytest.mark.parametrize(
    "healthy",
    [
        [("ab", "ab")],
        [("ab", "ab"), ("ba", "ba")],  # the order may change between steps
        [("ac", "bc")],  # one collective with two names
        [("aab", "aab")],
        [("ab", "b")],  # rank 1 is still within the step
    ],
)
def test_equal_orders_and_other_names_are_no_finding(healthy: list[tuple[str, ...]]) -> None:
    assert found(steps(*healthy)) is None


@pytest.mark.parametrize(
    ("rows", "crossed"),
    [
        ([("a", "b"), ("ab", "ba")], False),  # two names of one call, whose roles the ranks swap
        ([("ab", "ba"), ("ca", "cb")], False),  # a later step may show this
        ([("a", "b", "a"), ("ab", "ba", "ab")], False),
        ([("a", "c"), ("ab", "ba")], True),  # c is another name, not b
        ([("ab", "bc"), ("ab", "ba")], True),  # rank 0 calls b too, so the calls may be crossed
        ([("a", "b"), ("acb", "cba")], True),  # c is no name of these calls
    ],
)
def test_names_that_roles_swap_are_no_finding(rows: list[tuple[str, ...]], crossed: bool) -> None:
    assert (found(steps(*rows)) is not None) == crossed


def test_the_majority_is_right() -> None:
    assert culprit(found(steps(("ab", "ba", "ab")))) == (1, 0)


def test_of_two_ranks_the_one_that_keeps_its_usual_order_is_right() -> None:
    assert culprit(found(steps(("ab", "ab"), ("ab", "ab"), ("ba", "ab")))) == (0, 2)


def test_no_rank_is_blamed_if_both_orders_are_usual() -> None:
    assert culprit(found(steps(("ab", "ab"), ("ba", "ba"), ("ba", "ab")))) is None


def test_the_finding_names_the_first_step() -> None:
    crossed = found(steps(("ab", "ab"), ("ab", "ba"), ("ab", "ba")))
    assert crossed is not None
    assert crossed.position[0] == 1


def test_a_mismatch_in_the_same_step_is_reported_before_crosswise_calls() -> None:
    """A mismatch of counts or ops is the finding, if it is in the same step. In a later step it follows from the
    crosswise calls.
    """
    made = steps(("ab", "ba"))
    made[1].step = 1
    made[1].collective("dp", "main", count=1)
    assert made.classes() == [SITES]
    made = Made(2)
    for hand, ops in zip(made.hands, (("sum", "max"), ("max", "sum")), strict=True):
        for op in ops:
            hand.collective("dp", "main", reduce=op)
    assert made.classes() == ["MISMATCH:COLLECTIVE:REDUCE"]


# ---- calls with a root, which may use another site than its peers


def rooted(*calls: tuple[int, str, str]) -> Script:
    """Makes broadcasts in a row. A call is its root, and its sites at ranks 0 and 1."""

    async def script(rank: Rank) -> None:
        for root, *sites in calls:
            await rank.host("h").broadcast(np.ones(1, np.int32), root, site=sites[rank.rank])

    return script


@pytest.mark.parametrize(
    ("calls", "crossed"),
    [
        ([(0, "give", "take"), (1, "take", "give")], False),  # the root changes
        ([(0, "give", "take"), (0, "give", "take")], False),
        ([(0, "a", "b"), (0, "b", "a")], True),
        ([(0, "a", "b"), (1, "b", "a"), (0, "b", "b")], True),  # not only the root uses b
    ],
)
def test_names_of_roles_are_no_finding(calls: list[tuple[int, str, str]], crossed: bool) -> None:
    classes = [finding.klass for finding in judged(world_of(2, ["h"]), rooted(*calls))]
    assert classes == [SITES] * crossed


# ---- explored


async def crosses(rank: Rank) -> None:
    for site in ("sizes", "flags") if rank.rank == 0 else ("flags", "sizes"):
        await rank.host("h").all_reduce(np.ones(1, np.int32), site=site)


async def keeps_in_line(rank: Rank) -> None:
    for site in ("sizes", "flags"):
        await rank.host("h").all_reduce(np.ones(1, np.int32), site=site)


def test_exploring_does_not_prove_it() -> None:
    world = world_of(2, ["h"])
    assert [finding.klass for finding in explored(world, crosses).findings] == [SITES]
    assert explored(world, keeps_in_line).verdict == "proven"
