"""What a rank takes with it when it dies: what hardware may lose has to be asked for, by options of the kill."""

from __future__ import annotations

import numpy as np
import pytest

from dpsim.interface import Rank
from dpsim.world import Kill
from tests.programs import world_of
from tests.soundness.worlds import all_ends, filled

# ---- in a collective


async def tells_when_it_is_through(rank: Rank) -> None:
    """All meet in a collective, from which rank 0 tells rank 1 that it is through."""
    await rank.host("h").all_reduce(np.ones(1, np.int32))
    if rank.rank == 0:
        rank.send(1, "told", True, "tell")
    if rank.rank == 1:
        await rank.mailbox("told").get("wait")


@pytest.mark.parametrize("partial", [True, False])
def test_a_death_in_a_collective_may_take_any_peers_with_it(partial: bool) -> None:
    """On hardware a rank that dies may have served some peers already. Who does not ask for it sees ranks 0 and 1 both
    end, or neither.
    """
    ends = all_ends(world_of(3, hosts=["h"], kills=(Kill(2, partial=partial),)), tells_when_it_is_through)
    assert (("finished", "blocked", "died") in ends) == partial


@pytest.mark.parametrize("partial", [True, False])
def test_a_death_in_a_device_collective_may_take_any_peers_with_it(partial: bool) -> None:
    ends = all_ends(world_of(3, devices=["d"], kills=(Kill(2, partial=partial),)), sums_on_the_device)
    assert (("finished", "blocked", "died") in ends) == partial


def test_a_death_in_a_collective_may_take_all_peers_with_it_or_none() -> None:
    ends = all_ends(world_of(3, hosts=["h"], kills=(Kill(2, 0),)), tells_when_it_is_through)
    assert {("blocked", "blocked", "died"), ("finished", "finished", "died")} <= ends


async def sums_on_the_device(rank: Rank) -> None:
    x = filled(rank.stream("main"), "x")
    rank.device("d").all_reduce(x, rank.stream("main"))
