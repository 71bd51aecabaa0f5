"""Tests collectives in runs without time, in which each member may complete before the others do. The tests check which
member may complete before which, and what its completion proves.

A protocol that uses a broadcast as a barrier works as long as the root waits, and fails if the root does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import ALLOC_PLACE, KIND, LEARNED_OUTCOME, SITE
from dpsim.contract.world import Run, World
from dpsim.sim.collectives import parts
from dpsim.sim.collectives.parts import PartedGroup
from tests.programs import Script, Scripted, explored, set_to, world_of
from tests.sim.programs import everywhere, filled, holds, numbers, usual_world
from tests.worlds.brute import schedules
from tests.worlds.case import Case
from tests.worlds.explored import missed


def runs(world: World, script: Script, memory: bool = False) -> list[tuple[list[int], Run]]:
    """Returns all schedules of a world, each as the indices of its draws and the run."""
    case = Case("parts", world, Scripted(script), memory=memory)
    return [([index for _, index in strategy.draws], run) for strategy, run in schedules(case)]


def learned(run: Run, rank: int) -> list[Any]:
    return [raw[LEARNED_OUTCOME] for raw in run.journals[rank] if raw[KIND] == "learned"]


# ---- what the completion of a peer proves


def reuses_after_a_message(through: Callable[[Rank], Any]) -> Script:
    """Rank 1 sends a message when its part of the collective has completed. Rank 0 then allocates. It may get the
    memory that it freed behind its own part, if dpsim assumes that this part has completed.
    """

    async def script(rank: Rank) -> None:
        main, side = rank.stream("main"), rank.stream("side")
        lent = side.alloc(2, "int32", "lent")
        through(rank)
        lent.record_stream(main)
        lent.free()
        if rank.rank:
            await main.record().synchronize("through")
            rank.send(0, "in", "through", "tell")
        else:
            await rank.mailbox("in").get("told")
            side.alloc(2, "int32", "taken")

    return script


def reduces(rank: Rank) -> None:
    rank.device("d").all_reduce(filled(rank.stream("main"), [1]), rank.stream("main"))


def sends(rank: Rank) -> None:
    x = filled(rank.stream("main"), [1])
    if rank.rank == 0:
        rank.device("d").send(x, 1, rank.stream("main"))
    else:
        rank.device("d").recv(x, 0, rank.stream("main"))


def reuses(through: Callable[[Rank], Any]) -> set[bool]:
    """Returns whether rank 0 got the freed memory, over all schedules."""
    found = set()
    for _, run in runs(world_of(2, devices=["d"]), reuses_after_a_message(through)):
        taken = {raw[SITE]: raw[ALLOC_PLACE] for raw in run.journals[0] if raw[KIND] == "alloc"}
        found.add(taken["lent"] == taken["taken"])
    return found


@pytest.mark.parametrize("through", [reduces, sends])
def test_a_peer_that_has_finished_a_collective_does_not_show_that_this_rank_has(through: Callable[[Rank], Any]) -> None:
    assert reuses(through) == {False}


def test_twin_one_op_for_all_members_reports_the_end_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_one_op(self: PartedGroup, rank: int, meeting: parts.Meeting, end: Any = None) -> Any:
        meeting.together.append(rank)
        self.machine.mark(meeting.all_arrived)
        return meeting.all_arrived

    monkeypatch.setattr(PartedGroup, "_with_all", in_one_op)
    assert reuses(reduces) == {True}


# ---- when a member sends its data


async def overwrites_what_is_broadcast(rank: Rank) -> None:
    main, side = rank.stream("main"), rank.stream("side")
    x = main.alloc(1, "int32", "x")
    main.launch("begin", set_to, writes=[x], args=(5 - 5 * rank.rank,))
    side.wait_stream(main)
    rank.device("d").broadcast(x, 0, main)
    if rank.rank == 0:
        side.launch("overwrite", set_to, writes=[x], args=(7,))
    else:
        await x.read("read", main)


def test_a_root_reads_its_memory_at_its_own_point() -> None:
    """Rank 1 may receive the old value or the new one, whether the root waits or not."""
    world = world_of(2, devices=["d"])
    for drawn in (0, 1):
        seen = [run for draws, run in runs(world, overwrites_what_is_broadcast, memory=True) if draws == [drawn]]
        assert len({learned(run, 1)[0] for run in seen}) == 2
    assert missed(Case("gives", world, Scripted(overwrites_what_is_broadcast), memory=True))[0] == 0


def test_a_root_may_overwrite_its_memory_after_its_send() -> None:
    """A late receiver gets the data that the root's memory had at its send, for each root and on all streams."""

    async def script(rank: Rank) -> Any:
        main, side, group = rank.stream("main"), rank.stream("side"), rank.device("d")
        x = filled(main, [10 * rank.rank] * 4)
        if rank.rank == 1:
            await rank.sleep(500_000, "sleep")
        for index in range(3):
            one, on = x.view(index, index + 1), (main, side)[index % 2]
            on.wait_stream((side, main)[index % 2])
            on.launch("step", set_to, writes=[one], args=(10 * rank.rank + index,))
            group.broadcast(one, index % 2, on)
            if rank.rank == index % 2:
                on.launch("overwrite", set_to, writes=[one], args=(9,))
        group.all_reduce(x.view(3, 4), main)
        main.wait_stream(side)
        return numbers(await x.read("read"))

    holds(script, [(9, 11, 9, 10), (0, 9, 2, 10)], usual_world(2))


