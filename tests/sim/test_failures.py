"""Tests failures of a device or a rank: kernels that raise, ranks that die, and GPUs without a free slot. A slot is
room for one collective that runs on the GPU.

The simulation shows them as hardware does. A kernel's error appears where its host next waits for the device. The
pending work of a dead rank never happens, so its peers wait. A collective that waits for its peers occupies its GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, SITE
from dpsim.contract.world import At, CommunicatorSpec, Fault, Kill
from dpsim.diagnose.words import text
from tests.judged import judge
from tests.programs import run
from tests.sim.programs import Twins, everywhere, filled, holds, numbers, see, seeded, usual_world

twins = Twins()

DEAD = "HANG:COLLECTIVE:DEAD_RANK"


def divide(target: Any, by: int) -> None:
    target[:] = 12 // by


# ---- kernels


@twins("CRASH:KERNELERROR", learned=[(3,)])
async def a_kernel_that_raises_fails_its_rank(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    x = main.alloc(1, "int32", "x")
    main.launch("divide", divide, writes=[x], args=(4 if right else 0,))
    return numbers(await x.read("read"))


@twins("CRASH:KERNELERROR", learned=[(3,)])
async def a_host_that_never_waits_gets_the_error_at_the_end(rank: Rank, right: bool) -> Any:
    """A host that never waits for its device gets the kernel's error at the end of its program, which is a wait for the
    device.
    """
    main = rank.stream("main")
    main.launch("divide", divide, writes=[main.alloc(1, "int32", "x")], args=(4 if right else 0,))
    return (3,)


@twins("CRASH:KERNELERROR", learned=[(3,)])
async def a_synchronizing_rank_raises(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    main.launch("divide", divide, writes=[main.alloc(1, "int32", "x")], args=(4 if right else 0,))
    await main.record().synchronize("synchronize")
    rank.step = 1
    return (3,)


@pytest.mark.parametrize("by", [4, 0])
def test_a_kernel_error_raises_at_the_next_wait_for_the_device(by: int) -> None:
    """A kernel's error appears neither at its launch nor at a host collective. It appears at the next wait for the
    device.
    """

    async def script(rank: Rank) -> Any:
        main, side = rank.stream("main"), rank.stream("side")
        main.launch("divide", divide, writes=[main.alloc(1, "int32", "x")], args=(by,))
        rank.decide("launched", True, "own")
        total = await rank.host("h").all_reduce(np.ones(1, np.int32))
        rank.decide("summed", int(total[0]), "own")
        side.wait_stream(main)
        await filled(side, [1], "y").read("read")
        return "read"

    for seen in everywhere(script):
        decided = [[raw[SITE] for raw in journal if raw[KIND] == "decision"] for journal in seen.run.journals]
        assert decided == [["launched", "summed", *["learned"] * (by > 0)]] * 2, seen.mode
        if by == 0:
            assert seen.classes == ["CRASH:KERNELERROR"], "both ranks share one finding"
            assert str(seen.findings[0].culprit).startswith("every rank, step "), (
                "the finding blames the line and no single rank"
            )
            assert "rank 0 divide[0]: ZeroDivisionError" in text(seen.findings[0].message), "it names the launch"
            assert " at tests/sim/test_failures.py:" in text(seen.findings[0].message), "and the line of the kernel"


def test_a_device_does_no_work_after_a_kernel_error() -> None:
    """After a kernel's error, the device does no further work. A peer's collective hangs; a rank that needs no data
    from the device finishes.
    """

    async def script(rank: Rank) -> Any:
        main = rank.stream("main")
        x = filled(main, [1])
        main.launch("divide", divide, writes=[x], args=(0 if rank.rank == 1 else 12,))
        if rank.rank < 2:
            rank.device("pair").all_reduce(x, main)
        return numbers(await x.read("read"))

    world, pair = usual_world(3), CommunicatorSpec("pair", "pair", "device", (0, 1))
    world = replace(world, communicators=(*world.communicators, pair))
    for seen in everywhere(script, world):
        assert seen.run.ends == ["blocked", "raised", "finished"], seen.mode
        assert seen.classes == ["CRASH:KERNELERROR"], "the kernel error explains why rank 0 waits"
        assert seen.learned == [None, None, (1,)]


def test_an_error_is_raised_by_the_wait_itself() -> None:
    async def script(rank: Rank) -> Any:
        await a_synchronizing_rank_raises(rank, False)

    for seen in everywhere(script, usual_world(1)):
        assert seen.findings[0].culprit is not None
        assert seen.findings[0].culprit.step == 0, "the culprit's step is that of the wait that raises"


# ---- deaths


async def rounds(rank: Rank) -> None:
    for step in range(4):
        rank.step = step
        await rank.host("h").all_reduce(np.ones(1, np.int32), site="round")


@pytest.mark.parametrize("ranks", [2, 3])
def test_peers_of_a_dead_rank_hang_and_it_is_named(ranks: int) -> None:
    seen = see(rounds, usual_world(ranks, kills=(Kill(1, 300_000),)))
    assert seen.run.ends == ["blocked", "died", *["blocked"] * (ranks - 2)]
    assert seen.classes[0] == DEAD
    assert seen.findings[0].culprit is not None
    assert seen.findings[0].culprit.rank == 1


def test_a_rank_that_ended_before_its_planned_death_does_not_die() -> None:
    holds(rounds, None, usual_world())
    assert see(rounds, usual_world(kills=(Kill(1, 10**9),))).classes == []


def test_a_death_without_waiting_ranks_is_no_hang() -> None:
    async def script(rank: Rank) -> None:
        await rank.host("h").barrier()
        if rank.rank == 1:
            await rank.sleep(10**6, "sleep")

    assert see(script, usual_world(kills=(Kill(1, 10**6),))).classes == ["DEATH:RANK"]


@pytest.mark.parametrize(("ns", "learned"), [(100_000, None), (300_000, (7,))])
def test_a_send_behind_the_kernel_in_which_its_rank_dies_never_happens(ns: int, learned: Any) -> None:
    """Rank 1 dies during its kernel of 200 us, so its send never happens; or it dies after the send."""

    async def script(rank: Rank) -> Any:
        main, group = rank.stream("main"), rank.device("d")
        if rank.rank == 1:
            group.send(filled(main, [7], cost=200_000), 0, main)
            await rank.sleep(400_000, "sleep")
            return None
        x = main.alloc(1, "int32", "x")
        group.recv(x, 1, main)
        return numbers(await x.read("read"))

    seen = see(script, usual_world(kills=(Kill(1, ns),)))
    assert seen.learned == [learned, None]
    assert seen.run.ends == ["finished" if learned else "blocked", "died"]
    assert seen.classes == (["DEATH:RANK"] if learned else [DEAD])


@pytest.mark.parametrize(("ns", "arrives"), [(3_000, False), (6_000, True)])
def test_a_transfer_ends_with_either_of_its_ranks(ns: int, arrives: bool) -> None:
    """The transfer is too large to be eager, so both ranks are in it from 1 us to 4.5 us. It arrives only if rank 1
    dies later.
    """

    async def script(rank: Rank) -> Any:
        main = rank.stream("main")
        x = filled(main, [rank.rank] * 40_000)
        if rank.rank == 1:
            rank.device("d").send(x, 0, main)
            await rank.sleep(10**6, "sleep")
        else:
            rank.device("d").recv(x, 1, main)
        return int((await x.read("read"))[0])

    assert see(script, usual_world(kills=(Kill(1, ns),))).learned == [1 if arrives else None, None]


def test_a_message_that_a_rank_sent_before_its_death_arrives() -> None:
    """A message that a rank sent before its death still arrives."""

    async def script(rank: Rank) -> Any:
        if rank.rank == 0:
            return await rank.mailbox("in").get("get")
        rank.send(0, "in", 7, "send")
        await rank.sleep(10**6, "sleep")
        return None

    assert see(script, usual_world(kills=(Kill(1, 1),))).learned == [7, None]


def test_a_fault_lets_a_rank_die_at_an_op() -> None:
    for seen in everywhere(rounds, usual_world(faults=(Fault("die", 1, At("round", 2)),))):
        assert seen.run.ends == ["blocked", "died"], seen.mode
        assert {*seen.classes} == {DEAD}, seen.mode
        assert seen.findings[0].culprit is not None
        assert seen.findings[0].culprit.rank == 1


@pytest.mark.runs_once  # the function that chooses has state
def test_a_kill_can_occur_anywhere_without_time() -> None:
    world, ends = usual_world(kills=(Kill(1, 0),)), []
    for when in range(40):
        left = [when]

        def choose(label: str, options: Sequence[str], left: list[int] = left) -> int:
            kill = next((i for i, option in enumerate(options) if option.startswith("kill")), None)
            left[0] -= 1
            if kill is not None and left[0] < 0:
                return kill
            return next((i for i in range(len(options)) if i != kill), 0)

        done = run(world, rounds, choose=choose)
        ends.append(tuple(done.ends))
        assert all(finding.klass in (DEAD, "DEATH:RANK") for finding in judge(world, done))
    assert ("blocked", "died") in ends
    assert ("finished", "finished") in ends


# ---- residency: collectives that occupy a slot of their GPU


async def two_streams(rank: Rank, in_order: bool) -> Any:
    """Issues a collective on each of two streams. Unless `in_order`, the two ranks issue them in opposite order."""
    buffers = {}
    for kind in ("d", "e") if rank.rank == 0 or in_order else ("e", "d"):
        stream = rank.stream(kind)
        x = buffers[kind] = filled(stream, [1], kind)
        if in_order and kind == "e":
            stream.wait_stream(rank.stream("d"))
        rank.device(kind).all_reduce(x, stream)
    return (*numbers(await buffers["d"].read("read.d")), *numbers(await buffers["e"].read("read.e")))


@twins("HANG", learned=[(2, 2)] * 2, world=usual_world(residency=1), modes=["timed", "first"])
async def with_one_slot_collectives_need_one_order(rank: Rank, right: bool) -> Any:
    """A collective occupies its GPU while it waits for its peers. With one slot, the second gets no slot before the
    first is done, so opposite orders hang.
    """
    return await two_streams(rank, right)


def test_a_waiting_rank_takes_the_free_slot() -> None:
    """With one slot, two collectives that both ranks issue in one order run one after the other. With two slots they
    overlap, so the run is shorter.
    """

    async def script(rank: Rank) -> Any:
        works = []
        for kind in ("d", "e"):
            x = filled(rank.stream(kind), [1], kind)
            rank.device(kind).all_reduce(x, rank.stream(kind))
            works.append(x.read(f"read.{kind}"))
        return (*numbers(await works[0]), *numbers(await works[1]))

    one, two = see(script, usual_world(residency=1)), see(script, usual_world(residency=2))
    assert one.learned == two.learned == [(2, 2)] * 2
    assert one.run.elapsed_ns > two.run.elapsed_ns


@pytest.mark.parametrize(("residency", "hangs"), [(1, True), (2, False), (None, False)])
def test_some_schedule_hangs_with_one_slot_and_none_with_two(residency: int | None, hangs: bool) -> None:
    async def script(rank: Rank) -> Any:
        return await two_streams(rank, False)

    world = usual_world(residency=residency)
    ends = [run(world, script, choose=seeded(seed)).finished for seed in range(60)]
    assert any(ends), "in some schedules a slot is free before rank 0 needs it"
    assert hangs == (not all(ends))


def test_with_one_slot_side_by_side_collectives_may_hang_even_in_one_order_of_issue() -> None:
    """A host does not order its streams: rank 0 may start d first and rank 1 e, so some schedules hang."""

    async def script(rank: Rank) -> None:
        for kind in ("d", "e"):
            rank.device(kind).all_reduce(filled(rank.stream(kind), [1], kind), rank.stream(kind))

    world = usual_world(residency=1)
    ends = [run(world, script, choose=seeded(seed)).finished for seed in range(60)]
    assert set(ends) == {True, False}


test_the_healthy_program_holds, test_the_wrong_twin_is_caught = twins.tests()


def fails_meanwhile(wait: str) -> Any:
    """Returns a script whose kernel fails while the host waits for something else (`wait`). The host gets the error
    when it next waits for its device.
    """

    async def script(rank: Rank) -> Any:
        main, box = rank.stream("main"), rank.mailbox("in")
        if rank.rank == 1:
            await rank.sleep(500_000, "later")
            rank.send(0, "in", "go on", "send")
            return None
        buffer = main.alloc(1, "int32", "buffer")
        main.launch("bad", divide, writes=[buffer], args=(0,), cost=10)
        done = main.record()
        if wait == "sleep":
            await rank.sleep(1_000_000, "sleep")
        elif wait == "get":
            assert await box.get("get") == "go on"
        elif wait == "query":
            await rank.sleep(1_000_000, "sleep")
            await done.query("query")
        elif wait == "idle":
            await box.get("get")
            await box.get("idle", idle=True)
        return numbers(await buffer.read("read"))

    return script


@pytest.mark.parametrize("wait", ["sleep", "get", "query", "idle"])
def test_a_busy_host_continues_when_its_kernel_fails(wait: str) -> None:
    for seen in everywhere(fails_meanwhile(wait), usual_world(2)):
        assert seen.run.ends == ["raised", "finished"], seen.mode
        assert [finding.klass for finding in seen.findings] == ["CRASH:KERNELERROR"], seen.mode
