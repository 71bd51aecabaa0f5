"""The caching allocator: which memory a request gets, and what comes of using memory that was given away.

Memory is real here, so beside the finding there is the wrong number that a device would give.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from machine_programs import Twin, Twins, copy, everywhere, filled, holds, numbers, see, set_to, told

from dpsim.interface import Rank
from dpsim.sim.allocator import CachingAllocator, Place

twins = Twins()

KIB, MIB = 1 << 10, 1 << 20

# ---- programs


async def beside(rank: Rank, keeps: bool, waits: bool = True) -> Any:
    """A copy on a side stream of memory that is then freed and taken again on the main stream."""
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
    """It keeps the memory; that the side stream reads it after it was written is another matter."""
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
    """The side stream comes to its copy after a message that was sent when the memory had been written anew."""
    main, side, group = rank.stream("main"), rank.stream("side"), rank.device("d")
    if rank.rank == 1:
        x = main.alloc(1, "int32", "x")
        group.recv(x, 0, main)
        group.send(x, 0, main)
        return None
    old, result, token = filled(main, [7], "old"), side.alloc(1, "int32", "result"), side.alloc(1, "int32", "token")
    side.wait_stream(main)
    group.recv(token, 1, side)
    side.launch("copy", copy, reads=[old], writes=[result])
    if keeps:
        old.record_stream(side)
    old.free()
    group.send(filled(main, [9], "new"), 1, main)
    return numbers(await result.read("read"))


@twins("STALE:REUSED_BLOCK", learned=[(7,), None])
async def an_order_does_not_bring_the_old_content_back(rank: Rank, right: bool) -> Any:
    """No race: all is in order, and the copy comes too late."""
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
    """Not by a stream that record_stream named either: that covers the work which is there at the free."""
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
async def nor_are_its_views(rank: Rank, right: bool) -> Any:
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


@twins.each
def test_the_healthy_program_holds(twin: Twin) -> None:
    twin.check_right()


@twins.each
def test_the_wrong_twin_is_caught(twin: Twin) -> None:
    twin.check_wrong()


# ---- the wrong numbers


def test_memory_that_is_reused_too_early_gives_a_wrong_number() -> None:
    async def script(rank: Rank) -> Any:
        return await beside(rank, keeps=False)

    learned = {seen.mode: seen.learned for seen in everywhere(script, told(1))}
    assert learned["timed"] == [(9,)], "the copy comes after the overwrite"
    assert {number for [(number,)] in learned.values()} == {7, 9}, "in other schedules before it"


def test_memory_that_was_written_anew_has_the_new_content() -> None:
    async def script(rank: Rank) -> Any:
        return await round_trip(rank, keeps=False)

    assert {seen.learned[0] for seen in everywhere(script)} == {(9,)}


def test_what_alloc_gives_is_what_was_left_there() -> None:
    async def script(rank: Rank) -> Any:
        return await new_memory_has_the_content_of_the_old(rank, False)

    assert {tuple(seen.learned) for seen in everywhere(script, told(1))} == {((7,),)}


# ---- places


def places(script: Any, mode: str = "timed", **options: Any) -> list[Place]:
    """Where the buffers of a program lie, in the order of their allocation."""
    [journal] = see(script, told(1), mode, **options).run.journals
    return [raw[9] for raw in journal if raw[0] == "alloc"]


@pytest.mark.parametrize("by", ["main", "side"])
@pytest.mark.parametrize("expandable", [False, True])
def test_a_freed_block_is_reused_at_once_and_only_by_its_stream(by: str, expandable: bool) -> None:
    """While the kernel that writes it is still running: the next one of that stream comes after it."""

    async def script(rank: Rank) -> None:
        filled(rank.stream("main"), [1], cost=90_000).free()
        filled(rank.stream(by), [2])

    holds(script, None, told(1))
    old, new = places(script, expandable=expandable)
    assert (old == new) == (by == "main")


@pytest.mark.parametrize(("sleep", "again"), [(0, False), (89_000, False), (92_000, True)])
def test_a_block_that_was_kept_comes_back_when_its_user_is_through(sleep: int, again: bool) -> None:
    """The next allocation after that finds it."""

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
def test_untimed_the_allocator_knows_only_what_the_host_was_told(waits: bool) -> None:
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


# ---- the rules of torch's allocator, one by one


def sizes(*requests: int, stream: str = "s", expandable: bool = False) -> tuple[list[int], int]:
    """The sizes of blocks for requests of so many bytes, all held, and the memory taken from the device."""
    pool = CachingAllocator(expandable)
    return [pool.alloc(stream, request).size for request in requests], pool.reserved


@pytest.mark.parametrize(("request_", "block", "taken"), [
    (1, 512, 2 * MIB),
    (512, 512, 2 * MIB),
    (513, 1024, 2 * MIB),
    (MIB, MIB, 2 * MIB),  # the largest of the small pool
    (MIB + 1, MIB + 512, 20 * MIB),  # the smallest of the large one
    (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
    (10 * MIB, 10 * MIB, 10 * MIB),  # from here on its own segment, rounded up to 2 MiB
    (10 * MIB + 1, 10 * MIB + 512, 12 * MIB),
    (19 * MIB, 20 * MIB, 20 * MIB),  # what would be left over is too small to be split off
    (19 * MIB - 512, 19 * MIB - 512, 20 * MIB),
])  # fmt: skip
def test_requests_are_rounded_and_come_from_two_sizes_of_segment(request_: int, block: int, taken: int) -> None:
    assert sizes(request_) == ([block], taken)


@pytest.mark.parametrize(("left", "split"), [(MIB, False), (MIB + 512, True)])
def test_a_large_block_is_split_if_more_than_a_mebibyte_is_left(left: int, split: bool) -> None:
    pool = CachingAllocator()
    pool.free(pool.alloc("s", 9 * MIB))  # a segment of 20 MiB, whole again
    assert pool.alloc("s", 20 * MIB - left).size == 20 * MIB - (left if split else 0)


def test_a_small_block_is_split_down_to_512_bytes() -> None:
    pool = CachingAllocator()
    blocks = [pool.alloc("s", 512) for _ in range(4096)]
    assert [block.start for block in blocks] == list(range(0, 2 * MIB, 512))
    assert pool.reserved == 2 * MIB


@pytest.mark.parametrize(("freed", "place"), [("ab", (0, 2048)), ("ba", (0, 2048)), ("ac", None), ("abc", (0, 2048))])
def test_free_neighbours_merge(freed: str, place: Any) -> None:
    """Three blocks of 1 KiB and one behind them that stays: two that lie side by side make room for 2 KiB."""
    pool = CachingAllocator()
    blocks = {name: pool.alloc("s", 1024) for name in "abcd"}
    for name in freed:
        pool.free(blocks[name])
    again = pool.alloc("s", 2048).place
    assert again == (Place(0, *place) if place else Place(0, 4096, 6144))


def test_the_smallest_that_fits_is_taken_then_the_lowest() -> None:
    pool = CachingAllocator()
    held = [pool.alloc("s", size) for size in (4096, 512, 1024, 512, 2048, 512, 1024, 512)]
    for block in held[::2]:
        pool.free(block)
    assert pool.alloc("s", 1000).place == held[2].place
    assert pool.alloc("s", 1000).place == held[6].place
    assert pool.alloc("s", 1000).place.start == held[4].place.start


def test_small_and_large_requests_do_not_share_segments() -> None:
    pool = CachingAllocator()
    pool.free(pool.alloc("s", 5 * MIB))
    assert pool.alloc("s", 512).segment.number == 1
    assert pool.reserved == 22 * MIB


@pytest.mark.parametrize("expandable", [False, True])
def test_streams_do_not_share_segments(expandable: bool) -> None:
    pool = CachingAllocator(expandable)
    pool.free(pool.alloc("a", 512))
    assert pool.alloc("b", 512).segment.number == 1


@pytest.mark.parametrize(("expandable", "segments", "again"), [(False, [0, 1, 2], 3), (True, [0, 0, 0], 0)])
def test_a_segment_that_grows_merges_what_fixed_ones_cannot(expandable: bool, segments: list[int], again: int) -> None:
    """Three blocks of 15 MiB, freed: one request of 45 MiB fits where they lay, or needs a segment of its own."""
    pool = CachingAllocator(expandable)
    blocks = [pool.alloc("s", 15 * MIB) for _ in range(3)]
    assert [block.segment.number for block in blocks] == segments
    for block in blocks:
        pool.free(block)
    before = pool.reserved
    assert pool.alloc("s", 45 * MIB).segment.number == again
    assert (pool.reserved > before) == (not expandable)


PAGES = pytest.mark.xfail(
    reason="a segment grows by whole pages of 2 or 20 MiB from its own start, not from where the request lies"
)


@pytest.mark.parametrize(("requests", "taken"), [
    ([1 * MIB, 512], 2 * MIB),
    ([11 * MIB], 20 * MIB),
    ([21 * MIB], 40 * MIB),
    ([20 * MIB, 20 * MIB], 40 * MIB),
    pytest.param([9 * MIB, 9 * MIB, 9 * MIB], 40 * MIB, marks=PAGES),
])  # fmt: skip
def test_a_segment_grows_by_pages(requests: list[int], taken: int) -> None:
    assert sizes(*requests, expandable=True)[1] == taken


def test_memory_is_asked_of_the_device_only_when_no_free_block_fits() -> None:
    for expandable in (False, True):
        pool = CachingAllocator(expandable)
        for _ in range(50):
            held = [pool.alloc("s", size * KIB) for size in (1, 700, 3_000, 12_000)]
            for block in held:
                pool.free(block)
        assert pool.reserved <= 2 * MIB + 20 * MIB + 12 * MIB + 8 * MIB


def test_blocks_never_overlap_and_are_reused() -> None:
    for seed in range(30):
        rng, pool, live = random.Random(seed), CachingAllocator(expandable=seed % 2 == 0), []
        for _ in range(300):
            if live and rng.random() < 0.5:
                pool.free(live.pop(rng.randrange(len(live))))
            else:
                live.append(pool.alloc(rng.choice("ab"), rng.choice([1, 600, 5_000, 700_000, 3 << 20, 12 << 20])))
            ordered = sorted(block.place for block in live)
            assert all(a[0] < b[0] or a[2] <= b[1] for a, b in itertools.pairwise(ordered))
        for block in live:
            pool.free(block)
        before = pool.reserved
        pool.alloc("a", 600)
        assert pool.reserved == before
