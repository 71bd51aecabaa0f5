"""Tests that a culprit which received another value than its peers may be a victim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from tests.programs import judged, world_of

LINE = "in step 2, rank 2 received another value at {} than ranks 0, 1; it may be a victim of another rank's value"


def told(by: str, wrong: bool, varies: bool = False) -> Any:
    """Rank 0 tells each rank whether to sum. In step 2, rank 2 receives another value (`wrong`), or forgets the sum.

    `varies`: each rank receives another number in each step.
    """

    async def program(rank: Rank) -> None:
        world = rank.host("h")
        for rank.step in range(4):
            odd = rank.step == 2
            plans = [(to != 2 or not (odd and wrong)) + 2 * to * varies for to in world.ranks]
            if by == "mail":
                for to in world.ranks if rank.rank == 0 else ():
                    rank.send(to, "box", plans[to], "tell")
                plan: Any = await rank.mailbox("box").get("hear")
            else:
                plan = int((await world.scatter(np.array(plans, np.int32), 0, site="hear"))[0])
            if plan % 2 and not (odd and not wrong and rank.rank == 2):
                await world.all_reduce(np.ones(1, np.int32), site="sum")
            await world.barrier(site="meet")

    return program


@pytest.mark.parametrize("by", ["mail", "scatter"])
@pytest.mark.parametrize(("wrong", "varies"), [(True, False), (False, False), (True, True)])
def test_a_rank_that_received_another_value_may_be_a_victim(by: str, wrong: bool, varies: bool) -> None:
    """The twins: the rank received what its peers received, or all ranks receive different values in each step."""
    found = judged(world_of(3, ["h"]), told(by, wrong, varies))[0]
    if found.culprit is None:  # another rule may see the different value, and name no rank
        assert wrong
        return
    assert found.culprit.rank == 2
    assert (LINE.format("hear") in found.ground) == (wrong and not varies)
