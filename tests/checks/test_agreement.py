"""Decisions that are missing: who leaves one out disagrees, and who begins later or ends earlier does not."""

from __future__ import annotations

import pytest

from dpsim.contract.interface import Rank
from tests.programs import Script, judged, world_of

Plan = dict[int, list[tuple[int, int]]]
"""For each rank, the steps in which it decides, and what."""


@pytest.mark.parametrize(
    ("plan", "culprit"),
    [
        ({0: [(0, 7), (1, 7), (2, 7)], 1: [(0, 7), (2, 7)], 2: [(0, 7), (1, 7), (2, 7)]}, "rank 1, step 1, plan"),
        ({0: [(0, 7)], 1: [(0, 7), (0, 7)], 2: [(0, 7)]}, "rank 1, step 0, plan"),
        ({0: [(0, 7), (2, 7)], 1: [(1, 8), (3, 8)], 2: []}, "None"),
    ],
    ids=["leaves-one-out", "decides-twice", "counts-otherwise"],
)
def test_one_decided_more_seldom(plan: Plan, culprit: str) -> None:
    [finding] = judged(world_of(3, ["dp_cpu"]), script(plan))
    assert (finding.klass, str(finding.culprit).partition(" at ")[0]) == ("DISAGREEMENT:PLAN", culprit)
    assert "every member has to decide it" in finding.message


@pytest.mark.parametrize(
    "plan",
    [
        {0: [(0, 7), (1, 7)], 1: [(1, 7), (2, 7)], 2: [(1, 7)]},
        {0: [(0, 7), (1, 7)], 1: [], 2: []},
        {0: [(0, 7), (2, 7)], 1: [(0, 7), (2, 7)], 2: [(0, 7), (2, 7)]},
    ],
    ids=["one-after-the-other", "alone", "all-leave-it-out"],
)
def test_nobody_leaves_anything_out(plan: Plan) -> None:
    assert judged(world_of(3, ["dp_cpu"]), script(plan)) == []


def test_who_stopped_may_not_have_come_to_it() -> None:
    async def breaks_off(rank: Rank) -> None:
        await script({0: [(0, 7), (1, 7), (2, 7)], 1: [(0, 7), (2, 7)]})(rank)
        if rank.rank == 0:
            raise ValueError

    assert [one.klass for one in judged(world_of(2, ["dp_cpu"]), breaks_off)] == ["CRASH:VALUEERROR"]


def script(plan: Plan) -> Script:
    async def decides(rank: Rank) -> None:
        for step, value in plan.get(rank.rank, []):
            rank.step = step
            rank.decide("plan", value, "dp_cpu")

    return decides
