"""Tests the simulated machine, a graph of ops. Edges order ops, costs take time, a collective is one op of all its
members, and a run hangs when no op can fire.
"""

from __future__ import annotations

import gc
import itertools
from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, RAISED_MESSAGE, WHERE
from dpsim.contract.world import At, CommunicatorSpec, Delay, Fault, Run, World
from dpsim.sim.backend import SimBackend
from dpsim.sim.graph.costs import Costs
from dpsim.sim.graph.environment import Environment
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.services.mailbox import Mailboxes
from tests.programs import Scripted, set_to, world_of

FREE = Costs(*[0] * len(Costs._fields))


def test_an_op_starts_when_all_before_it_have_fired() -> None:
    machine = Machine()
    a, b, c = Op("a", 5), Op("b", 7), Op("c", 1)
    machine.edge(a, c)
    machine.edge(b, c)
    for op in (c, b, a):
        machine.submit(op)
    machine.run()
    assert (a.at, b.at, c.at) == (5, 7, 8)


def test_an_edge_from_a_fired_op_holds_nothing_back() -> None:
    machine = Machine()
    a, b = Op("a"), Op("b")
    machine.submit(a)
    machine.edge(a, b)
    machine.submit(b)
    assert (a.at, b.at) == (0, 0)


def test_long_chains_of_free_ops_do_not_recurse() -> None:
    machine = Machine()
    ops = [Op("nothing") for _ in range(20_000)]
    for before, after in itertools.pairwise(ops):
        machine.edge(before, after)
    for op in reversed(ops):
        machine.submit(op)
    assert ops[-1].at == 0


def run(script: Any, ranks: int = 2, costs: Costs = FREE, **more: Any) -> Run:
    return SimBackend(costs).run_program(world_of(ranks, ["h"], ["d"], **more), Scripted(script), None)


def fail(buffer: Any) -> None:
    raise ZeroDivisionError("by no number")


async def two_kernels(rank: Rank) -> None:
    main = rank.stream("main")
    buffer = main.alloc(3, "int32", "buffer")
    main.launch("a", set_to, writes=[buffer], args=(7,), cost=100)
    main.launch("b", set_to, writes=[buffer], args=(9,), cost=100)
    assert (await buffer.read("read")).tolist() == [9, 9, 9]


def test_a_stream_runs_in_order_and_takes_time() -> None:
    done = run(two_kernels)
    assert done.finished
    assert done.elapsed_ns == 200


async def one_all_reduce(rank: Rank) -> None:
    main = rank.stream("main")
    buffer = main.alloc(2, "int32", "buffer")
    main.launch("fill", set_to, writes=[buffer], args=(rank.rank + 1,), cost=100 * (rank.rank + 1))
    rank.device("d").all_reduce(buffer, main, site="sum")
    assert (await buffer.read("read")).tolist() == [3, 3]


def test_a_collective_waits_for_the_last_member_and_the_others_wait_is_counted() -> None:
    done = run(one_all_reduce)
    assert done.finished
    assert done.waited_ns == [100, 0]


def test_a_delay_postpones_the_op() -> None:
    late = run(one_all_reduce, delays=(Delay(1, At("sum", 0), 1000),))
    assert late.finished
    assert late.waited_ns == [1100, 0]
    starts = run(one_all_reduce, delays=(Delay(0, At(), 500),))
    assert starts.waited_ns == [0, 400]


async def only_rank_0_joins(rank: Rank) -> None:
    if rank.rank == 0:
        await rank.host("h").all_reduce(np.ones(1, np.int32))


def test_a_host_that_waits_endlessly_is_blocked() -> None:
    done = run(only_rank_0_joins)
    assert done.ends == ["blocked", "finished"]
    assert done.observed


async def only_rank_0_launches(rank: Rank) -> None:
    if rank.rank == 0:
        main = rank.stream("main")
        rank.device("d").all_reduce(main.alloc(1, "int32", "buffer"), main)


def test_a_device_that_hangs_under_a_host_that_ran_ahead_is_seen() -> None:
    assert run(only_rank_0_launches).ends == ["blocked", "finished"]


async def bad_kernel(rank: Rank) -> None:
    main = rank.stream("main")
    main.launch("boom", fail, writes=[main.alloc(1, "int32", "buffer")])
    await rank.host("h").all_reduce(np.ones(1, np.int32))


def test_an_exception_in_a_kernel_names_the_launch() -> None:
    done = run(bad_kernel)
    assert done.ends[0] == "raised"
    assert done.journals[0][-1][KIND] == "raised"
    assert "test_machine.py:" in done.journals[0][-1][WHERE], "the line of the kernel"
    assert "rank 0 boom[0]: ZeroDivisionError: by no number" in done.journals[0][-1][RAISED_MESSAGE]


