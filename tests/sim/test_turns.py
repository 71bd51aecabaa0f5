"""Tests that a call reads the state it checks in its own turn: for example, whether a buffer is freed or a stream
captured.

In each world one thread is about to make a call while the other changes the state that the call checks. The faulty twin
checks the state before its turn. Then both threads free a buffer, or a capture misses a kernel.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.backend.journal.journal import Journal
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Buffer, Rank
from dpsim.contract.ops import DECISION_VALUE, KIND
from dpsim.contract.program import Program
from dpsim.contract.world import World
from dpsim.explore import search
from dpsim.explore.explorer import Budget, explore
from tests.programs import Script, set_to, world_of

ALONE = world_of(1, hosts=["own"])


class Two(Program[Any]):
    threaded = True
    ordered_by_flags = True

    def __init__(self, script: Script) -> None:
        self.script = script

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        await self.script(rank)


def seen(script: Script, world: World = ALONE) -> set[tuple[Any, ...]]:
    """Returns how the runs ended and what they decided, over all schedules."""
    subject = Subject(world, Two(script), switched_off=("RACE:*", "STALE:*"), repeats=False)
    found = set[tuple[Any, ...]]()

    def once(asked: Any) -> list[Any]:
        run, _ = subject.run(asked)
        found.add((run.ends[0], *[raw[DECISION_VALUE] for raw in run.journals[0] if raw[KIND] == "decision"]))
        return []

    assert explore(once, search("dpor"), Budget(3000, stop_at_first=False)).verdict in ("proven", "violated")
    return found


def frees(rank: Rank, buffer: Buffer) -> None:
    try:
        buffer.free()
    except RuntimeError:
        rank.decide("refused", rank.thread, "own")


async def freed_twice(rank: Rank) -> None:
    buffer = rank.stream("main").alloc(1, "int32", "buffer")

    async def other(rank: Rank) -> None:
        frees(rank, buffer)

    rank.start("t", other)
    frees(rank, buffer)


async def launched_and_freed(rank: Rank) -> None:
    main, flag = rank.stream("main"), rank.flag("f")
    buffer = main.alloc(1, "int32", "buffer")

    async def other(rank: Rank) -> None:
        flag.set("set")
        try:
            main.launch("kernel", set_to, writes=[buffer], args=(1,))
        except RuntimeError:
            rank.decide("refused", rank.thread, "own")

    rank.start("t", other)
    await flag.wait("wait")
    buffer.free()


async def launched_and_captured(rank: Rank) -> None:
    main, flag, done = rank.stream("main"), rank.flag("f"), rank.flag("done")
    buffer = main.alloc(1, "int32", "buffer")
    main.launch("begin", set_to, writes=[buffer], args=(0,))

    async def other(rank: Rank) -> None:
        flag.set("set")
        main.launch("kernel", set_to, writes=[buffer], args=(1,))
        done.set("done")

    rank.start("t", other)
    await flag.wait("wait")
    async with rank.graph("g").capture(main, mode="thread_local"):
        await done.wait("done.wait")
    rank.decide("left", int((await buffer.read("read"))[0]), "own")


async def grouped_and_reduced(rank: Rank) -> None:
    main, side, pair = rank.stream("main"), rank.stream("side"), rank.device("pair")
    sent, come, own = main.alloc(1, "int32", "sent"), main.alloc(1, "int32", "come"), side.alloc(1, "int32", "own")
    main.launch("begin", set_to, writes=[sent], args=(1,))
    side.launch("begin.own", set_to, writes=[own], args=(1,))

    async def other(_: Rank) -> None:
        try:
            pair.all_reduce(own, side, site="reduce")
        except RuntimeError:
            rank.decide("refused", rank.thread, "own")

    if rank.rank == 0:
        rank.start("t", other)
    with pair.coalesced(main):
        pair.send(sent, 1 - rank.rank, main, site="send")
        pair.recv(come, 1 - rank.rank, main, site="recv")
    if rank.rank == 1:
        pair.all_reduce(own, side, site="reduce")


def test_a_thread_finds_a_group_open_or_not_depending_on_its_turn() -> None:
    """A collective of another thread raises while a coalesced group is open, and not otherwise."""
    ends = {one[1:] for one in seen(grouped_and_reduced, world_of(2, hosts=["own"], devices=["pair"]))}
    assert ends == {(), ("t",)}


CASES: list[tuple[Script, set[tuple[Any, ...]]]] = [
    (launched_and_freed, {("finished",), ("finished", "t")}),
    (launched_and_captured, {("finished", 1), ("finished", 0)}),
]


@pytest.mark.parametrize(("script", "everything"), CASES)
def test_a_thread_observes_the_state_of_its_turn(
    script: Script, everything: set[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seen(script) == everything
    monkeypatch.setattr(Journal, "come", lambda self, site: None)
    assert seen(script) < everything


def test_the_later_of_two_frees_is_refused() -> None:
    assert seen(freed_twice) == {("finished", "t"), ("finished", "main")}
