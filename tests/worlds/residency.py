"""A program with two device communicators on two streams, and a limited number of device slots for running collectives.

All ranks issue both collectives in the same order. With one slot on each rank, either collective may get it. If two
ranks give the slot to different collectives, they deadlock. With two slots, or on one stream, the ranks never deadlock.

If odd ranks issue the collectives in the *opposite* order, the first run of an explorer hangs. Ops that other schedules
reach after this point do not fire in that run, so the explorer has not seen them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import Kill
from tests.programs import set_to, world_of
from tests.worlds.case import Case


class TwoGroups(Program[Any]):
    """`prepared` is the names of the two streams, and whether odd ranks issue the collectives in the opposite order."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        names, opposite = prepared
        rank.step = 0
        order = list(zip(("a", "b"), names, strict=True))
        for kind, name in reversed(order) if opposite and rank.rank % 2 else order:
            stream = rank.stream(name)
            buffer = stream.alloc(1, "int32", kind)
            stream.launch("fill", set_to, writes=[buffer], args=(1,))
            rank.device(kind).all_reduce(buffer, stream)


def case(ranks: int = 2, slots: int = 1, streams: tuple[str, str] = ("left", "right"), opposite: bool = False) -> Case:
    bug = slots == 1 and streams[0] != streams[1]
    return Case(
        name=f"residency {ranks} ranks {slots} slots {len({*streams})} streams{' opposite' * opposite}",
        world=world_of(ranks, devices=["a", "b"], residency=slots),
        program=TwoGroups(),
        args=(streams, opposite),
        bug="HANG" if bug else None,
    )


def mortal(slots: int) -> Case:
    """Returns a case in which rank 1 may be killed. An acquire that is blocked when its rank dies has still competed
    for the slot.
    """
    whole = case(2, slots)
    name, world = f"{whole.name} kill", replace(whole.world, kills=(Kill(1, 0),))
    return replace(whole, name=name, world=world, bug=None, tolerated=("DEATH", "HANG"))
