"""The root of a broadcast on the device: a sender, which may end before anybody has come to receive.

A protocol that takes a broadcast for a barrier works as long as the root waits, and is wrong on the day it does not.
That the root has ended says nothing of the others, whatever was drawn, so such a protocol is a race in every run.
"""

from __future__ import annotations

from typing import Any

import pytest
from machine_programs import Scripted, Twin, Twins, everywhere, filled, holds, numbers, see, set_to, told, touch

from dpsim.checks.judge import judge
from dpsim.explore import Budget, Exploration, Problem, explore, search
from dpsim.interface import Rank
from dpsim.schedule import Strategy
from dpsim.sim.backend import SimBackend

twins = Twins()

LARGE = 40_000  # int32: more than what is sent eagerly


@twins("RACE:BUFFER", learned=[(7, 7), None])
async def the_root_has_not_heard_of_its_receivers(rank: Rank, right: bool) -> Any:
    """Rank 1 joins when it has received x, so rank 0 believes that x was sent when its broadcast is over."""
    main, side = rank.stream("main"), rank.stream("side")
    x, y = filled(main, 7 - 7 * rank.rank), filled(main, [rank.rank], "y")
    side.wait_stream(main)
    if rank.rank == 0:
        rank.device("e").send(x, 1, side)
    else:
        rank.device("e").recv(x, 0, main)
    rank.device("d").broadcast(y, 0, main)
    if rank.rank:
        return None
    content = numbers(await x.read("read", side)) if right else None
    main.launch("overwrite", set_to, writes=[x], args=(0,))
    return content


@twins("RACE:BUFFER", learned=[None, (5,)])
async def what_the_root_tells_when_it_is_through_is_no_proof_of_arrival(rank: Rank, right: bool) -> Any:
    """Rank 0 synchronises with its broadcast and sends a message; rank 1 uses x on another stream when it has that."""
    main, side = rank.stream("main"), rank.stream("side")
    x = filled(main, [5 - 5 * rank.rank])
    side.wait_stream(main)
    rank.device("d").broadcast(x, 0, main)
    if rank.rank == 0:
        await main.record().synchronize("through")
        rank.send(1, "box", "there", "tell")
        return None
    await rank.mailbox("box").get("told")
    if right:
        side.wait_stream(main)
    return numbers(await x.read("read", side))


@twins("RACE:BUFFER", learned=[None, (5,)])
async def what_is_being_broadcast_may_not_be_overwritten(rank: Rank, right: bool) -> Any:
    """The root's own stream is in order: what comes after the broadcast on it may write, eager or not."""
    main, side = rank.stream("main"), rank.stream("side")
    x = filled(main, [5 - 5 * rank.rank])
    rank.device("d").broadcast(x, 0, main)
    if rank.rank:
        return numbers(await x.read("read"))
    (main if right else side).launch("overwrite", set_to, writes=[x], args=(0,))
    return None


@twins("HANG:COLLECTIVE:ORDER_ACROSS_GROUPS", learned=[(0, 2), (0, 2)], modes=["timed", "last"])
async def a_root_may_have_to_wait(rank: Rank, right: bool) -> Any:
    """Large, it hangs where there is time, and where the chooser said so."""
    main = rank.stream("main")
    x, y = filled(main, [rank.rank] * LARGE), filled(main, [1], "y")
    if rank.rank == 0 or right:
        rank.device("d").broadcast(x, 0, main)
        rank.device("e").all_reduce(y, main)
    else:
        rank.device("e").all_reduce(y, main)
        rank.device("d").broadcast(x, 0, main)
    return (*numbers(await x.view(0, 1).read("first")), *numbers(await y.read("read")))


