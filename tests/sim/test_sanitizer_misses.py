"""Tests races that dpsim finds and PyTorch's CUDA sanitizer misses, and false alarms of the sanitizer.

The sanitizer forgets freed memory, so it takes memory that is reused in flight for new memory. It identifies memory by
the first address of a tensor, so it misses that two views with different first addresses overlap. And it ignores
queries of events. Where torch is installed, the tests show each of these.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import SITE
from dpsim.diagnose.words import text
from tests.programs import touch
from tests.sim.programs import everywhere, see, usual_world


def heard(*kernels: tuple[int, str, str]) -> list[Any]:
    """Returns the errors of torch's sanitizer for kernels (stream, pointers read, pointers written) that nothing
    orders.
    """
    handler = pytest.importorskip("torch.cuda._sanitizer").EventHandler()
    errors = []
    for stream, reads, writes in kernels:
        names = {name: [name] for name in (*reads.split(), *writes.split())}
        errors += handler._handle_kernel_launch(stream, {*reads.split()}, {*writes.split()}, set(), "", names)
    return errors


@pytest.mark.parametrize("keeps", [True, False])
def test_memory_that_is_reused_in_flight_is_found(keeps: bool) -> None:
    """A side stream reads a buffer, which the program frees; a later buffer gets the memory."""

    async def script(rank: Rank) -> None:
        main, side = rank.stream("main"), rank.stream("side")
        old = main.alloc(1, "int32", "old")
        main.launch("write", touch, writes=[old])
        side.wait_stream(main)
        side.launch("use", touch, reads=[old])
        if keeps:
            old.record_stream(side)
        old.free()
        new = main.alloc(1, "int32", "new")
        main.launch("rewrite", touch, writes=[new])

    for seen in everywhere(script, usual_world(1)):
        assert seen.classes == ([] if keeps else ["RACE:REUSED_IN_FLIGHT"]), seen.mode
        for finding in seen.findings:
            assert finding.culprit is not None
            assert finding.culprit.site == "use"
            assert "given to new[0]" in text(finding.message)


def test_the_sanitizer_forgets_what_was_freed() -> None:
    handler = pytest.importorskip("torch.cuda._sanitizer").EventHandler()
    names: dict[str, list[str]] = {"p": ["p"]}
    handler._handle_memory_allocation("p")
    assert not handler._handle_kernel_launch(1, set(), {"p"}, set(), "write", names)
    handler._handle_event_record(0, 1)
    handler._handle_event_wait(0, 2)
    assert not handler._handle_kernel_launch(2, {"p"}, set(), set(), "use", names)
    handler._handle_memory_deallocation("p")
    handler._handle_memory_allocation("p")  # the allocator returns the same block
    assert not handler._handle_kernel_launch(1, set(), {"p"}, set(), "rewrite", names)


@pytest.mark.parametrize(("first", "races"), [(2, False), (1, True), (0, True)])
def test_overlapping_views_are_found_and_disjoint_ones_are_none(first: int, races: bool) -> None:
    async def script(rank: Rank) -> None:
        main, side = rank.stream("main"), rank.stream("side")
        x = main.alloc((4, 3), "int32", "x")
        main.launch("low", touch, writes=[x.view(0, 2)])
        side.launch("high", touch, writes=[x.view(first, 4)])

    for seen in everywhere(script, usual_world(1)):
        assert seen.classes == ["RACE:BUFFER"] * races, seen.mode
        if races:
            assert "write low[0] on stream main and write high[0] on stream side" in text(seen.findings[0].message)


@pytest.mark.parametrize(("pointer", "found"), [("row0", 1), ("row1", 0), ("row2", 0)])
def test_the_sanitizer_sees_views_by_where_they_begin(pointer: str, found: int) -> None:
    assert len(heard((1, "", "row0"), (2, "", pointer))) == found


def test_a_query_that_says_yes_orders_and_the_sanitizer_does_not_know() -> None:
    """A query that returned True orders the kernels, so there is no race. The sanitizer reports one."""

    async def script(rank: Rank) -> None:
        main, side = rank.stream("main"), rank.stream("side")
        x = main.alloc(1, "int32", "x")
        main.launch("write", touch, writes=[x])
        event = main.record()
        await rank.sleep(100_000, "sleep")
        if await event.query("query"):
            side.launch("use", touch, reads=[x])

    for seen in everywhere(script, usual_world(1)):
        assert seen.classes == [], seen.mode
    assert [raw for raw in see(script, usual_world(1)).run.journals[0] if raw[SITE] == "use"], "the kernel was launched"
    assert len(heard((1, "", "x"), (2, "x", ""))) == 1
