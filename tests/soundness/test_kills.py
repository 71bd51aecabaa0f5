"""What a rank takes with it when it dies. Today a kill has no options; a repair may ask for these losses by one."""

from __future__ import annotations

import numpy as np
import pytest

from dpsim.interface import Rank
from dpsim.world import Kill
from tests.programs import world_of
from tests.soundness.worlds import all_ends, not_yet

# ---- in a collective


async def tells_when_it_is_through(rank: Rank) -> None:
    """All meet in a collective, from which rank 0 tells rank 1 that it is through."""
    await rank.host("h").all_reduce(np.ones(1, np.int32))
    if rank.rank == 0:
        rank.send(1, "told", True, "tell")
    if rank.rank == 1:
        await rank.mailbox("told").get("wait")


@not_yet("a rank that dies in a collective takes all of its peers with it, or none")
def test_a_death_in_a_collective_takes_any_peers_with_it() -> None:
    """dpsim lets ranks 0 and 1 both end, or neither. On hardware a rank that dies may have served some peers already.

    A repair may ask for this by an option of `World` or `Kill`; the test then names it.
    """
    ends = all_ends(world_of(3, hosts=["h"], kills=(Kill(2, 0),)), tells_when_it_is_through)
    assert ("finished", "blocked", "died") in ends


def test_a_death_in_a_collective_may_take_all_peers_with_it_or_none() -> None:
    ends = all_ends(world_of(3, hosts=["h"], kills=(Kill(2, 0),)), tells_when_it_is_through)
    assert {("blocked", "blocked", "died"), ("finished", "finished", "died")} <= ends


# ---- messages


async def writes_to_two_peers(rank: Rank) -> None:
    """Rank 0 writes to rank 1 and then to rank 2."""
    if rank.rank:
        await rank.mailbox("told").get("wait")
        return
    for peer in (1, 2):
        rank.send(peer, "told", True, "tell")
    await rank.mailbox("never").get("stay", idle=True)


@pytest.mark.parametrize("loses_mail", [True, False])
def test_a_message_may_be_lost_with_its_sender(loses_mail: bool) -> None:
    """On hardware what lay in the queue to rank 1 is lost with the sender, whatever became of the queue to rank 2. Who
    does not ask for it gets the first message wherever the second one arrives.
    """
    ends = all_ends(world_of(3, kills=(Kill(0, loses_mail=loses_mail),)), writes_to_two_peers)
    assert (("died", "blocked", "finished") in ends) == loses_mail


def test_a_death_may_come_before_or_between_the_messages() -> None:
    ends = all_ends(world_of(3, kills=(Kill(0, 0),)), writes_to_two_peers)
    assert {("died", "blocked", "blocked"), ("died", "finished", "blocked"), ("died", "finished", "finished")} <= ends