@twins("HANG:COLLECTIVE:ORDER_ACROSS_GROUPS", learned=[(0, 2), (0, 2)])
async def a_receiver_always_has_to(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    x, y = filled(main, [rank.rank]), filled(main, [1], "y")
    if rank.rank == 1 or right:
        rank.device("d").broadcast(x, 0, main)
        rank.device("e").all_reduce(y, main)
    else:
        rank.device("e").all_reduce(y, main)
        rank.device("d").broadcast(x, 0, main)
    return (*numbers(await x.read("first")), *numbers(await y.read("read")))


@twins("HANG:COLLECTIVE:MISSING_RANK", learned=[(0, 3), (0, 3), (0, 3)])
async def a_root_that_stands_elsewhere_waits_there(rank: Rank, right: bool) -> Any:
    """Rank 2 leaves out the broadcast on d or, wrong, both: the root stands in the sum on e if it went on."""
    main = rank.stream("main")
    x, y = filled(main, [rank.rank]), filled(main, [1], "y")
    if right or rank.rank != 2:
        rank.device("d").broadcast(x, 0, main)
        rank.device("e").all_reduce(y, main)
    return (*numbers(await x.read("first")), *numbers(await y.read("read")))


@twins.each
def test_the_healthy_program_holds(twin: Twin) -> None:
    twin.check_right()


@twins.each
def test_the_wrong_twin_is_caught(twin: Twin) -> None:
    twin.check_wrong()


def explored(twin: Twin, right: bool) -> Exploration:
    def once(strategy: Strategy) -> list[Problem]:
        run = SimBackend(choose=strategy, memory=False).run_program(twin.world, Scripted(twin.switched(right)), None)
        return [Problem(one.klass, one.klass) for one in judge(twin.world, run)[:1]]

    return explore(once, search("dpor"), Budget(50, stop_at_first=False))


@twins.each
def test_every_draw_is_explored_where_it_matters(twin: Twin) -> None:
    """A healthy program without steps is proven by the run in which the root waits."""
    healthy, wrong = explored(twin, True), explored(twin, False)
    assert healthy.verdict == "proven"
    mails = twin is twins[1]
    assert healthy.runs == (2 if mails else 1)
    assert wrong.verdict == "violated"


@pytest.mark.parametrize(("count", "ends"), [(16_384, "finished"), (16_385, "blocked")])
def test_a_small_broadcast_does_not_hold_its_root_where_there_is_time(count: int, ends: str) -> None:
    """Up to 64 KiB by the table of costs. Nobody says then that the root waits."""

    async def script(rank: Rank) -> None:
        x = filled(rank.stream("main"), [1] * count)
        if rank.rank < 2:
            rank.device("d").broadcast(x, 0, rank.stream("main"), site="tell")

    seen = see(script, told(3))
    assert seen.run.ends == [ends, "blocked", "finished"]
    assert {*seen.classes} == {"HANG:COLLECTIVE:MISSING_RANK"}
    who = "rank 1 waits" if ends == "finished" else "ranks 0, 1 wait"
    assert f"{who} in tell" in " ".join(one.message for one in seen.findings)


def test_with_nobody_to_receive_it_is_a_mismatch_or_a_hang() -> None:
    async def script(rank: Rank) -> None:
        x = filled(rank.stream("main"), [1])
        if rank.rank == 0:
            rank.device("d").broadcast(x, 0, rank.stream("main"))

    found = {seen.mode: (seen.run.ends[0], *dict.fromkeys(seen.classes)) for seen in everywhere(script)}
    assert found["first"] == found["timed"] == ("finished", "MISMATCH:COLLECTIVE:STEP")
    assert found["last"] == ("blocked", "HANG:COLLECTIVE:MISSING_RANK")


def test_broadcasts_of_a_communicator_keep_their_order_and_their_values() -> None:
    """Whoever is root, on whatever streams, and however late the receivers come."""

    async def script(rank: Rank) -> Any:
        main, side, group = rank.stream("main"), rank.stream("side"), rank.device("d")
        x = filled(main, [10 * rank.rank] * 4)
        if rank.rank == 1:
            await rank.sleep(500_000, "sleep")
        for index in range(3):
            one, on = x.view(index, index + 1), (main, side)[index % 2]
            on.wait_stream((side, main)[index % 2])
            on.launch("step", set_to, writes=[one], args=(10 * rank.rank + index,))
            group.broadcast(one, index % 2, on)
            on.launch("use", touch, reads=[one])
            if rank.rank == index % 2:
                on.launch("overwrite", set_to, writes=[one], args=(9,))
        last = x.view(3, 4)
        group.all_reduce(last, main)
        main.wait_stream(side)
        return numbers(await x.read("read"))

    holds(script, [(9, 11, 9, 10), (0, 9, 2, 10)], told(2))
