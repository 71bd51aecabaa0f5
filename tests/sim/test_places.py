"""Tests collectives that need several slots of a device at once (`occupy`): two of them can deadlock."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import CommunicatorSpec, World
from dpsim.sim.backend import SimBackend

BOTH = (0, 1)


class Launches(Program[bool]):
    """Two collectives on two streams, of which one takes four slots (the museum's mistake eplb-coop-launch). With
    `prepared`, the second is captured and replayed.
    """

    async def run(self, rank: Rank, prepared: bool) -> None:
        first, second = rank.stream("nccl"), rank.stream("all_to_all")
        x, y = first.alloc(1, "int32", "x"), second.alloc(1, "int32", "y")
        first.launch("fill", _zero, writes=[x])
        second.launch("fill", _zero, writes=[y])
        rank.device("dp").occupy(2)
        rank.device("ep").occupy(4)
        if prepared:
            graph = rank.graph("moe")
            async with graph.capture(second):
                rank.device("ep").all_reduce(y, second)
            rank.device("ep").occupy(1)
        rank.device("dp").all_reduce(x, first)
        if prepared:
            rank.graph("moe").replay(second, "replay")
        else:
            rank.device("ep").all_reduce(y, second)


def _zero(out: Any) -> None:
    out[...] = 0


def ends_of(residency: int, captured: bool) -> set[tuple[str, ...]]:
    device = [CommunicatorSpec(name, name, "device", BOTH) for name in ("dp", "ep")]
    told = World(2, tuple(device), residency=residency)
    ends: set[tuple[str, ...]] = set()
    for seed in range(40):
        draws = random.Random(seed)

        def choose(_: str, options: Sequence[str], draws: random.Random = draws) -> int:
            return draws.randrange(len(options))

        ends.add(tuple(SimBackend(choose=choose).run_program(told, Launches(), captured).ends))
    return ends


@pytest.mark.runs_once
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize(("residency", "hangs"), [(4, True), (5, True), (6, False)])
def test_a_launch_takes_all_its_slots_at_once(residency: int, hangs: bool, captured: bool) -> None:
    """With too few slots, rank 0 gives them to one collective and rank 1 to the other, so both hang. A captured
    collective takes the slots of its capture, also after a later `occupy`.
    """
    ends = ends_of(residency, captured)
    assert (("blocked", "blocked") in ends) == hangs
    assert ("finished", "finished") in ends


def test_a_timed_device_gives_slots_in_the_order_of_arrival() -> None:
    device = [CommunicatorSpec(name, name, "device", BOTH) for name in ("dp", "ep")]
    for residency in (4, 5, 6):
        run = SimBackend().run_program(World(2, tuple(device), residency=residency), Launches(), False)
        assert run.ends == ["finished", "finished"]
