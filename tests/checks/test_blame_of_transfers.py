"""Tests culprits of mistakes that programs of torch make: a send to the wrong peer, a group that only some ranks made,
a misspelt key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import CommunicatorSpec, World
from dpsim.diagnose.words.told import Told
from dpsim.sim.backend import SimBackend
from tests.judged import judge

EVERY = (0, 1, 2)


class Ranks(Program[Any]):
    """A program that runs a function of the rank."""

    def __init__(self, main: Any) -> None:
        self.main = main

    async def run(self, rank: Rank, prepared: Any) -> None:
        await self.main(rank)


def first_of(main: Any) -> Told:
    return all_of(main)[0]


def all_of(main: Any) -> list[Told]:
    groups = tuple(CommunicatorSpec(name, name, "host", EVERY) for name in ("world", "g1", "g2"))
    world = World(3, groups)
    return judge(world, SimBackend().run_program(world, Ranks(main), None))


def sends(peer: int) -> Any:
    async def main(rank: Rank) -> None:
        world = rank.host("world")
        if rank.rank == 0:
            await world.send(np.ones(2, np.int32), peer, site="send")
        elif rank.rank == 1:
            await world.recv(2, "int32", 0, site="recv")
        await world.barrier(site="end")

    return main


def test_a_send_to_the_wrong_peer_is_blamed() -> None:
    finding = first_of(sends(2))
    assert finding.culprit is not None
    assert (finding.klass, finding.culprit.rank, finding.culprit.site) == ("HANG:P2P:UNMATCHED_RECV", 0, "send")


def test_a_send_of_other_elements_is_not() -> None:
    async def main(rank: Rank) -> None:
        world = rank.host("world")
        if rank.rank == 0:
            await world.send(np.ones(3, np.int32), 2, site="send")
        elif rank.rank == 1:
            await world.recv(2, "int32", 0, site="recv")
        await world.barrier(site="end")

    finding = first_of(main)
    assert finding.culprit is None or finding.culprit.site != "send"


def test_the_rank_in_the_group_of_the_fewer_is_blamed() -> None:
    async def main(rank: Rank) -> None:
        await rank.host("g1" if rank.rank == 2 else "g2").barrier(site="made")

    [circle] = [one for one in all_of(main) if one.klass == "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS"]
    assert circle.culprit is not None
    assert circle.culprit.rank == 2


def asks(key: str) -> Any:
    async def main(rank: Rank) -> None:
        store: Any = await (rank.join_store(0, 5, "join") if rank.rank else rank.open_store(5, "open"))
        if rank.rank == 0:
            store.set(key, 1, "set")
        await store.get("address", "get")

    return main


def test_a_misspelt_key_is_blamed_and_another_key_is_not() -> None:
    finding = first_of(asks("adress"))
    assert finding.culprit is not None
    assert (finding.culprit.rank, finding.culprit.site) == (0, "set")
    assert "waits for key address, which no rank sets" in finding.message
    other = first_of(asks("quite_other"))
    assert other.culprit is None
    assert "rank 0 may owe it" in other.message