async def closure_kernel(rank: Rank) -> None:
    value = rank.rank
    main = rank.stream("main")
    main.launch("fill", lambda buffer: set_to(buffer, value), writes=[main.alloc(1, "int32", "buffer")])


def test_a_closure_is_refused() -> None:
    done = run(closure_kernel)
    assert done.ends == ["raised", "raised"]
    assert "is a closure" in done.journals[0][-1][RAISED_MESSAGE]


async def awaits_twice(rank: Rank) -> None:
    work = rank.host("h").all_reduce(np.ones(1, np.int32))
    await work
    await work


def test_a_second_await_is_an_error() -> None:
    assert "was awaited twice" in run(awaits_twice).journals[0][-1][RAISED_MESSAGE]


@pytest.mark.parametrize("call", ["host", "device"])
def test_an_error_of_an_unknown_communicator_names_the_known_ones(call: str) -> None:
    async def script(rank: Rank) -> None:
        getattr(rank, call)("tp")

    assert f"no {call} communicator 'tp'" in run(script).journals[0][-1][RAISED_MESSAGE]


async def two_works_at_once(rank: Rank) -> None:
    first = rank.host("h").all_reduce(np.full(2, 1, np.int32), site="one")
    second = rank.host("h").broadcast(np.full(2, rank.rank, np.int32), 1, site="two")
    assert (await second).tolist() == [1, 1]
    assert (await first).tolist() == [2, 2]


def test_host_works_overlap() -> None:
    assert run(two_works_at_once).finished


def test_a_fault_that_names_a_root_outside_the_group_raises_in_its_rank() -> None:
    async def script(rank: Rank) -> None:
        if rank.rank < 2:
            await rank.host("pair").broadcast(np.ones(1, np.int32), 0, site="x")

    pair = CommunicatorSpec("pair", "pair", "host", (0, 1))
    world = World(3, (pair,), faults=(Fault("alter", 1, At("x", 0), {"root": 2}),))
    done = SimBackend(FREE).run_program(world, Scripted(script), None)
    assert done.ends == ["blocked", "raised", "finished"]
    assert "root 2 is none of its ranks" in done.journals[1][-1][RAISED_MESSAGE]


async def fails_beside_others(rank: Rank) -> None:
    main = rank.stream("main")
    buffer = main.alloc(1, "int32", "buffer")
    rank.device("d").all_reduce(buffer, main, site="sum") if rank.rank < 2 else None
    if rank.rank == 1:
        main.launch("boom", fail, writes=[buffer])
    await rank.stream("main").alloc(1, "int32", "other").read("read")


def test_a_kernel_error_stops_only_its_device() -> None:
    pair, single = CommunicatorSpec("d", "d", "device", (0, 1)), CommunicatorSpec("d", "e", "device", (2,))
    done = SimBackend(FREE).run_program(World(3, (pair, single)), Scripted(fails_beside_others), None)
    assert done.ends == ["finished", "raised", "finished"]


async def dies_with_work_outstanding(rank: Rank) -> None:
    main = rank.stream("main")
    buffer = main.alloc(1, "int32", "buffer")
    main.launch("slow", set_to, writes=[buffer], args=(1,), cost=1_000)
    rank.device("d").all_reduce(buffer, main, site="sum")
    await buffer.read("read")


def test_a_collective_of_a_dead_rank_never_ends_on_its_device() -> None:
    done = run(dies_with_work_outstanding, faults=(Fault("die", 1, At("read", 0)),))
    assert done.ends == ["blocked", "died"]


async def polls_and_idles(rank: Rank) -> None:
    await rank.host("h").barrier(site="meet")
    rank.send(1 - rank.rank, "box", rank.rank, "send")
    await rank.mailbox("box").poll("poll")
    while True:
        await rank.mailbox("box").get("idle", idle=True)


@pytest.mark.runs_once
@pytest.mark.parametrize(
    "choose", [pytest.param(None, marks=pytest.mark.slow), lambda label, options: 0], ids=["timed", "untimed"]
)
def test_a_run_leaves_no_cycles(choose: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run leaves no cyclic garbage; otherwise an exploration would wait for the garbage collector. The faulty twins
    do not close the environment or the mailboxes.
    """

    def left() -> int:
        gc.collect()
        gc.disable()
        try:
            done = SimBackend(choose=choose).run_program(world_of(2, hosts=["h"]), Scripted(polls_and_idles), None)
            assert done.finished
            return gc.collect()
        finally:
            gc.enable()

    assert left() == 0
    for owner in (Environment, Mailboxes):
        with monkeypatch.context() as one:
            one.setattr(owner, "close", lambda self: None)
            assert left() > 0
