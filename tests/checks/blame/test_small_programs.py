"""Tests whom the checks blame, and in which step, in small programs with one planted fault. The tests remove the record
of the fault.

ring        each rank sends to the next rank, and receives from the one before
stages      each stage has a mailbox; a get gives up after a time-out
ordered     rank 0 sends an order for each step, and takes part in nothing else
starts      a start with two calls, then steps with one call
threaded    the main thread and a second host thread take turns by flags
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsim.checks.blame import uneven
from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND
from dpsim.contract.world import At, CommunicatorSpec, Fault, World
from dpsim.diagnose.words.told import Told
from tests.judged import judge
from tests.programs import Script, world_of
from tests.sim.test_threads import done

STEPS = 4


def planted(world: World, script: Script, kind: Any, rank: int, site: str, ordinal: int, thread: str = "main") -> Told:
    fault = Fault(kind, rank, At(site, ordinal, thread=thread))
    made = done(script, replace(world, faults=(fault,)))
    plain = [[raw for raw in own if raw[KIND] != "injected"] for own in made.journals]
    assert plain != made.journals, "the fault changes the journals"
    return judge(world, replace(made, journals=plain))[0]


def blamed(found: Told) -> tuple[int, int] | None:
    culprit = found.culprit
    return None if culprit is None else (culprit.rank, culprit.step)


# ---- rings


async def ring(rank: Rank) -> None:
    group = rank.host("h")
    right, left = (rank.rank + 1) % group.size, (rank.rank - 1) % group.size
    for rank.step in range(STEPS):
        total = piece = np.full(2, rank.rank + 10 * rank.step, np.int32)
        for _ in range(group.size - 1):
            sent = group.send(piece, right, site="ring.send")
            piece = await group.recv(2, "int32", left, site="ring.recv")
            await sent
            total = total + piece
        expected = sum(one + 10 * rank.step for one in group.ranks)
        assert int(total[0]) == expected
        rank.decide("total", int(total[0]), "h")


@pytest.mark.parametrize("ordinal", [0, 2, 5, 7])
@pytest.mark.parametrize("site", ["ring.send", "ring.recv"])
@pytest.mark.parametrize("kind", ["raise", "hang", "die"])
def test_a_rank_that_stops_within_a_step_left_nothing_out(kind: str, site: str, ordinal: int) -> None:
    """A rank that raises, hangs or dies within a step made fewer calls than its neighbours. It is blamed for that, not
    a neighbour for one call too many.
    """
    found = planted(world_of(3, hosts=["h"]), ring, kind, 1, site, ordinal)
    assert blamed(found) == (1, ordinal // 2)
    assert "nothing says" not in found.message


@pytest.mark.parametrize("kind", ["skip", "repeat"])
@pytest.mark.parametrize("site", ["ring.send", "ring.recv"])
def test_one_other_step_of_each_of_two_equal_ranks_decides(kind: str, site: str) -> None:
    """Two ranks, with a fault in the second step. One other step of each rank is enough evidence, because both make the
    same calls.
    """
    found = planted(world_of(2, hosts=["h"]), ring, kind, 0, site, 1)
    assert blamed(found) == (0, 1)


@pytest.mark.parametrize("kind", ["skip", "repeat"])
def test_no_rank_is_blamed_in_the_first_step_of_two_ranks(kind: str) -> None:
    """In the first step of two ranks no other step shows what is usual. So no rank is blamed, because the rank that
    raises may be the victim.
    """
    assert blamed(planted(world_of(2, hosts=["h"]), ring, kind, 0, "ring.send", 0)) is None


# ---- stages with mailboxes


async def stages(rank: Rank) -> None:
    for rank.step in range(STEPS):
        if rank.rank:
            assert await rank.mailbox("in").get("in.get", timeout_ns=10**9) is not None, "no message arrived in time"
        if rank.rank < 2:
            rank.send(rank.rank + 1, "in", ("hidden", rank.step), "in.post")


@pytest.mark.parametrize("ordinal", [0, 2])
def test_an_exception_is_reported_before_the_time_outs_of_other_ranks(ordinal: int) -> None:
    """Stages 1 and 2 raise as well, because their gets time out, in the same step or an earlier one. The finding is the
    exception of stage 0.
    """
    found = planted(world_of(3), stages, "raise", 0, "in.post", ordinal)
    assert found.klass == "CRASH:INJECTEDERROR"
    assert blamed(found) == (0, ordinal)


# ---- orders


def ordered(ranks: int, polls: bool = False) -> tuple[World, Script]:
    """Rank 0 orders each step, and waits for all others. The others start the step at its order, and meet twice."""
    world, others = world_of(ranks, hosts=["h"]), tuple(range(1, ranks))

    async def orders(rank: Rank) -> None:
        box = rank.mailbox("box")
        for step in range(STEPS):
            if rank.rank == 0:
                rank.step = step
                for to in others:
                    rank.send(to, "box", step, "order.post")
                for _ in others:
                    await box.get("done.get")
                continue
            while (order := await (box.poll("order.poll") if polls else box.get("order.get"))) is None:
                pass
            assert isinstance(order, int)
            rank.step = order
            await rank.host("h").barrier(site="meet")
            await rank.host("h").all_reduce(np.ones(1, np.int32), site="sum")
            rank.send(0, "box", rank.rank, "done.post")

    return replace(world, communicators=(world.communicators[0]._replace(ranks=others),)), orders


@pytest.mark.parametrize(("kind", "klass"), [("skip", "MISSING_RANK"), ("repeat", "EXTRA_CALL")])
@pytest.mark.parametrize("ordinal", [1, 3])
def test_a_member_that_waits_in_a_mailbox_is_held_against_its_other_steps(kind: str, klass: str, ordinal: int) -> None:
    """The culprit made the sum of a step never or twice, and a rank waits in a mailbox. Its other steps show the usual
    number.
    """
    found = planted(*ordered(4), kind, 2, "sum", ordinal)
    assert blamed(found) == (2, ordinal)
    assert found.klass == f"HANG:COLLECTIVE:{klass}"


def test_a_polling_rank_is_no_culprit_beside_a_repeated_call() -> None:
    found = planted(*ordered(3, polls=True), "repeat", 2, "sum", 2)
    assert (found.klass, blamed(found)) == ("LIVELOCK:POLL", (2, 2))
    assert found.message.startswith("rank 2 made sum twice in step 2; ")


# ---- a start, and then other steps


async def starts(rank: Rank) -> None:
    group = rank.host("h")
    rank.step = 0
    await group.barrier(site="start")
    await group.all_gather(np.ones(1, np.int32), site="sizes")
    for rank.step in range(1, STEPS):
        await group.all_reduce(np.ones(1, np.int32), site="work")
    rank.step = STEPS
    await group.barrier(site="end")


@pytest.mark.parametrize("site", ["start", "sizes"])
@pytest.mark.parametrize("rank", [0, 1])
def test_no_rank_is_blamed_for_a_call_that_only_the_start_has(site: str, rank: int) -> None:
    """One of two ranks skips a call of the start, and no other step is like the start. So no rank is blamed."""
    assert blamed(planted(world_of(2, hosts=["h"]), starts, "skip", rank, site, 0)) is None


@pytest.mark.parametrize("rank", [0, 1])
def test_a_start_does_not_tell_how_often_a_step_works(rank: int) -> None:
    """A rank makes the call of the first step twice. The start also has two calls, but other ones, so it does not
    excuse that.
    """
    assert blamed(planted(world_of(2, hosts=["h"]), starts, "repeat", rank, "work", 0)) == (rank, 1)


async def warms_up(rank: Rank) -> None:
    """Two groups of two ranks. Each meets in step 0, and adds three times in step 1."""
    group = rank.host("a" if rank.rank < 2 else "b")
    rank.step = 0
    await group.barrier(site="meet")
    rank.step = 1
    for site in ("coordinate", "rows", "experts"):
        await group.all_reduce(np.ones(1, np.int32), site=site)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("site", ["rows", "experts"])
def test_the_peer_of_one_that_raised_left_out_no_call_of_another_step(rank: int, site: str) -> None:
    """A rank raises in step 1. Its peer lacks "meet" in step 1, which all have only in step 0; that is no
    missing call.
    """
    pairs = [CommunicatorSpec(kind, kind, "host", members) for kind, members in (("a", (0, 1)), ("b", (2, 3)))]
    found = planted(World(4, tuple(pairs)), warms_up, "raise", rank, site, 0)
    assert blamed(found) in ((rank, 1), None)


# ---- threads


async def threaded(rank: Rank) -> None:
    ready, done = rank.flag("ready"), rank.flag("done")

    async def second(rank: Rank) -> None:
        for rank.step in range(STEPS):
            await ready.wait("ready.wait")
            ready.clear("ready.clear")
            await rank.host("h").barrier(site="meet")
            done.set("done.set")

    thread = rank.start("u1", second)
    for rank.step in range(STEPS):
        ready.set("ready.set")
        await done.wait("done.wait")
        done.clear("done.clear")
    await thread.join("join")


def test_the_finding_names_the_step_of_the_hanging_thread() -> None:
    """The main thread hangs in step 1, while its other thread u1 waits in step 2. The finding names step 1."""
    found = planted(world_of(3, hosts=["h"]), threaded, "hang", 1, "done.clear", 1)
    assert blamed(found) == (1, 1)


def test_a_hanging_thread_is_blamed_before_the_thread_that_waits_for_its_flag() -> None:
    """Thread u1 hangs before it sets the flag for which the main thread waits. The finding blames u1."""
    found = planted(world_of(3, hosts=["h"]), threaded, "hang", 1, "done.set", 1, thread="u1")
    assert found.culprit is not None
    assert (blamed(found), found.culprit.thread, found.culprit.site) == ((1, 1), "u1", "done.set")


# ---- a pipeline with credits


async def credited(rank: Rank) -> None:
    """Rank 0 sends an item in each step, and rank 1 takes it two steps later."""
    group = rank.host("h")
    works = []
    for rank.step in range(8):
        if rank.rank == 0 and rank.step < 6:
            works.append(group.send(np.ones(2, np.int32), 1, site="item.send"))
        elif rank.rank == 1 and rank.step > 1:
            await group.recv(2, "int32", 0, site="item.recv")
    for work in works:
        await work


@pytest.mark.parametrize("look", [True, False])
def test_a_raise_that_makes_numbers_of_calls_differ_is_the_cause(look: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of calls of both ranks differ in each step, with and without the raise. The twin does not look at how
    the calls pair up.
    """
    if not look:
        monkeypatch.setattr(uneven, "_may_explain", lambda *_: True)
    found = planted(world_of(2, hosts=["h"]), credited, "raise", 0, "item.send", 3)
    assert (blamed(found) == (0, 3)) == look
