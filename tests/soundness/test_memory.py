"""Tests of reused memory: time and the allocator decide which block an allocation gets, and no program may rely on
it.
"""

from __future__ import annotations

import pytest

from dpsim.contract.interface import Rank
from tests.programs import copy, explored, judged, touch, world_of
from tests.soundness.worlds import filled, shows

RACE = "RACE:REUSED_IN_FLIGHT"
LONG_NS = 1_000_000

# ---- what the host does not observe


async def one_of_two_streams_is_recorded(rank: Rank) -> None:
    """Two streams use a block, and the rank records only one of them in the allocator. A later allocation takes place
    after the recorded stream has ended its use.
    """
    main, recorded, other = (rank.stream(name) for name in ("main", "recorded", "other"))
    block, result = filled(main, "block", value=7), main.alloc(4, "int32", "result")
    recorded.wait_stream(main)
    other.wait_stream(main)
    recorded.launch("short", touch, reads=[block])
    other.launch("long", copy, reads=[block], writes=[result], cost=LONG_NS)
    block.record_stream(recorded)
    block.free()
    await rank.sleep(LONG_NS // 10, "other.work")
    filled(main, "new", value=8)


def test_a_recorded_block_is_reusable_before_the_host_synchronizes() -> None:
    """Explores `one_of_two_streams_is_recorded`, which has a race. The allocator queries the recorded stream itself, so
    it can reuse the block though the host has not observed the stream's end.
    """
    assert shows(explored(world_of(1), one_of_two_streams_is_recorded), RACE)


def test_the_timed_run_reuses_the_block() -> None:
    assert shows(judged(world_of(1), one_of_two_streams_is_recorded), RACE)


# ---- what a draw changes


async def a_draw_decides_which_block_is_free(rank: Rank) -> None:
    """If the host has observed the end of the first send, it gets the block of x. If not, it gets the block of y, which
    an unrecorded stream still reads.
    """
    a, b = rank.device("a"), rank.device("b")
    main, side, third, unrecorded = (rank.stream(name) for name in ("main", "side", "third", "unrecorded"))
    if rank.rank == 1:
        a.recv(main.alloc(128, "int32", "z"), 0, main)
        b.recv(main.alloc(64, "int32", "w"), 0, main)
        return
    x, y, z, w = filled(main, "x", 128), filled(main, "y", 128), filled(side, "z", 128), filled(third, "w", 64)
    side.wait_stream(main)
    unrecorded.wait_stream(main)
    side.launch("use.x", copy, reads=[x], writes=[z])
    x.record_stream(side)
    unrecorded.launch("use.y", touch, reads=[y])
    a.send(z, 1, side)
    x.free()
    y.free()
    b.send(w, 1, third)
    await third.record().synchronize("w.sent")
    filled(main, "new", 128)


@pytest.mark.parametrize("strategy", ["dpor", "portfolio", "random"])
def test_a_draw_decides_which_block_is_given_out(strategy: str) -> None:
    """Explores `a_draw_decides_which_block_is_free`, which has a race. Draws decide which sends end early, and so which
    block the host gets.
    """
    assert shows(explored(world_of(2, devices=["a", "b"]), a_draw_decides_which_block_is_free, strategy), RACE)


def test_the_timed_run_gives_the_block_out() -> None:
    assert shows(judged(world_of(2, devices=["a", "b"]), a_draw_decides_which_block_is_free), RACE)


# ---- what the allocator's layout changes


async def fits_into_a_segment_that_grew(rank: Rank) -> None:
    """A stream reads a freed block of 1 MiB. The next allocation gets memory of this block, or free memory of an
    earlier segment. This depends on the layout.
    """
    main, side = rank.stream("main"), rank.stream("side")
    filled(main, "kept", 1 << 18)
    filled(main, "small", 1 << 16)
    freed = filled(main, "freed", 1 << 18)
    side.wait_stream(main)
    side.launch("use", touch, reads=[freed])
    freed.free()
    filled(main, "new", 1 << 16)


def test_exploring_knows_expandable_segments() -> None:
    """Explores `fits_into_a_segment_that_grew`, which has a race: with expandable segments, the new block overlaps the
    memory that the side stream reads.
    """
    assert shows(explored(world_of(1), fits_into_a_segment_that_grew), RACE)


@pytest.mark.parametrize("expandable", [True, False])
def test_a_run_of_one_layout_shows_what_the_other_does(expandable: bool) -> None:
    assert shows(judged(world_of(1), fits_into_a_segment_that_grew, expandable=expandable), RACE)
