"""Tests captured graphs on the simulated machine: which calls a graph keeps, what a replay does, and which memory it
uses.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.world import At, Fault
from tests.programs import set_to
from tests.sim.programs import Seen, Twins, filled, holds, numbers, see, usual_world

twins = Twins()


def plus(source: Any, target: Any, by: int) -> None:
    target[:] = source + by


@twins("STALE:UNWRITTEN", learned=[(6, 6)], world=usual_world(1))
async def a_captured_kernel_runs_when_it_is_replayed(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    x, y = filled(main, 5), main.alloc(2, "int32", "y")
    graph = rank.graph("g")
    async with graph.capture(main):
        main.launch("plus", plus, reads=[x], writes=[y], args=(1,))
    if right:
        graph.replay(main, "go")
    return numbers(await y.read("out"))


@twins("RACE:BUFFER", learned=[((8, 8), (9, 9))], world=usual_world(1))
async def a_replay_finds_what_its_inputs_hold_then(rank: Rank, right: bool) -> Any:
    """A replay reads what its inputs contain at that time. In the faulty twin another stream writes the input, without
    an order before the replay.
    """
    main, side = rank.stream("main"), rank.stream("side")
    x, y = filled(main, 5), main.alloc(2, "int32", "y")
    graph, seen = rank.graph("g"), []
    async with graph.capture(main):
        main.launch("plus", plus, reads=[x], writes=[y], args=(1,))
    for value in (7, 8):
        (main if right else side).launch("input", set_to, writes=[x], args=(value,))
        graph.replay(main, "go")
        seen.append(numbers(await y.read("out")))
    return tuple(seen)


@twins("RACE:BUFFER", learned=[(6, 6)], world=usual_world(1))
async def a_stream_that_joined_is_a_branch_of_the_graph(rank: Rank, right: bool) -> Any:
    """A stream that joins a capture becomes a branch of the graph. The replay runs on `main`, so a later read on the
    stream `side` has to wait for `main`. In the faulty twin it does not.
    """
    main, side = rank.stream("main"), rank.stream("side")
    x, y = filled(main, 5), main.alloc(2, "int32", "y")
    graph = rank.graph("g")
    async with graph.capture(main):
        side.wait_stream(main)
        side.launch("plus", plus, reads=[x], writes=[y], args=(1,))
        main.wait_stream(side)
    graph.replay(main, "go")
    if right:
        side.wait_stream(main)
    return numbers(await y.read("out", side))


@twins("STALE:FREED", learned=[((6, 6), (3, 3))], world=usual_world(1))
async def the_output_of_a_graph_is_valid_until_its_pool_reuses_it(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    x = filled(main, 5)
    first, second = rank.graph("first", "pool"), rank.graph("second", "pool")
    async with first.capture(main):
        y = main.alloc(2, "int32", "y")
        main.launch("plus", plus, reads=[x], writes=[y], args=(1,))
        y.free()
    async with second.capture(main):
        z = main.alloc(2, "int32", "z")
        main.launch("set", set_to, writes=[z], args=(3,))
        z.free()
    seen = []
    first.replay(main, "go")
    if right:
        seen.append(numbers(await y.read("out")))
    second.replay(main, "go")
    if not right:
        seen.append(numbers(await y.read("out")))
    seen.append(numbers(await z.read("out")))
    return tuple(seen)


@twins("RACE:BUFFER", learned=[(2, 2), (2, 2)])
async def collectives_are_captured(rank: Rank, right: bool) -> Any:
    main, side = rank.stream("main"), rank.stream("side")
    x = main.alloc(2, "int32", "x")
    main.launch("one", set_to, writes=[x], args=(1,))
    graph = rank.graph("g")
    async with graph.capture(main):
        rank.device("d").all_reduce(x, main)
    graph.replay(main, "go")
    return numbers(await x.read("out", main if right else side))


@twins("RACE:BUFFER", learned=[(6, 6)], world=usual_world(1))
async def replays_of_a_graph_run_one_after_the_other(rank: Rank, right: bool) -> Any:
    """Replays of one graph run one after the other, on any streams. In the faulty twin two graphs race."""
    main, side = rank.stream("main"), rank.stream("side")
    x, y = filled(main, 5), main.alloc(2, "int32", "y")
    graphs = [rank.graph("g"), rank.graph("h")]
    for graph in graphs:
        async with graph.capture(main):
            main.launch("plus", plus, reads=[x], writes=[y], args=(1,))
    graphs[0].replay(main, "go")
    graphs[0 if right else 1].replay(side, "go")
    return numbers(await y.read("out", side))


@twins("STALE:FREED", learned=[(6, 6)], world=usual_world(1))
async def memory_of_a_capture_lives_as_long_as_the_graph(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    x, y = filled(main, 5), main.alloc(2, "int32", "y")
    graph = rank.graph("g")
    async with graph.capture(main):
        main.launch("plus", plus, reads=[x], writes=[y], args=(1,))
    if not right:
        x.free()
    graph.replay(main, "go")
    return numbers(await y.read("out"))


@twins("GRAPH:HOST_EFFECT", learned=[(1,), None], world=usual_world(2))
async def a_message_within_a_capture_is_sent_once(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    if rank.rank == 1:
        await rank.mailbox("go").get("get")
        return None
    graph = rank.graph("g")
    if right:
        rank.send(1, "go", 7, "send")
    async with graph.capture(main):
        if not right:
            rank.send(1, "go", 7, "send")
    return (1,)


@twins("GRAPH:UNPAIRED", learned=[(4, 4), (4, 4)])
async def all_members_replay_or_none(rank: Rank, right: bool) -> Any:
    """In the faulty twin rank 1 calls a collective eagerly, which matches a captured one of rank 0. Hardware pairs the
    two, and the result is right, but dpsim reports it.
    """
    main = rank.stream("main")
    x = filled(main, 1)
    graph = rank.graph("g")
    async with graph.capture(main):
        rank.device("d").all_reduce(x, main, site="reduce")
    graph.replay(main, "go")
    if right or rank.rank == 0:
        graph.replay(main, "go")
    else:
        rank.device("d").all_reduce(x, main, site="reduce")
    return numbers(await x.read("out"))


@twins("GRAPH:UNPAIRED", learned=[(2, 2), (2, 2)])
async def all_members_replay_the_same_capture(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    x = filled(main, 1)
    graphs = [rank.graph("g"), rank.graph("h")]
    for graph in graphs:
        async with graph.capture(main):
            rank.device("d").all_reduce(x, main, site="reduce")
    graphs[0 if right else rank.rank].replay(main, "go")
    return numbers(await x.read("out"))


@twins("GRAPH:UNPAIRED", learned=[(1, 1), (1, 1)])
async def both_sides_of_a_transfer_are_captured(rank: Rank, right: bool) -> Any:
    main, d = rank.stream("main"), rank.device("d")
    x = filled(main, 1 if rank.rank == 0 else 0)
    graph = rank.graph("g")
    async with graph.capture(main):
        if rank.rank == 0:
            d.send(x, 1, main, site="move")
        else:
            d.recv(x, 0, main, site="move")
    if right or rank.rank == 0:
        graph.replay(main, "go")
    else:
        d.recv(x, 0, main, site="move")
    return numbers(await x.read("out"))


@twins("STALE", learned=[((6, 6), (9, 9))], world=usual_world(1))
async def eager_writes_to_a_pool_end_weak_references(rank: Rank, right: bool) -> Any:
    """`y` was allocated after `x` was freed, so a write to `y`, also an eager one, may destroy the content of `x`."""
    main = rank.stream("main")
    source = filled(main, 5)
    first, second = rank.graph("first", "pool"), rank.graph("second", "pool")
    async with first.capture(main):
        x = main.alloc(2, "int32", "x")
        main.launch("plus", plus, reads=[source], writes=[x], args=(1,))
        x.free()
    async with second.capture(main):
        y = main.alloc(2, "int32", "y")
    first.replay(main, "go")
    if not right:
        main.launch("set", set_to, writes=[y], args=(9,))
    seen = numbers(await x.read("out"))
    if right:
        main.launch("set", set_to, writes=[y], args=(9,))
    return seen, numbers(await y.read("outy"))


@twins("STALE:UNWRITTEN", learned=[(4, 4)], world=usual_world(1))
async def kernels_take_memory_for_themselves(rank: Rank, right: bool) -> Any:
    """A kernel allocates memory for itself. A later buffer of the pool may be the same memory, so a replay of the
    kernel may overwrite it.
    """
    main = rank.stream("main")
    source, out = filled(main, 5), main.alloc(2, "int32", "o")
    first, second = rank.graph("first", "pool"), rank.graph("second", "pool" if not right else "other")
    async with first.capture(main):
        main.launch("plus", plus, reads=[source], writes=[out], args=(1,))
    async with second.capture(main):
        y = main.alloc(2, "int32", "y")
        main.launch("set", set_to, writes=[y], args=(4,))
    second.replay(main, "go")
    first.replay(main, "go")
    return numbers(await y.read("out"))


@twins("STALE", learned=[(6, 6)], world=usual_world(1))
async def memory_of_a_pool_is_shared_on_one_stream(rank: Rank, right: bool) -> Any:
    """A branch frees memory, and another capture allocates on `main`: it does not get this memory. In the faulty twin
    both are on `main`, so the second graph overwrites `x`.
    """
    main, side = rank.stream("main"), rank.stream("side")
    source = filled(main, 5)
    first, second = rank.graph("first", "pool"), rank.graph("second", "pool")
    async with first.capture(main):
        side.wait_stream(main)
        x = (side if right else main).alloc(2, "int32", "x")
        main.wait_stream(side)
        main.launch("plus", plus, reads=[source], writes=[x], args=(1,))
        x.free()
    async with second.capture(main):
        y = main.alloc(2, "int32", "y")
        main.launch("set", set_to, writes=[y], args=(9,))
    first.replay(main, "go")
    second.replay(main, "go")
    return numbers(await x.read("out", main))


@twins("STALE", learned=[(6, 6)], world=usual_world(1))
async def memory_of_a_pool_is_shared_by_one_kind_of_blocks(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    source = filled(main, 5)
    first, second = rank.graph("first", "pool"), rank.graph("second", "pool")
    async with first.capture(main):
        x = main.alloc(2, "int32", "x")
        main.launch("plus", plus, reads=[source], writes=[x], args=(1,))
        x.free()
    async with second.capture(main):
        y = main.alloc(1 << 19 if right else 2, "int32", "y")
    first.replay(main, "go")
    main.launch("set", set_to, writes=[y], args=(9,))
    return numbers(await x.read("out"))


@twins("STALE:FREED", learned=[(6, 6)], world=usual_world(1))
async def kernels_take_what_was_given_back(rank: Rank, right: bool) -> Any:
    """A graph frees a buffer before another capture, so a kernel of that capture may compute in this memory."""
    main = rank.stream("main")
    source, out = filled(main, 5), main.alloc(2, "int32", "o")
    first, second = rank.graph("first", "pool"), rank.graph("second", "pool")
    async with first.capture(main):
        x = main.alloc(2, "int32", "x")
        main.launch("plus", plus, reads=[source], writes=[x], args=(1,))
    if not right:
        x.free()
    async with second.capture(main):
        main.launch("plus", plus, reads=[source], writes=[out], args=(1,))
    if right:
        x.free()
    first.replay(main, "go")
    second.replay(main, "go")
    return numbers(await x.read("out"))


@twins("STALE:FREED", learned=[(6, 6)], world=usual_world(1))
async def kernels_take_what_their_graph_gave_back(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    source, out = filled(main, 5), main.alloc(2, "int32", "o")
    async with rank.graph("g").capture(main):
        x = main.alloc(2, "int32", "x")
        main.launch("plus", plus, reads=[source], writes=[x], args=(1,))
        if not right:
            x.free()
        main.launch("plus", plus, reads=[source], writes=[out], args=(1,))
        if right:
            x.free()
    rank.graph("g").replay(main, "go")
    return numbers(await x.read("out"))


@twins("HANG:COLLECTIVE:MISSING_RANK", learned=[(2, 2), (2, 2)])
async def a_replay_needs_all_members(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    x = filled(main, 1)
    graph = rank.graph("g")
    async with graph.capture(main):
        rank.device("d").all_reduce(x, main)
    if right or rank.rank == 0:
        graph.replay(main, "go")
    return numbers(await x.read("out"))


@twins("RACE:BUFFER", learned=[(7, 7)], world=usual_world(1))
async def an_event_recorded_again_is_its_last_point(rank: Rank, right: bool) -> Any:
    """An event that is recorded again is a new point for later waits. In the faulty twin the stream waited before, for
    the old point.
    """
    main, side = rank.stream("main"), rank.stream("side")
    x, y = filled(main, 3), side.alloc(2, "int32", "y")
    event = main.record()
    if not right:
        side.wait(event)
    main.launch("rewrite", set_to, writes=[x], args=(7,), cost=90_000)
    assert main.record(event) is event
    if right:
        side.wait(event)
    side.launch("copy", plus, reads=[x], writes=[y], args=(0,))
    return numbers(await y.read("out"))


# ---- faults at captured calls


def faulted(*faults: Fault) -> Seen:
    async def script(rank: Rank) -> Any:
        main = rank.stream("main")
        x = filled(main, 1)
        graph = rank.graph("g")
        async with graph.capture(main):
            rank.device("d").all_reduce(x, main, site="reduce")
        graph.replay(main, "go")
        graph.replay(main, "go")
        return numbers(await x.read("out"))

    return see(script, usual_world(2, faults=faults))


def test_a_fault_at_a_kept_call_is_in_every_replay() -> None:
    at = At(site="reduce", ordinal=0)
    assert faulted().learned == [(4, 4)] * 2
    assert faulted(Fault("repeat", 0, at), Fault("repeat", 1, at)).learned == [(16, 16)] * 2
    assert "HANG:COLLECTIVE:MISSING_RANK" in faulted(Fault("skip", 1, at)).classes


def test_a_replay_takes_one_place_in_the_launch_queue() -> None:
    async def script(rank: Rank) -> Any:
        main = rank.stream("main")
        x = filled(main, 1)
        graph = rank.graph("g")
        async with graph.capture(main):
            for _ in range(9):
                main.launch("plus", plus, reads=[x], writes=[x], args=(0,))
        await rank.sleep(10, "pause")
        for _ in range(3):
            graph.replay(main, "go")
        rank.send(0, "box", 1, "send")
        await rank.mailbox("box").get("get")
        return numbers(await x.read("out"))

    holds(script, [(1, 1)], usual_world(1, launch_queue=4))


# ---- the twins


@pytest.mark.parametrize("twin", twins, ids=str)
def test_the_healthy_twin_holds(twin: Any) -> None:
    twin.check_right()


@pytest.mark.parametrize("twin", twins, ids=str)
def test_each_faulty_twin_is_found(twin: Any) -> None:
    twin.check_wrong()
