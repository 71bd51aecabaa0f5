"""Tests streams and events: what orders device work, what does not, and for what a host waits."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.interface import Rank
from tests.programs import add, copy, set_to, touch
from tests.sim.programs import MODES, Twins, everywhere, filled, numbers, see, usual_world

twins = Twins()


@twins("RACE:BUFFER", learned=[(3, 3)])
async def a_stream_runs_in_order(rank: Rank, right: bool) -> Any:
    """The slowest kernel comes first, and later kernels of the stream overwrite its result. In the faulty twin the last
    kernel is on another stream.
    """
    main, side = rank.stream("main"), rank.stream("side")
    x = filled(main, 1, cost=90_000)
    main.launch("second", set_to, writes=[x], args=(2,), cost=10)
    (main if right else side).launch("third", set_to, writes=[x], args=(3,), cost=1)
    return numbers(await x.read("read"))


@twins("RACE:BUFFER", learned=[(7, 7)])
async def an_event_orders_two_streams(rank: Rank, right: bool) -> Any:
    main, side = rank.stream("main"), rank.stream("side")
    x, y = filled(main, 7, cost=90_000), side.alloc(2, "int32", "y")
    event = main.record()
    if right:
        side.wait(event)
    side.launch("copy", copy, reads=[x], writes=[y])
    return numbers(await y.read("read"))


@twins("RACE:BUFFER", learned=[(7, 7)])
async def an_event_is_the_point_at_which_it_was_recorded(rank: Rank, right: bool) -> Any:
    """A wait for an event does not wait for work that was launched after its record. The faulty twin relies on that."""
    main, side = rank.stream("main"), rank.stream("side")
    x, y = filled(main, 3), side.alloc(2, "int32", "y")
    event = main.record()
    main.launch("rewrite", set_to, writes=[x], args=(7,), cost=90_000)
    if right:
        event = main.record()
    side.wait(event)
    side.launch("copy", copy, reads=[x], writes=[y])
    return numbers(await y.read("read"))


@twins("RACE:BUFFER", learned=[(7, 7)])
async def a_wait_holds_only_later_work(rank: Rank, right: bool) -> Any:
    main, side = rank.stream("main"), rank.stream("side")
    x, y = filled(main, 7, cost=90_000), side.alloc(2, "int32", "y")
    event = main.record()
    if right:
        side.wait(event)
        side.launch("copy", copy, reads=[x], writes=[y])
    else:
        side.launch("copy", copy, reads=[x], writes=[y])
        side.wait(event)
    return numbers(await y.read("read"))


@twins("RACE:BUFFER", learned=[(True, 7, 7)])
async def an_event_before_all_work_has_passed_and_holds_nothing(rank: Rank, right: bool) -> Any:
    """CUDA accepts a wait for an event that was never recorded. In the contract each event is recorded; an event of an
    empty stream has the same effect. The faulty twin waits for it instead of a new one.
    """
    main, side = rank.stream("main"), rank.stream("side")
    event = main.record()
    await event.synchronize("synchronize")
    passed = await event.query("query")
    x, y = filled(main, 7, cost=90_000), side.alloc(2, "int32", "y")
    side.wait(main.record() if right else event)
    side.launch("copy", copy, reads=[x], writes=[y])
    return (passed, *numbers(await y.read("read")))


@twins("RACE:BUFFER", learned=[(7, 7)])
async def an_event_may_be_waited_for_by_many(rank: Rank, right: bool) -> Any:
    main, one, two = rank.stream("main"), rank.stream("one"), rank.stream("two")
    x, y = filled(main, 7, cost=90_000), two.alloc(2, "int32", "y")
    event = main.record()
    one.wait(event)
    one.launch("use", touch, reads=[x])
    if right:
        two.wait(event)
    two.launch("copy", copy, reads=[x], writes=[y])
    return numbers(await y.read("read"))


@twins("RACE:BUFFER", learned=[(7, 7)])
async def an_order_is_passed_on(rank: Rank, right: bool) -> Any:
    """A stream that waits for a second stream comes after all for which the second stream waited. In the faulty twin
    the second stream does not wait.
    """
    main, middle, end = rank.stream("main"), rank.stream("middle"), rank.stream("end")
    x, y = filled(main, 7, cost=90_000), end.alloc(2, "int32", "y")
    if right:
        middle.wait_stream(main)
    end.wait_stream(middle)
    end.launch("copy", copy, reads=[x], writes=[y])
    return numbers(await y.read("read"))


@twins("RACE:BUFFER", learned=[(7, 7)])
async def wait_stream_waits_for_what_is_there_so_far(rank: Rank, right: bool) -> Any:
    main, side = rank.stream("main"), rank.stream("side")
    y = side.alloc(2, "int32", "y")
    if not right:
        side.wait_stream(main)
    x = filled(main, 7, cost=90_000)
    if right:
        side.wait_stream(main)
    side.launch("copy", copy, reads=[x], writes=[y])
    return numbers(await y.read("read"))


@twins("RACE:BUFFER", learned=[(6, 6)])
async def work_that_was_forked_has_to_be_joined(rank: Rank, right: bool) -> Any:
    """Two side streams compute parts of a sum, and the main stream waits for both. In the faulty twin it waits
    for one.
    """
    main, one, two = rank.stream("main"), rank.stream("one"), rank.stream("two")
    x = filled(main, 1)
    parts = []
    for stream, cost in ((one, 10), (two, 90_000)):
        stream.wait_stream(main)
        y = filled(stream, 2 if stream is two else 3, f"y.{stream.name}", cost)
        parts.append(y)
    main.wait_stream(one)
    if right:
        main.wait_stream(two)
    for y in parts:
        main.launch("add", add, reads=[y], writes=[x])
    return numbers(await x.read("read"))


@twins("RACE:BUFFER", learned=[(7, 7)])
async def a_host_that_synchronised_has_waited_for_all_streams(rank: Rank, right: bool) -> Any:
    """After the host synchronized an event, its later launches need no event, on any stream. The faulty twin
    synchronizes an event before the kernel.
    """
    main, side = rank.stream("main"), rank.stream("side")
    early = main.record()
    x, y = filled(main, 7, cost=90_000), side.alloc(2, "int32", "y")
    await (main.record() if right else early).synchronize("synchronize")
    side.launch("copy", copy, reads=[x], writes=[y])
    return numbers(await y.read("read"))


@twins("RACE:BUFFER", learned=[(7, 7)], modes=["timed"])
async def a_query_that_returns_true_orders(rank: Rank, right: bool) -> Any:
    """A query that returns True is an order, and one that returns False is none. The faulty twin ignores the answer. It
    is right if the kernel was fast, so only the timed mode finds it for certain.
    """
    main, side = rank.stream("main"), rank.stream("side")
    x, y = filled(main, 7, cost=90_000), side.alloc(2, "int32", "y")
    event = main.record()
    passed = await event.query("query")
    if right and not passed:
        side.wait(event)
    side.launch("copy", copy, reads=[x], writes=[y])
    return numbers(await y.read("read"))


@twins("RACE:BUFFER", learned=[(7, 7)])
async def a_read_waits_for_its_own_stream(rank: Rank, right: bool) -> Any:
    """A read waits for the stream that it names. In the faulty twin this is not the stream that wrote."""
    main, side = rank.stream("main"), rank.stream("side")
    x = filled(main, 7, cost=90_000)
    return numbers(await x.read("read", main if right else side))


@twins("RACE:BUFFER", learned=[(7, 7, 8, 8)])
async def a_read_copies_at_its_place_in_the_stream(rank: Rank, right: bool) -> Any:
    """A read copies at its position in the stream, not at its await. In the faulty twin another stream overwrites the
    buffer.
    """
    main, side = rank.stream("main"), rank.stream("side")
    x = filled(main, 7)
    copied = x.read("early")
    (main if right else side).launch("rewrite", set_to, writes=[x], args=(8,))
    return (*numbers(await copied), *numbers(await x.read("late")))


@twins("RACE:BUFFER", learned=[(1, 1, 2, 2)])
async def views_share_memory(rank: Rank, right: bool) -> Any:
    """Two streams may write disjoint rows at the same time. In the faulty twin the rows overlap."""
    main, side = rank.stream("main"), rank.stream("side")
    x = main.alloc((4, 1), "int32", "x")
    main.launch("low", set_to, writes=[x.view(0, 2)], args=(1,))
    side.launch("high", set_to, writes=[x.view(2 if right else 1, 4)], args=(2,))
    main.wait_stream(side)
    return numbers(await x.read("read"))


@twins("CRASH:TYPEERROR", learned=[(5, 5)])
async def args_are_bound_at_the_launch(rank: Rank, right: bool) -> Any:
    """A launch binds its `args` at once. It refuses a closure, which would read its variables when the kernel runs."""
    main = rank.stream("main")
    x, value = main.alloc(2, "int32", "x"), 5
    if right:
        main.launch("fill", set_to, writes=[x], args=(value,))
    else:
        main.launch("fill", lambda target: set_to(target, value), writes=[x])
    value = 6
    return numbers(await x.read("read"))


@twins("CRASH:RUNTIMEERROR", learned=[(7, 7)])
async def a_read_is_awaited_once(rank: Rank, right: bool) -> Any:
    work = filled(rank.stream("main"), 7).read("read")
    return numbers(await work) if right else numbers(await work) + numbers(await work)


@twins("CRASH:INDEXERROR", learned=[(7,)])
async def a_view_lies_within_its_buffer(rank: Rank, right: bool) -> Any:
    return numbers(await filled(rank.stream("main"), 7).view(1, 2 if right else 3).read("read"))


@twins("STALE:UNWRITTEN", learned=[(7, 7)])
async def new_memory_has_to_be_written_first(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    return numbers(await (filled(main, 7) if right else main.alloc(2, "int32", "x")).read("read"))


test_the_healthy_program_holds, test_the_wrong_twin_is_caught = twins.tests()


# ---- facts that only the elapsed time or the numbers show


def elapsed(script: Any) -> int:
    return see(script, usual_world(1)).run.elapsed_ns


@pytest.mark.parametrize(("names", "takes"), [(("a", "b"), 300_000), (("a", "a"), 500_000)])
def test_streams_run_side_by_side_and_one_stream_one_after_the_other(names: tuple[str, str], takes: int) -> None:
    async def script(rank: Rank) -> None:
        for name, cost in zip(names, (300_000, 200_000), strict=True):
            filled(rank.stream(name), 1, cost=cost)

    assert elapsed(script) == takes


@pytest.mark.parametrize(("waits", "takes"), [(False, 400_000), (True, 700_000)])
def test_the_host_runs_ahead_of_its_device(waits: bool, takes: int) -> None:
    """A launch does not wait. So the host's sleep of 300 us overlaps with the kernel of 400 us, unless the host
    synchronized before.
    """

    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        filled(main, 1, cost=400_000)
        if waits:
            await main.record().synchronize("synchronize")
        await rank.sleep(300_000, "sleep")

    assert elapsed(script) == takes


@pytest.mark.parametrize(("at", "passed"), [(0, False), (399_999, False), (400_001, True)])
def test_an_event_has_passed_when_the_work_before_it_is_done(at: int, passed: bool) -> None:
    async def script(rank: Rank) -> Any:
        main = rank.stream("main")
        filled(main, 1, cost=400_000)
        event = main.record()
        filled(main, 1, "later", cost=400_000)
        await rank.sleep(at, "sleep")
        return await event.query("query")

    assert see(script, usual_world(1)).learned == [passed]


def test_a_read_waits_for_its_stream_and_for_no_other() -> None:
    async def script(rank: Rank) -> Any:
        main, side = rank.stream("main"), rank.stream("side")
        filled(main, 1, cost=400_000)
        event, x = main.record(), filled(side, 7)
        copied = numbers(await x.read("read"))
        return (*copied, await event.query("query"))

    assert see(script, usual_world(1)).learned == [(7, 7, False)]


def test_a_missing_wait_gives_a_wrong_number() -> None:
    """Without a wait, the reader gets the old or the new value, as on a device."""

    async def script(rank: Rank) -> Any:
        main, side = rank.stream("main"), rank.stream("side")
        x, y = filled(main, 3), side.alloc(2, "int32", "y")
        side.wait_stream(main)
        main.launch("rewrite", set_to, writes=[x], args=(7,), cost=90_000)
        side.launch("copy", copy, reads=[x], writes=[y])
        return numbers(await y.read("read"))

    seen = {one.mode: one.learned for one in everywhere(script, usual_world(1))}
    assert seen["timed"] == [(3, 3)]
    assert {tuple(learned) for learned in seen.values()} == {((3, 3),), ((7, 7),)}
    assert len(seen) == len(MODES)
