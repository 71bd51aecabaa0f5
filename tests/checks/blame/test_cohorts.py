"""Tests cohorts: ranks with the same history of calls. If exactly one rank departs from its cohort, the finding names
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dpsim.checks.finding import Finding
from dpsim.contract.world import CommunicatorSpec
from tests.checks.handmade import Made

ROUND = ["write", "agree", "combine"]


def groups(made: Made) -> None:
    """Makes two groups: "agree" of ranks 0 and 2, and of 1 and 3, or of both of two ranks; and "combine" of
    all ranks.
    """
    ranks = range(len(made.hands))
    pairs = [tuple(ranks[::2]), tuple(ranks[1::2])] if len(ranks) > 2 else [tuple(ranks)]
    specs = [CommunicatorSpec("agree", f"agree.{at}", "device", pair) for at, pair in enumerate(pairs)]
    made.world = replace(
        made.world, communicators=(*specs, CommunicatorSpec("combine", "combine", "device", (*ranks,)))
    )


def made_of(plans: Sequence[Sequence[str]]) -> Made:
    made = Made(len(plans))
    groups(made)
    for hand, plan in zip(made.hands, plans, strict=True):
        for site in plan:
            if site == "write":
                hand.launch(site, "main")
            else:
                name = site if site == "combine" else f"agree.{hand.rank % 2 if len(plans) > 2 else 0}"
                hand.collective(name, "main")
                hand.journal[-1] = (*hand.journal[-1][:3], site, *hand.journal[-1][4:])
        hand.note("read", "read", stream="main", count=1, dtype="int32", reads=())
    return made


def named(plans: Sequence[Sequence[str]]) -> Finding:
    return made_of(plans).findings(*["blocked"] * len(plans))[0]


def left_out(rank: int, ranks: int, rounds: int) -> list[list[str]]:
    plans = [ROUND * 4 for _ in range(ranks)]
    plans[rank] = ROUND * rounds + ["write", "combine"]
    return plans


@pytest.mark.parametrize(("ranks", "rounds"), [(4, 2), (2, 2), (4, 3)])
def test_the_one_that_left_a_call_out(ranks: int, rounds: int) -> None:
    for rank in range(ranks):
        found = named(left_out(rank, ranks, rounds))
        assert (found.culprit and found.culprit.rank, found.culprit and found.culprit.site) == (rank, "agree")
        assert found.klass == "HANG:COLLECTIVE:MISSING_RANK"


@pytest.mark.parametrize("ranks", [4, 2])
def test_the_one_that_made_a_call_twice(ranks: int) -> None:
    for rank in range(ranks):
        plans = [ROUND * 4 for _ in range(ranks)]
        plans[rank] = [*ROUND * 2, "write", "agree", "agree"]
        found = named(plans)
        assert (found.culprit and found.culprit.rank, found.klass) == (rank, "HANG:COLLECTIVE:EXTRA_CALL")


def test_too_short_a_beginning_says_nothing() -> None:
    found = named([["combine"], ["write", "agree", "combine"]])
    assert found.culprit is None


def test_of_two_ranks_that_both_do_what_is_usual_no_rank_parts() -> None:
    """After a write, both ranks sometimes combined and sometimes agreed in earlier rounds. So neither departs."""
    usual = ["write", "combine", *ROUND, "write", "combine", *ROUND]
    found = named([[*usual, "write", "agree", "combine"], [*usual, "write", "combine"]])
    assert not found.ground
