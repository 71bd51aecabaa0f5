"""Tests collectives: the results of each, the ranks and streams that wait for them, and the order that they make.
`test_misfits.py` tests calls that do not fit together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.world import At, Delay
from tests.programs import Script, set_to, touch
from tests.sim.programs import Twins, everywhere, filled, holds, numbers, see, usual_world

twins = Twins()

MISSING = "HANG:COLLECTIVE:MISSING_RANK"


# ---- each collective, on hosts and on devices

COUNTS = ((1, 2, 0), (0, 1, 1), (2, 0, 1))  # for all_to_all: elements from each of three ranks (rows) to each (columns)


def source(what: str, rank: int) -> list[int]:
    """Returns the input of one of three ranks to collective `what`."""
    if what == "barrier":
        return []
    if what == "all_gather sizes":
        return [rank + 1] * (rank + 1)
    if what.startswith("reduce_scatter"):
        return [(rank + 1) * factor for factor in (1, 2, 3)]
    if what == "scatter":
        return [10 * rank + k for k in range(6)]
    if what == "all_to_all":
        return [10 * rank + to for to in range(3)]
    if what == "all_to_all sizes":
        return [100 * rank + 10 * to + k for to in range(3) for k in range(COUNTS[rank][to])]
    return [rank + 1, 10 * (rank + 1)]


def more(what: str, rank: int) -> dict[str, Any]:
    """Returns the further arguments of the call."""
    if what in ("broadcast", "gather", "scatter"):
        return {"root": 2}
    if what.startswith("reduce "):
        return {"root": 2, "op": what.split()[1]}
    if what.startswith("all_reduce"):
        return {"op": what.split()[1]}
    if what == "all_gather sizes":
        return {"sizes": (1, 2, 3)}
    if what == "reduce_scatter sizes":
        return {"sizes": (1, 0, 2)}
    if what == "all_to_all sizes":
        return {"source_sizes": COUNTS[rank], "output_sizes": tuple(row[rank] for row in COUNTS)}
    return {}


GIVES: dict[str, list[tuple[int, ...]]] = {
    "all_reduce sum": [(6, 60)] * 3,
    "all_reduce max": [(3, 30)] * 3,
    "all_reduce min": [(1, 10)] * 3,
    "broadcast": [(3, 30)] * 3,
    "reduce sum": [(1, 10), (2, 20), (6, 60)],
    "reduce min": [(1, 10), (2, 20), (1, 10)],
    "all_gather": [(1, 10, 2, 20, 3, 30)] * 3,
    "all_gather sizes": [(1, 2, 2, 3, 3, 3)] * 3,
    "reduce_scatter": [(6,), (12,), (18,)],
    "reduce_scatter sizes": [(6,), (), (12, 18)],
    "all_to_all": [(0, 10, 20), (1, 11, 21), (2, 12, 22)],
    "all_to_all sizes": [(0, 200, 201), (10, 11, 110), (120, 220)],
    "gather": [(), (), (1, 10, 2, 20, 3, 30)],
    "scatter": [(20, 21), (22, 23), (24, 25)],
    "barrier": [()] * 3,
}


def on_host(what: str, leaves_out: int | None) -> Script:
    async def script(rank: Rank) -> Any:
        if rank.rank == leaves_out:
            return None
        call = getattr(rank.host("h"), what.split()[0])
        array = np.array(source(what, rank.rank), np.int32)
        result = await (call() if what == "barrier" else call(array, **more(what, rank.rank)))
        assert array.tolist() == source(what, rank.rank), "a host collective does not change its input"
        return numbers(result)

    return script


def on_device(what: str, leaves_out: int | None) -> Script:
    async def script(rank: Rank) -> Any:
        main, name = rank.stream("main"), what.split()[0]
        x = filled(main, source(what, rank.rank))
        call, given = getattr(rank.device("d"), name), more(what, rank.rank)
        output = x
        if rank.rank == leaves_out:
            return None
        if name in ("all_reduce", "broadcast", "reduce"):
            call(x, stream=main, **given)
        else:
            output = main.alloc(len(GIVES[what][rank.rank]), "int32", "output")
            call(output, x, stream=main, **given)
        return numbers(await output.read("read"))

    return script


CALLS = [(on_host, what) for what in GIVES] + [(on_device, what) for what in GIVES if what != "barrier"]
NAMES = [f"{make.__name__}-{what}" for make, what in CALLS]


@pytest.mark.parametrize(("make", "what"), CALLS, ids=NAMES)
def test_each_collective_gives_its_result(make: Any, what: str) -> None:
    holds(make(what, None), GIVES[what], usual_world(3))


ALONE = {"broadcast": {0, 2}, "reduce sum": {0}, "reduce min": {0}, "all_to_all sizes": {0}}
ALONE |= {"gather": {0}, "scatter": {0, 2}}
"""For each collective the ranks that receive nothing from rank 1. They may complete without it."""


@pytest.mark.parametrize(("make", "what"), CALLS, ids=NAMES)
def test_a_rank_that_leaves_it_out_is_named(make: Any, what: str) -> None:
    through = set()
    for seen in everywhere(make(what, 1), usual_world(3)):
        left = {rank for rank, end in enumerate(seen.run.ends) if end == "blocked"}
        through |= {0, 2} - left
        assert {*seen.classes} == ({MISSING} if left else {"MISMATCH:COLLECTIVE:STEP"}), seen.mode
        assert seen.findings[0].culprit is not None
        assert seen.findings[0].culprit.rank == 1
        if seen.mode in ("timed", "last"):
            assert left == {0, 2}, seen.mode
    assert through == ALONE.get(what, set())


@pytest.mark.parametrize(("dtype", "values"), [("int64", (1 << 40, 3 << 40)), ("float32", (0.5, 1.5))])
def test_collectives_keep_the_values_of_other_types(dtype: Any, values: tuple[Any, Any]) -> None:
    async def script(rank: Rank) -> Any:
        main = rank.stream("main")
        x = filled(main, [values[0] * (rank.rank + 1)], dtype=dtype)
        rank.device("d").all_reduce(x, main)
        return numbers(await x.read("read"))

    holds(script, [(values[1],)] * 2)


# ---- the streams and hosts that wait for a collective


@twins("HANG", learned=[(7, 2), (2,)])
async def a_device_collective_holds_its_stream_and_no_other(rank: Rank, right: bool) -> Any:
    """A device collective blocks its own stream only. Rank 1 joins after rank 0 has read a buffer of another stream. In
    the faulty twin the buffer is on the blocked stream, so the ranks hang.
    """
    main, side = rank.stream("main"), rank.stream("side")
    x = filled(main, [1])
    if rank.rank == 1:
        await rank.mailbox("in").get("go")
    rank.device("d").all_reduce(x, main)
    y = None
    if rank.rank == 0:
        on = side if right else main
        y = numbers(await filled(on, [7], "y").read("read.y"))
        rank.send(1, "in", "go", "go")
    return (*(y or ()), *numbers(await x.read("read.x")))


@twins("HANG", learned=[(3,), (3,)])
async def a_host_collective_blocks_only_the_host_that_awaits_it(rank: Rank, right: bool) -> Any:
    """A host collective blocks only the host that awaits it. Rank 0 starts it, sends a message for which rank 1 waits,
    and then awaits. In the faulty twin it awaits first.
    """
    if rank.rank == 1:
        await rank.mailbox("in").get("go")
    work = rank.host("h").all_reduce(np.array([rank.rank + 1], np.int32))
    if rank.rank == 0 and right:
        rank.send(1, "in", "go", "go")
    result = numbers(await work)
    if rank.rank == 0 and not right:
        rank.send(1, "in", "go", "go")
    return result


@twins("RACE:BUFFER", learned=[(1, 3), (2, 3)])
async def a_device_collective_has_its_place_in_its_stream(rank: Rank, right: bool) -> Any:
    """A collective in place runs in stream order: a read before it gets the input, and a read after it gets the result.
    In the faulty twin another stream reads the result without a wait.
    """
    main, side = rank.stream("main"), rank.stream("side")
    x = filled(main, [rank.rank + 1])
    side.wait_stream(main)
    early = x.read("early")
    rank.device("d").all_reduce(x, main)
    late = x.read("late", main if right else side)
    return (*numbers(await early), *numbers(await late))


@twins("RACE:BUFFER", learned=[(1, 2), (1, 2)])
async def the_source_of_a_gather_may_lie_in_its_output(rank: Rank, right: bool) -> Any:
    """In NCCL's in-place all_gather, one op reads and writes the rank's own part of the output. In the faulty twin
    another op reads this part at the same time.
    """
    main, side = rank.stream("main"), rank.stream("side")
    output = filled(main, [0, 0])
    part = output.view(rank.rank, rank.rank + 1)
    main.launch("part", set_to, writes=[part], args=(rank.rank + 1,))
    side.wait_stream(main)
    rank.device("d").all_gather(output, part, main)
    if not right:
        side.launch("use", touch, reads=[part])
    return numbers(await output.read("read"))


@twins("MISMATCH:COLLECTIVE:COUNT", learned=[(3, 30, 30), (3, 30, 30)])
async def siblings_are_independent_and_one_communicator_is_in_order(rank: Rank, right: bool) -> Any:
    """Calls match by their position in the sequence of their communicator. On two communicators of the same ranks, the
    ranks may issue them in opposite order. In the faulty twin both are on one communicator and do not match.
    """
    one, two, kind = rank.stream("one"), rank.stream("two"), "e" if right else "d"
    x, y = filled(one, [rank.rank + 1], "x"), filled(two, [10 * (rank.rank + 1)] * 2, "y")
    calls = [("d", x, one), (kind, y, two)]
    for group, buffer, stream in calls if rank.rank == 0 else reversed(calls):
        rank.device(group).all_reduce(buffer, stream)
    return (*numbers(await x.read("read.x")), *numbers(await y.read("read.y")))


@twins("HANG", learned=[(2, 20), (2, 20)], world=usual_world(groups=("d", "e", "t")))
async def a_communicator_runs_one_collective_at_a_time(rank: Rank, right: bool) -> Any:
    """A communicator runs its collectives one after the other, even on two streams. Rank 1 issues the first after rank
    0 has the second's result. That works on another communicator; on the same one it hangs.
    """
    one, two, kind = rank.stream("one"), rank.stream("two"), "e" if right else "d"
    x, y, token = filled(one, [1], "x"), filled(two, [10], "y"), filled(two if rank.rank == 0 else one, [0], "token")
    if rank.rank == 1:
        rank.device("t").recv(token, 0, one)
    rank.device("d").all_reduce(x, one)
    rank.device(kind).all_reduce(y, two)
    second = numbers(await y.read("read.y"))
    if rank.rank == 0:
        rank.device("t").send(token, 1, two)
    return (*numbers(await x.read("read.x")), *second)


@twins("HANG", learned=[(2, 2)] * 2)
async def two_communicators_on_one_stream_need_one_order(rank: Rank, right: bool) -> Any:
    """Both ranks issue the collectives of two communicators on one stream in the same order. In the faulty twin the
    orders differ and the ranks hang; on two streams the order would not matter.
    """
    main, kinds = rank.stream("main"), ["d", "e"]
    if rank.rank == 1 and not right:
        kinds.reverse()
    buffers = {kind: filled(main, [1], kind) for kind in kinds}
    for kind in kinds:
        rank.device(kind).all_reduce(buffers[kind], main)
    return (*numbers(await buffers["d"].read("read.d")), *numbers(await buffers["e"].read("read.e")))


@twins("HANG:COLLECTIVE:ORDER_ACROSS_GROUPS", learned=[(2, 2)] * 2)
async def hosts_await_two_communicators_in_one_order(rank: Rank, right: bool) -> Any:
    """The ranks call two host collectives in opposite order, but start both before they await. In the faulty twin each
    awaits its first call before it starts the second, so they hang.
    """
    kinds = ["h", "g"] if rank.rank == 0 else ["g", "h"]
    ones = np.ones(1, np.int32)
    if right:
        works = [rank.host(kind).all_reduce(ones) for kind in kinds]
        return (*numbers(await works[0]), *numbers(await works[1]))
    return (*numbers(await rank.host(kinds[0]).all_reduce(ones)), *numbers(await rank.host(kinds[1]).all_reduce(ones)))


@twins("MISMATCH:COLLECTIVE:STEP", learned=[(2,), (2,)])
async def a_host_collective_takes_what_its_array_has_at_the_start(rank: Rank, right: bool) -> Any:
    """A later change of the array does not change the input. In the faulty twin rank 1 increments its step after the
    call instead of before.
    """
    rank.step = 1 if rank.rank == 0 or right else 0
    array = np.ones(1, np.int32)
    work = rank.host("h").all_reduce(array)
    array[:] = 9
    rank.step = 1
    return numbers(await work)


@twins("CRASH:VALUEERROR", learned=[(1,)] * 2, also=["HANG"])
async def a_root_is_a_member(rank: Rank, right: bool) -> Any:
    return numbers(await rank.host("h").broadcast(np.ones(1, np.int32), 0 if right else 2))


@twins("CRASH:VALUEERROR", learned=[(1, 1)] * 2)
async def sizes_fit_the_buffers(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    x, output = filled(main, [1]), main.alloc(2, "int32", "output")
    rank.device("d").all_gather(output, x, main, sizes=(1, 1) if right else (1, 2))
    return numbers(await output.read("read"))


@twins("DISAGREEMENT:GOT", learned=[True] * 2, world=usual_world(delays=(Delay(1, At(), 900_000),)), modes=["timed"])
async def delays_do_not_change_what_was_waited_for(rank: Rank, right: bool) -> Any:
    """Rank 1 starts late. A rank that waits for a message decides the same as its peer. In the faulty twin the ranks
    poll, so what they find depends on time, and their decisions differ.
    """
    for to in range(2):
        rank.send(to, "in", "hello", "hello")
    box = rank.mailbox("in")
    got = await (box.get("look") if right else box.poll("look")) is not None
    rank.decide("got", got, "h")
    return got


test_the_healthy_program_holds, test_the_wrong_twin_is_caught = twins.tests()


@pytest.mark.parametrize(("late", "waited"), [(0, 1_000_000), (1, 0)])
def test_an_early_rank_waits_for_the_last(late: int, waited: int) -> None:
    async def script(rank: Rank) -> None:
        if rank.rank == late:
            await rank.sleep(1_000_000, "sleep")
        await rank.host("h").barrier()

    assert see(script).run.waited_ns == [1_000_000 - waited, waited]
