"""Tests a get with a time-out. It returns None only when nothing else can happen, and otherwise takes the message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import Kill
from tests.programs import world_of
from tests.sim.programs import Twins, everywhere, see
from tests.worlds.brute import enumerate_schedules
from tests.worlds.case import Case
from tests.worlds.explored import missed

SECOND = 1_000_000_000

twins = Twins()


@twins("HANG:MAILBOX:NO_MESSAGE", learned=[None, None])
async def a_get_without_a_message_times_out(rank: Rank, right: bool) -> Any:
    return await rank.mailbox("in").get("get", timeout_ns=SECOND if right else None)


@twins("LIVELOCK:POLL", learned=[3, None])
async def a_repeated_get_is_answered(rank: Rank, right: bool) -> Any:
    """Rank 0 repeats a get with a time-out until rank 1 answers, whose own time-out passes meanwhile. In the faulty
    twin rank 1 never answers, so rank 0 polls without end.
    """
    if rank.rank:
        await rank.mailbox("in").get("pause", timeout_ns=5 * SECOND // 2)
        if right:
            rank.send(0, "in", "enough", "tell")
        return None
    for asked in range(100_000):
        if await rank.mailbox("in").get("ask", timeout_ns=SECOND) is not None:
            return asked + 1
    return "never"


@twins("CRASH:VALUEERROR", learned=[None])
async def an_idle_get_has_no_time_out(rank: Rank, right: bool) -> Any:
    await rank.mailbox("in").get("get", idle=not right, timeout_ns=SECOND)


test_the_healthy_program_holds, test_the_wrong_twin_is_caught = twins.tests()


def test_a_get_with_a_time_out_takes_an_early_message_and_leaves_a_late_one() -> None:
    async def script(rank: Rank) -> Any:
        if rank.rank == 0:
            rank.send(1, "in", 1, "send")
            return await rank.mailbox("in").get("hear", timeout_ns=3 * SECOND)
        box = rank.mailbox("in")
        first, vain = await box.get("first", timeout_ns=SECOND), await box.get("vain", timeout_ns=SECOND)
        rank.send(0, "in", 2, "back")
        rank.send(1, "in", 3, "own")
        return first, vain, await box.get("late")

    for seen in everywhere(script):
        assert seen.learned == [2, (1, None, 3)]
        assert seen.run.elapsed_ns < 2 * SECOND


def test_a_get_waits_for_a_late_message_until_its_time_out() -> None:
    async def script(rank: Rank, late_ns: int) -> Any:
        if rank.rank == 0:
            await rank.sleep(late_ns, "late")
            rank.send(1, "in", "late", "send")
            return None
        return await rank.mailbox("in").get("get", timeout_ns=SECOND)

    for late_ns, found in (SECOND // 2, "late"), (2 * SECOND, None):
        assert see(partial(script, late_ns=late_ns)).learned == [None, found]


class Post(Program[Any]):
    """Each rank does a list of actions. Its journal contains what it learned."""

    def __init__(self, *scripts: Sequence[tuple[Any, ...]]) -> None:
        self.scripts = scripts

    async def run(self, rank: Rank, prepared: Any) -> None:
        box = rank.mailbox("in")
        for what, *more in self.scripts[rank.rank]:
            if what == "tell":
                rank.send(more[0], "in", rank.rank, "tell")
            elif what in ("poll", "get 0"):  # in one line, because records contain the line number
                await (box.poll("look") if what == "poll" else box.get("look", timeout_ns=0))
            elif await box.get("get", timeout_ns=more[0]) is None and len(more) > 1:
                rank.send(more[1], "in", ("vain", rank.rank), "vain")


def case(name: str, *scripts: Sequence[tuple[Any, ...]], **more: Any) -> Case:
    return Case(name, world_of(len(scripts), **more), Post(*scripts))


CASES = [
    case("a message", [("get", 10)], [("tell", 0)]),
    case("two messages", [("get", 10), ("get", 10)], [("tell", 0)], [("tell", 0)]),
    case("two wait in vain", [("get", 10, 1)], [("get", 10, 0)]),
    case("three wait in vain", [("get", 10, 1)], [("get", 10, 2)], [("get", 10, 0)]),
    case("a short and a long one", [("get", 10, 1), ("get", 10)], [("get", 20, 0)]),
    case("who is too late", [("get", 10, 1), ("poll",)], [("get", 10), ("tell", 0)]),
    case("a poll beside", [("get", 10), ("poll",)], [("tell", 0)], [("get", 10), ("tell", 0)]),
    case("a sender's death", [("get", 10)], [("tell", 0)], kills=(Kill(1),)),
    case("a death or the time", [("get", 10)], [("get", 10), ("tell", 0)], kills=(Kill(1),)),
    case("who waits dies", [("tell", 1)], [("get", 10), ("tell", 0)], kills=(Kill(1),)),
]


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_dpor_sees_what_all_schedules_show(one: Case) -> None:
    assert missed(one) == (0, 0, 0)


def test_a_message_within_the_time_is_one_order() -> None:
    """A get within its time makes no choice: one message is one class of schedules. Two senders, or two time-outs, are
    two.
    """
    assert [len(enumerate_schedules(one).classes) for one in CASES[:3]] == [1, 2, 2]


@pytest.mark.parametrize(
    "look_beside",
    [
        lambda look: ([(look,)], [("tell", 0)]),
        lambda look: ([(look,), ("get", 10)], [("tell", 0)], [("get", 10), ("tell", 0)]),
        lambda look: ([(look,), ("tell", 1), (look,)], [("get", 10, 0), ("tell", 0)]),
    ],
)
def test_a_get_that_does_not_wait_is_a_poll(look_beside: Callable[[str], Sequence[Any]]) -> None:
    """A get with time-out 0 is a poll: it may find the mailbox empty while the message is under way. In a run without
    time, a get that waits never does.
    """
    with_poll, with_get = (enumerate_schedules(case("looks", *look_beside(look))) for look in ("poll", "get 0"))
    assert with_get == with_poll
    assert len(with_get.classes) > 1
    assert missed(case("looks", *look_beside("get 0"))) == (0, 0, 0)


def test_a_get_that_does_not_wait_finds_nothing_in_a_run_with_time_too() -> None:
    async def script(rank: Rank) -> Any:
        if rank.rank:
            rank.send(0, "in", 1, "send")
            return None
        box = rank.mailbox("in")
        vain, asked = await box.get("look", timeout_ns=0), 1
        while (came := await box.get("again", timeout_ns=0)) is None:
            asked += 1
        return vain, came, asked < 100_000

    assert see(script).learned == [(None, 1, True), None]