def test_twin_a_root_that_reads_its_memory_late_sends_the_overwritten_value(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(rank: Rank) -> Any:
        main = rank.stream("main")
        x = filled(main, [5 - 5 * rank.rank])
        if rank.rank:
            await rank.mailbox("in").get("come")
        rank.device("d").broadcast(x, 0, main)
        if rank.rank == 0:
            main.launch("overwrite", set_to, writes=[x], args=(7,))
            await x.read("through")
            rank.send(1, "in", "come", "come")
        return numbers(await x.read("read"))

    values = {tuple(seen.learned) for seen in everywhere(script, usual_world(2)) if seen.run.finished}
    assert values == {((7,), (5,))}
    monkeypatch.setattr("dpsim.sim.collectives.contribution.Contribution.keep", lambda self: None)
    values = {tuple(seen.learned) for seen in everywhere(script, usual_world(2)) if seen.run.finished}
    assert values == {((7,), (7,))}


# ---- slots, and the order of a communicator


async def broadcasts_beside_a_sum(rank: Rank) -> None:
    """Makes a broadcast and an all-reduce on two streams, on a GPU with one slot, so that one of them waits for the
    other.
    """
    main, side = rank.stream("main"), rank.stream("side")
    x, y = filled(main, [rank.rank]), filled(side, [rank.rank], "y")
    rank.device("d").broadcast(x, 0, main)
    if rank.rank:
        await x.read("read", main)
    rank.device("e").all_reduce(y, side)


def test_an_early_root_releases_its_slot_when_it_has_finished() -> None:
    """A root that does not wait frees its slot when it has completed. The ranks hang only if rank 0 starts the sum
    first, whether the root waits or not.
    """
    world = world_of(2, devices=["d", "e"], residency=1)
    done = runs(world, broadcasts_beside_a_sum)
    for drawn in (0, 1):
        assert {run.finished for draws, run in done if draws == [drawn]} == {True, False}
    assert missed(Case("slots", world, Scripted(broadcasts_beside_a_sum))) == (0, 0, 0)


def behind_a_sum(group: str) -> Script:
    """Rank 0 broadcasts after a sum. Rank 1 joins the sum when it learns that the broadcast has completed at rank 0."""

    async def script(rank: Rank) -> Any:
        main, side = rank.stream("main"), rank.stream("side")
        one, two = filled(main, [1], "one"), filled(side, [2], "two")
        if rank.rank:
            await rank.mailbox("box").get("told")
        rank.device("d").all_reduce(one, main)
        rank.device(group).broadcast(two, 0, side)
        if not rank.rank:
            await two.read("through", side)
            rank.send(1, "box", "through", "tell")
        return numbers(await one.read("read"))

    return script


@pytest.mark.parametrize(("group", "ends"), [("d", "blocked"), ("e", "finished")])
def test_a_sum_blocks_an_eager_root_on_the_same_communicator(group: str, ends: str) -> None:
    seen = {seen.mode: seen.run.ends for seen in everywhere(behind_a_sum(group), usual_world(2))}
    assert seen["first"] == [ends] * 2
    assert seen["last"] == ["blocked"] * 2, "the root has to wait"


# ---- the members for which a member waits


async def stays_away(rank: Rank) -> None:
    """Ranks 0 and 1 receive nothing from rank 2, which joins after rank 0 has completed."""
    sizes = (1, 1, 0)
    if rank.rank == 2:
        await rank.mailbox("in").get("come")
    await rank.host("h").all_gather(np.ones(sizes[rank.rank], np.int32), sizes=sizes)
    if rank.rank == 0:
        rank.send(2, "in", "come", "come")


def test_a_member_without_elements_may_be_waited_for_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(3, hosts=["h"])
    assert {run.finished for _, run in runs(world, stays_away)} == {True, False}
    assert explored(world, stays_away).verdict == "violated"
    monkeypatch.setattr(parts, "_wanted", lambda issue, rank, members: None)
    assert {run.finished for _, run in runs(world, stays_away)} == {False}, "the twin: all wait for all"


def test_a_part_that_gets_something_from_all_is_no_choice() -> None:
    async def script(rank: Rank) -> None:
        host = rank.host("h")
        await host.all_reduce(np.ones(2, np.int32))
        await host.all_gather(np.ones(1, np.int32))
        await host.all_to_all(np.ones(2, np.int32))
        await host.reduce_scatter(np.ones(2, np.int32))
        await host.barrier()

    assert [draws for draws, _ in runs(world_of(2, hosts=["h"]), script)] == [[]]
