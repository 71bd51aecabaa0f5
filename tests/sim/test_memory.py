"""Tests memory that a program frees and allocates again, and uses that come too late.

The simulated memory has real content. So the tests also check the wrong number that a device would return.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import ALLOC_PLACE, KIND, Place
from tests.programs import copy, set_to
from tests.sim.programs import Twins, everywhere, filled, holds, numbers, see, usual_world

twins = Twins()

# ---- programs


async def beside(rank: Rank, keeps: bool, waits: bool = True) -> Any:
    """A side stream copies memory, which the program then frees and allocates again on the main stream. With `keeps`,
    it calls record_stream.
    """
    main, side = rank.stream("main"), rank.stream("side")
    old, result = filled(main, [7], "old"), side.alloc(1, "int32", "result")
    if waits:
        side.wait_stream(main)
    side.launch("copy", copy, reads=[old], writes=[result], cost=90_000)
    if keeps:
        old.record_stream(side)
    old.free()
    filled(main, [9], "new")
    return numbers(await result.read("read"))


@twins("RACE:REUSED_IN_FLIGHT", learned=[(7,)])
async def memory_that_a_side_stream_uses_is_kept_by_record_stream(rank: Rank, right: bool) -> Any:
    return await beside(rank, keeps=right)


@twins("RACE:BUFFER", learned=[(7,)], also=["RACE:REUSED_IN_FLIGHT"])
async def record_stream_is_no_wait(rank: Rank, right: bool) -> Any:
    """record_stream keeps the memory, but does not order the streams. In the faulty twin the side stream does not wait
    for the write.
    """
    return await beside(rank, keeps=True, waits=right)


@twins("RACE:REUSED_IN_FLIGHT", learned=[(7,)])
async def record_stream_names_the_stream_that_uses_it(rank: Rank, right: bool) -> Any:
    main, side, third = rank.stream("main"), rank.stream("side"), rank.stream("third")
    old, result = filled(main, [7], "old"), side.alloc(1, "int32", "result")
    side.wait_stream(main)
    side.launch("copy", copy, reads=[old], writes=[result], cost=90_000)
    old.record_stream(side if right else third)
    old.free()
    filled(main, [9], "new")
    return numbers(await result.read("read"))


async def round_trip(rank: Rank, keeps: bool) -> Any:
    """The side stream copies `old` after a round trip of messages, which starts after the main stream wrote `new`. The
    two ways use two communicators: on one, the receive would have to end before the send starts.
    """
    main, side, there, back = rank.stream("main"), rank.stream("side"), rank.device("d"), rank.device("e")
    if rank.rank == 1:
        x = main.alloc(1, "int32", "x")
        there.recv(x, 0, main)
        back.send(x, 0, main)
        return None
    old, result, token = filled(main, [7], "old"), side.alloc(1, "int32", "result"), side.alloc(1, "int32", "token")
    side.wait_stream(main)
    back.recv(token, 1, side)
    side.launch("copy", copy, reads=[old], writes=[result])
    if keeps:
        old.record_stream(side)
    old.free()
    there.send(filled(main, [9], "new"), 1, main)
    return numbers(await result.read("read"))


@twins("STALE:REUSED_BLOCK", learned=[(7,), None])
async def an_order_does_not_bring_the_old_content_back(rank: Rank, right: bool) -> Any:
    """In the faulty twin all is in order, so there is no race. But the copy runs after the memory was written anew."""
    return await round_trip(rank, keeps=right)


@twins("RACE:REUSED_IN_FLIGHT", learned=[(7,)])
async def instead_the_owner_may_wait_before_it_frees(rank: Rank, right: bool) -> Any:
    main, side = rank.stream("main"), rank.stream("side")
    old, result = filled(main, [7], "old"), side.alloc(1, "int32", "result")
    side.wait_stream(main)
    side.launch("copy", copy, reads=[old], writes=[result], cost=90_000)
    if right:
        main.wait_stream(side)
    old.free()
    filled(main, [9], "new")
    return numbers(await result.read("read"))


@twins("CRASH:RUNTIMEERROR", learned=[(7,)])
async def a_freed_buffer_is_not_used_again(rank: Rank, right: bool) -> Any:
    """A program may not launch work on a freed buffer, even on a stream that record_stream named. record_stream covers
    only the work that exists at the free.
    """
    main, side = rank.stream("main"), rank.stream("side")
    old, result = filled(main, [7], "old"), side.alloc(1, "int32", "result")
    side.wait_stream(main)
    old.record_stream(side)
    if not right:
        old.free()
    side.launch("copy", copy, reads=[old], writes=[result])
    if right:
        old.free()
    return numbers(await result.read("read"))


@twins("CRASH:RUNTIMEERROR", learned=[(7,)])
async def views_of_a_freed_buffer_are_not_used(rank: Rank, right: bool) -> Any:
    old = filled(rank.stream("main"), 7, "old")
    part = old.view(0, 1)
    if not right:
        old.free()
    return numbers(await part.read("read"))


@twins("STALE:UNWRITTEN", learned=[(0,)])
async def new_memory_has_the_content_of_the_old(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    filled(main, [7], "old").free()
    new = main.alloc(1, "int32", "new")
    if right:
        main.launch("zero", set_to, writes=[new], args=(0,))
    return numbers(await new.read("read"))


@twins("CRASH:RUNTIMEERROR", learned=[None])
async def a_buffer_is_freed_once(rank: Rank, right: bool) -> Any:
    x = filled(rank.stream("main"), [7])
    x.free()
    if not right:
        x.free()


@twins("CRASH:RUNTIMEERROR", learned=[None])
async def a_view_ends_with_its_buffer(rank: Rank, right: bool) -> Any:
    x = filled(rank.stream("main"), [7])
    (x if right else x.view(0, 1)).free()


@twins("RACE:REUSED_IN_FLIGHT", learned=[(7,)], expandable=True)
async def segments_that_grow_reuse_by_the_same_rule(rank: Rank, right: bool) -> Any:
    return await beside(rank, keeps=right)


test_the_healthy_program_holds, test_the_wrong_twin_is_caught = twins.tests()


# ---- the wrong numbers that a device would return


def test_memory_that_is_reused_too_early_gives_a_wrong_number() -> None:
    async def script(rank: Rank) -> Any:
        return await beside(rank, keeps=False)

    learned = {seen.mode: seen.learned for seen in everywhere(script, usual_world(1))}
    assert learned["timed"] == [(9,)], "the copy comes after the overwrite"
    assert {number for [(number,)] in learned.values()} == {7, 9}, (
        "in other schedules the copy comes before the overwrite"
    )


def test_rewritten_memory_has_the_new_content() -> None:
    async def script(rank: Rank) -> Any:
        return await round_trip(rank, keeps=False)

    assert {seen.learned[0] for seen in everywhere(script)} == {(9,)}


def test_a_new_buffer_has_the_content_of_its_former_memory() -> None:
    async def script(rank: Rank) -> Any:
        return await new_memory_has_the_content_of_the_old(rank, False)

    assert {tuple(seen.learned) for seen in everywhere(script, usual_world(1))} == {((7,),)}


# ---- addresses of blocks


def places(script: Any, mode: str = "timed", **options: Any) -> list[Place]:
    """Returns the addresses of a program's buffers, in the order of their allocation."""
    [journal] = see(script, usual_world(1), mode, **options).run.journals
    return [raw[ALLOC_PLACE] for raw in journal if raw[KIND] == "alloc"]


