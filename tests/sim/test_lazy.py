"""Communicators that are made at their first use: a meeting of all members, which stand in that call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import World
from tests.programs import Scripted, world_of
from tests.sim.programs import everywhere, filled, numbers, told
from tests.worlds.case import Case
from tests.worlds.explored import missed


def lazy(ranks: int = 2) -> World:
    return replace(told(ranks), lazy=True)


async def sums(rank: Rank) -> Any:
    main = rank.stream("main")
    x = filled(main, [rank.rank + 1])
    rank.device("d").all_reduce(x, main)
    return numbers(await x.read("read"))


def test_it_computes_the_same() -> None:
    for seen in everywhere(sums, lazy()):
        assert seen.learned == [(3,), (3,)]
        assert not seen.findings


async def crosswise(rank: Rank) -> Any:
    """Each uses another communicator first: on streams of their own that is no order, for hosts it is."""
    order = ("d", "e") if rank.rank else ("e", "d")
    kept = []
    for kind in order:
        stream = rank.stream(kind)
        x = filled(stream, [1], site=f"x.{kind}")
        rank.device(kind).all_reduce(x, stream)
        kept.append(x)
    return tuple([numbers(await x.read("read")) for x in kept])


def test_first_uses_in_another_order_hang_where_they_are_meetings() -> None:
    for seen in everywhere(crosswise, told()):
        assert seen.run.finished
    for seen in everywhere(crosswise, lazy()):
        assert seen.run.ends == ["blocked", "blocked"]
        assert seen.classes
        assert seen.classes[0].startswith("HANG:")


async def captured(rank: Rank, warm: bool) -> Any:
    main = rank.stream("main")
    x = filled(main, [1])
    if warm:
        rank.device("d").all_reduce(x, main, site="warm_up")
        await x.read("warm")
    async with rank.graph("g").capture(main):
        rank.device("d").all_reduce(x, main, site="captured")
    return None


@pytest.mark.parametrize("warm", [True, False])
def test_a_first_use_in_a_capture_is_refused(warm: bool) -> None:
    """M-ST-7."""

    async def script(rank: Rank) -> Any:
        return await captured(rank, warm)

    for seen in everywhere(script, lazy()):
        assert ("CRASH:CAPTUREERROR" in seen.classes) != warm, seen.findings
    for seen in everywhere(script, told()):
        assert "CRASH:CAPTUREERROR" not in seen.classes


async def pairs(rank: Rank) -> Any:
    """A transfer has a communicator of its own for its pair, so rank 2 is not waited for."""
    main = rank.stream("main")
    x = filled(main, [rank.rank])
    if rank.rank == 0:
        rank.device("d").send(x, 1, main)
    elif rank.rank == 1:
        rank.device("d").recv(x, 0, main)
    return numbers(await x.read("read"))


def test_a_pair_meets_alone() -> None:
    for seen in everywhere(pairs, lazy(3)):
        assert seen.learned == [(0,), (0,), (2,)]


@pytest.mark.parametrize("script", [sums, crosswise, pairs], ids=lambda script: script.__name__)
def test_dpor_sees_what_all_schedules_show(script: Any) -> None:
    world = replace(world_of(3 if script is pairs else 2, devices=["d", "e"]), lazy=True)

    async def alone(rank: Rank) -> None:
        await script(rank)

    program: Program[Any] = Scripted(alone)
    assert missed(Case(script.__name__, world, program)) == (0, 0, 0)
