"""Tests the rules of torch's caching allocator one by one: sizes, pools, split and merged blocks, and segments that
grow.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from dpsim.sim.memory.allocator import Block, CachingAllocator

KIB, MIB = 1 << 10, 1 << 20


def sizes(*requests: int, stream: str = "s", expandable: bool = False) -> tuple[list[int], int]:
    """Returns the sizes of the blocks for these requests in bytes, all kept, and the bytes reserved on the device."""
    pool = CachingAllocator(expandable)
    return [pool.alloc(stream, request).size for request in requests], pool.reserved


@pytest.mark.parametrize(("request_", "block", "taken"), [
    (1, 512, 2 * MIB),
    (512, 512, 2 * MIB),
    (513, 1024, 2 * MIB),
    (MIB, MIB, 2 * MIB),  # the largest block of the small pool
    (MIB + 1, MIB + 512, 20 * MIB),  # the smallest block of the large pool
    (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
    (10 * MIB, 10 * MIB, 10 * MIB),  # a larger request gets its own segment, rounded up to 2 MiB
    (10 * MIB + 1, 10 * MIB + 512, 12 * MIB),
    (19 * MIB, 20 * MIB, 20 * MIB),  # the rest of the segment is too small to split off
    (19 * MIB - 512, 19 * MIB - 512, 20 * MIB),
])  # fmt: skip
def test_requests_are_rounded_and_served_from_two_sizes_of_segment(request_: int, block: int, taken: int) -> None:
    assert sizes(request_) == ([block], taken)


@pytest.mark.parametrize(("left", "split"), [(MIB, False), (MIB + 512, True)])
def test_a_large_block_is_split_if_more_than_a_mebibyte_is_left(left: int, split: bool) -> None:
    pool = CachingAllocator()
    pool.free(pool.alloc("s", 9 * MIB))  # the pool now has a whole free segment of 20 MiB
    assert pool.alloc("s", 20 * MIB - left).size == 20 * MIB - (left if split else 0)


def test_a_small_block_is_split_down_to_512_bytes() -> None:
    pool = CachingAllocator()
    blocks = [pool.alloc("s", 512) for _ in range(4096)]
    assert [block.start for block in blocks] == list(range(0, 2 * MIB, 512))
    assert pool.reserved == 2 * MIB


@pytest.mark.parametrize(("freed", "place"), [("ab", (0, 2048)), ("ba", (0, 2048)), ("ac", None), ("abc", (0, 2048))])
def test_free_neighbours_merge(freed: str, place: Any) -> None:
    """The test frees some of three blocks of 1 KiB; a fourth block behind them stays allocated. Two freed neighbours
    merge and serve a request of 2 KiB.
    """
    pool = CachingAllocator()
    blocks = {name: pool.alloc("s", 1024) for name in "abcd"}
    for name in freed:
        pool.free(blocks[name])
    again = pool.alloc("s", 2048).place
    assert again == ((0, *place) if place else (0, 4096, 6144))


def test_the_smallest_that_fits_is_taken_then_the_lowest() -> None:
    pool = CachingAllocator()
    held = [pool.alloc("s", size) for size in (4096, 512, 1024, 512, 2048, 512, 1024, 512)]
    for block in held[::2]:
        pool.free(block)
    assert pool.alloc("s", 1000).place == held[2].place
    assert pool.alloc("s", 1000).place == held[6].place
    assert pool.alloc("s", 1000).start == held[4].start


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
    """The test frees three blocks of 15 MiB. In an expandable segment they merge and serve 45 MiB; fixed segments do
    not merge, so the allocator reserves another one.
    """
    pool = CachingAllocator(expandable)
    blocks = [pool.alloc("s", 15 * MIB) for _ in range(3)]
    assert [block.segment.number for block in blocks] == segments
    for block in blocks:
        pool.free(block)
    before = pool.reserved
    assert pool.alloc("s", 45 * MIB).segment.number == again
    assert (pool.reserved > before) == (not expandable)


@pytest.mark.parametrize(("requests", "taken"), [
    ([1 * MIB, 512], 2 * MIB),
    ([11 * MIB], 20 * MIB),
    ([21 * MIB], 40 * MIB),
    ([20 * MIB, 20 * MIB], 40 * MIB),
    ([9 * MIB, 9 * MIB, 9 * MIB], 40 * MIB),  # pages count from the segment's start, not from the request's
    ([11 * MIB] * 24, 280 * MIB),  # the first segment of 13 pages is full, so another segment begins
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
        rng, pool = random.Random(seed), CachingAllocator(expandable=seed % 2 == 0)
        live: list[Block] = []
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
