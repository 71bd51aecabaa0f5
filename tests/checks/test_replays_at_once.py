"""Tests which replays of two graphs count as at once. They use one communicator on two streams, and neither a stream
nor an event nor the host orders them. Each ordered program has a twin without this order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from dpsim.checks import replays_at_once
from dpsim.contract.interface import Buffer, Graph, Rank, Stream
from tests.programs import Script, explored, run, set_to, world_of

Calls = Callable[[Stream, Stream, Buffer], Awaitable[None]]

WORLD = world_of(2, devices=["d", "e"])


async def nothing(one: Stream, other: Stream, x: Buffer) -> None:
    pass


async def waits(one: Stream, other: Stream, x: Buffer) -> None:
    other.wait(one.record())


async def synchronizes(one: Stream, other: Stream, x: Buffer) -> None:
    await one.record().synchronize("sync")


async def reads(one: Stream, other: Stream, x: Buffer) -> None:
    await x.read("read", one)


async def synchronizes_the_other(one: Stream, other: Stream, x: Buffer) -> None:
    await other.record().synchronize("sync")


async def waits_the_wrong_way(one: Stream, other: Stream, x: Buffer) -> None:
    one.wait(other.record())


def two_graphs(
    between: Calls = nothing,
    before: Calls = nothing,
    communicators: str = "dd",
    streams: str = "st",
    graphs: str = "gk",
) -> Script:
    """Returns a program that captures a graph with an all-reduce on each communicator. It replays each on its stream,
    with calls before both replays and between them.
    """

    async def script(rank: Rank) -> None:
        made: dict[str, Graph] = {}
        first, second = (rank.stream(name) for name in streams)
        of = {name: first.alloc(1, "int32", name) for name in graphs}
        for name, communicator in zip(graphs, communicators, strict=True):
            first.launch("fill", set_to, writes=[of[name]], args=(1,))
            if name not in made:
                made[name] = rank.graph(name)
                async with made[name].capture(first):
                    rank.device(communicator).all_reduce(of[name], first)
        second.wait(first.record())
        await before(first, second, of[graphs[0]])
        made[graphs[0]].replay(first, "one")
        await between(first, second, of[graphs[0]])
        made[graphs[1]].replay(second, "other")

    return script


def pairs(script: Script) -> list[tuple[str, str, str]]:
    journal = run(WORLD, script).journals[0]
    return [
        (one.first.partition(",")[0], one.second.partition(",")[0], one.communicator)
        for one in replays_at_once.pairs(journal)
    ]


@pytest.mark.parametrize(
    "script",
    [
        two_graphs(),
        two_graphs(before=waits),
        two_graphs(before=synchronizes),
        two_graphs(synchronizes_the_other),
        two_graphs(waits_the_wrong_way),
    ],
)
def test_replays_that_nothing_orders_are_at_once(script: Script) -> None:
    assert pairs(script) == [("one", "other", "d")]


@pytest.mark.parametrize(
    "script",
    [
        two_graphs(waits),
        two_graphs(synchronizes),
        two_graphs(reads),
        two_graphs(communicators="de"),
        two_graphs(streams="ss"),
        two_graphs(graphs="gg"),
    ],
)
def test_replays_in_an_order_or_without_a_common_communicator_are_not(script: Script) -> None:
    assert pairs(script) == []


@pytest.mark.parametrize(("between", "named"), [(nothing, True), (waits, False)])
def test_a_proof_names_both_replays(between: Calls, named: bool) -> None:
    found = explored(WORLD, two_graphs(between))
    assert found.verdict == "proven"
    said = [one for one in found.assumes if "(one, tests/checks/test_replays_at_once.py:" in one]
    assert len(said) == named
    assert all(", and other, tests/checks/test_replays_at_once.py:" in one and one.endswith(", on d)") for one in said)