@pytest.mark.parametrize("by", ["main", "side"])
@pytest.mark.parametrize("expandable", [False, True])
def test_a_freed_block_is_reused_at_once_and_only_by_its_stream(by: str, expandable: bool) -> None:
    """The same stream gets a freed block at once, while the kernel that writes it still runs. Later kernels of the
    stream run after that kernel. Another stream does not get the block.
    """

    async def script(rank: Rank) -> None:
        filled(rank.stream("main"), [1], cost=90_000).free()
        filled(rank.stream(by), [2])

    holds(script, None, usual_world(1))
    old, new = places(script, expandable=expandable)
    assert (old == new) == (by == "main")


@pytest.mark.parametrize(("sleep", "again"), [(0, False), (89_000, False), (92_000, True)])
def test_a_block_kept_by_record_stream_is_reused_after_the_copy(sleep: int, again: bool) -> None:
    """A block kept by record_stream serves the next allocation after the copy on the side stream has ended."""

    async def script(rank: Rank) -> None:
        main, side = rank.stream("main"), rank.stream("side")
        old = filled(main, [1], cost=1_000)
        side.wait_stream(main)
        side.launch("copy", copy, reads=[old], writes=[side.alloc(1, "int32", "result")], cost=90_000)
        old.record_stream(side)
        old.free()
        await rank.sleep(sleep, "sleep")
        filled(main, [2])

    old, _, new = places(script)
    assert (old == new) == again


@pytest.mark.parametrize("waits", [False, True])
def test_without_time_the_allocator_reuses_a_block_only_after_the_host_waited(waits: bool) -> None:
    async def script(rank: Rank) -> None:
        main, side = rank.stream("main"), rank.stream("side")
        old, result = filled(main, [1]), side.alloc(1, "int32", "result")
        side.wait_stream(main)
        side.launch("copy", copy, reads=[old], writes=[result])
        old.record_stream(side)
        old.free()
        if waits:
            await result.read("read")
        filled(main, [2])

    for mode in ("first", "last", "seed 0"):
        old, _, new = places(script, mode)
        assert (old == new) == waits, mode
