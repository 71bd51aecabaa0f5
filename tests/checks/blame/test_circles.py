"""Tests a circle of groups in a hang: either the ranks call two groups in opposite order (crossed), or one call is
missing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.world import CommunicatorSpec, World
from tests.programs import judged, world_of

CIRCLE, MISSING, DEAD = (
    "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS",
    "HANG:COLLECTIVE:MISSING_RANK",
    "HANG:COLLECTIVE:DEAD_RANK",
)


def two_groups() -> World:
    specs = tuple(CommunicatorSpec(kind=name, name=name, domain="host", ranks=(0, 1)) for name in ("a", "b"))
    return replace(world_of(2, ["a"], []), communicators=specs)


@pytest.mark.parametrize(("more", "klass"), [(0, CIRCLE), (1, MISSING)], ids=["crossed", "one group is ahead"])
def test_groups_that_met_equally_often_are_crossed(more: int, klass: str) -> None:
    """If both groups made equally many calls before, as torch's new_group does, the ranks crossed them. If one group is
    ahead, a call may be missing.
    """

    async def crossed(rank: Rank) -> None:
        rank.step = 0
        for name in ("a", "b"):
            await rank.host(name).barrier(site=f"made.{name}")
        for number in range(more):
            await rank.host("a").barrier(site=f"more.{number}")
        for name in ("a", "b") if rank.rank == 0 else ("b", "a"):
            await rank.host(name).all_reduce(np.ones(1, np.int32), site=f"crossed.{name}")

    assert judged(two_groups(), crossed)[0].klass == klass
