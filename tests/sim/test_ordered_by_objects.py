"""Tests `Program.ordered_by_objects`: turns of two threads conflict only if their calls use the same communicator or
store. DPOR finds the same outcomes in fewer schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import CommunicatorSpec, World
from dpsim.sim.hosts import turns
from tests.sim.test_ordered_by_flags import outcomes

WORLD = World(2, tuple(CommunicatorSpec(name, name, "host", (0, 1)) for name in "ab"))
Calls = tuple[tuple[str, ...], ...]


class Uses(Program[Calls]):
    """Threads of rank 0 reduce on communicators, or count in a store; rank 1 reduces in one order. The first thread of
    rank 0 on a communicator pairs with the first call of rank 1.
    """

    threaded = True

    async def run(self, rank: Rank, prepared: Calls) -> None:
        if rank.rank:
            for number, name in enumerate(sorted("".join(map("".join, prepared)).replace("s", ""))):
                await rank.host(name).all_reduce(np.full(1, 100 * number), site=f"{name}.reduce")
            return
        store = await rank.open_store(29500, "open")
        assert store is not None
        threads = [rank.start(f"t{at}", self.thread(calls, at + 1, store)) for at, calls in enumerate(prepared[1:])]
        await self.thread(prepared[0], 0, store)(rank)
        for thread in threads:
            await thread.join("join")

    def thread(self, calls: tuple[str, ...], own: int, store: Any) -> Callable[[Rank], Coroutine[Any, Any, None]]:
        async def run(rank: Rank) -> None:
            for name in calls:
                if name == "s":
                    await store.add("count", 1, "count")
                else:
                    await rank.host(name).all_reduce(np.full(1, own), site=f"{name}.reduce")

        return run


class Ordered(Uses):
    ordered_by_objects = True


@pytest.mark.parametrize(("calls", "fewer"), [("a b", True), ("a a", False), ("ab b", True), ("s a", True), ("s s", 0)])
def test_the_same_outcomes_in_fewer_schedules(calls: str, fewer: bool) -> None:
    scripts = tuple(tuple(one) for one in calls.split())
    every, runs = outcomes(Uses(), scripts, world=WORLD)
    seen, tried = outcomes(Ordered(), scripts, world=WORLD)
    assert seen == every
    assert tried < runs if fewer else tried <= runs


def test_a_footprint_without_the_communicator_misses_one(monkeypatch: pytest.MonkeyPatch) -> None:
    every, _ = outcomes(Uses(), (("a",), ("a",)), world=WORLD)
    monkeypatch.setitem(turns.USED, "use", ())
    seen, _ = outcomes(Ordered(), (("a",), ("a",)), world=WORLD)
    assert seen < every
