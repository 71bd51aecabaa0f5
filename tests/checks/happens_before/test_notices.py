"""Tests notices in happens-before. A notice that an actor has ended comes after all ops that the actor reached, and
after the start of the watch. A notice about another actor does not.
"""

from __future__ import annotations

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.interface import Rank
from dpsim.sim.backend import SimBackend
from tests.checks.handmade import Made
from tests.programs import Scripted, run, set_to, touch, world_of


def after_the_end_of(whom: int) -> list[str]:
    """Returns the findings of a run. Rank 0 writes y on stream a, and after a notice reads it on stream b. Rank 1's
    last read proves that a has passed the write; rank 2 has no such read.
    """

    async def script(rank: Rank) -> None:
        a, b = rank.stream("a"), rank.stream("b")
        x = a.alloc(1, "int32", "x")
        a.launch("x", set_to, writes=[x], args=(1,))
        if rank.rank == 0:
            y = a.alloc(1, "int32", "y")
            a.launch("y", set_to, writes=[y], args=(1,))
            rank.device("d").all_reduce(x, a, site="sum")
            rank.watch(whom, "deaths", "watch")
            await rank.mailbox("deaths").get("told")
            b.launch("late", touch, reads=[y])
        elif rank.rank == 1:
            rank.device("d").all_reduce(x, a, site="sum")
            await x.read("read")

    world = world_of(3, [], ["d"], among=2)
    return [finding.klass for finding in judge(world, run(world, script))]


@pytest.mark.parametrize(("whom", "classes"), [(1, []), (2, ["RACE:BUFFER"])])
def test_a_notice_orders_the_ops_of_the_dead_rank_before_it(whom: int, classes: list[str]) -> None:
    assert after_the_end_of(whom) == classes


def test_a_notice_comes_after_its_watch() -> None:
    """The main thread writes and then watches; another thread gets the notice and reads. The faulty twin watches before
    it writes, so it has a race.
    """

    def world(watches_first: bool) -> list[str]:
        async def script(rank: Rank) -> None:
            if rank.rank:
                return
            a, b = rank.stream("a"), rank.stream("b")
            y = a.alloc(1, "int32", "y")

            async def told(own: Rank) -> None:
                await own.mailbox("deaths").get("told")
                b.launch("late", touch, reads=[y])

            thread = rank.start("u", told)
            if watches_first:
                rank.watch(1, "deaths", "watch")
            a.launch("y", set_to, writes=[y], args=(1,))
            await a.record().synchronize("done")
            if not watches_first:
                rank.watch(1, "deaths", "watch")
            await thread.join("join")

        class Threaded(Scripted):
            threaded = True

        of = world_of(2, [], ["d"])
        return [finding.klass for finding in judge(of, SimBackend().run_program(of, Threaded(script), None))]

    assert world(watches_first=False) == []
    assert "RACE:BUFFER" in world(watches_first=True)


def test_a_message_equal_to_a_notice_orders_only_what_both_imply() -> None:
    """A message may equal a notice. If the take may have got either, only the order that both imply counts."""
    made = Made(2)
    made[0].add("watch", "watch", ordinal=0, where="here.py:1", actor=1, mailbox="box")
    made[1].post(0, ("gone", 1))
    made[0].learned(made[0].take(), ("gone", 1))
    assert made.classes() == []
