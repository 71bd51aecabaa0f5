"""Tests ranks that poll and agree in a loop. The explorer cuts a schedule off if it holds back a message. If no message
is under way, the loop is a livelock. A loop that makes progress continues.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.schedule import CutOff
from dpsim.diagnose.words import text
from dpsim.explore.strategies.walks import Fifo
from dpsim.sim.hosts import watch
from tests.programs import Script, Scripted, explored, judged, world_of
from tests.sim.test_threads import found as threaded
from tests.sim.test_watch import Starving

WORLD = world_of(2, hosts=["h"])


async def agree(rank: Rank, value: int) -> int:
    return int((await rank.host("h").all_reduce(np.array([value], np.int32), op="max", site="any"))[0])


async def serves(rank: Rank) -> None:
    """Each rank polls until a rank has work."""
    work = 0
    while not await agree(rank, work):
        work += await rank.mailbox("box").poll("ask") is not None


async def serves_one(rank: Rank) -> None:
    if rank.rank == 0:
        rank.send(1, "box", "work", "client")
    await serves(rank)


def test_a_schedule_that_holds_a_message_back_ends_early() -> None:
    found = explore_subject(Subject(WORLD, Scripted(serves_one)), Starving()).exploration
    assert (found.verdict, found.cut, [*found.bounds]) == ("sampled", 1, ["1,000 steps that brought nothing new"])
    assert found.steps < 1_000 + 2 * 100


class Late(Starving):
    """Delivers the message after `steps` other steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def select(self, candidates: Any) -> int:
        self.steps -= 1
        return super().select(candidates) if self.steps > 0 else Fifo.select(self, candidates)


@pytest.mark.slow
def test_a_schedule_that_delivers_the_message_late_holds() -> None:
    """Each rank polls its mailbox once more before dpsim calls the run endless, so a message at the last step is no
    livelock.
    """
    for steps in range(1_015, 1_030):
        found = explore_subject(Subject(WORLD, Scripted(serves_one), repeats=False), Late(steps))
        assert found.findings == ()


def test_a_schedule_that_delivers_the_message_holds() -> None:
    found = explored(WORLD, serves_one, "fifo")
    assert (found.exploration.cut, found.findings) == (0, ())


@pytest.mark.parametrize("timed", [True, False], ids=["in time", "explored"])
def test_a_poll_without_messages_under_way_is_a_livelock(timed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "REPEATS", 5_000)
    (finding,) = judged(WORLD, serves) if timed else explored(WORLD, serves).findings
    assert finding.klass == "LIVELOCK:POLL"
    assert text(finding.message).startswith("ranks 0, 1 repeat ")
    assert "poll box" in text(finding.message)
    assert "all_reduce max int32[1] on h" in text(finding.message)


def gets_on(new: bool) -> Script:
    """Each rank polls and agrees 700 times, on a new value each time, or on the same."""

    async def script(rank: Rank) -> None:
        if rank.rank == 0:
            rank.send(1, "later", "work", "client")
        for number in range(700):
            await rank.mailbox("box").poll("ask")
            await agree(rank, number if new else 7)
        if rank.rank == 1:
            await rank.mailbox("later").get("work")

    return script


@pytest.mark.parametrize(("new", "cut"), [(True, 0), (False, 1)])
def test_ranks_with_a_new_agreement_make_progress(new: bool, cut: int) -> None:
    found = explore_subject(Subject(WORLD, Scripted(gets_on(new))), Starving()).exploration
    assert (found.cut, len(found.fresh)) == (cut, 1 - cut)


def test_a_rank_that_only_agrees_may_count_how_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "REPEATS", 500)

    async def script(rank: Rank) -> None:
        for _ in range(2_000):
            await rank.host("h").barrier(site="meet")

    assert judged(WORLD, script) == []


def awaits_in_python(comes: bool) -> Script:
    """The main thread checks a list in a loop, until another thread has put a message into it."""

    async def script(rank: Rank) -> None:
        box: list[Any] = []

        async def gets(rank: Rank) -> None:
            box.append(await rank.mailbox("box").get("get"))

        thread = rank.start("gets", gets)
        if comes:
            rank.send(0, "box", "work", "send")
        while not box:
            await rank.turn("looks")
        await thread.join("join")

    return script


@pytest.mark.parametrize("strategy", [None, Fifo, Starving])
def test_turns_end_where_another_thread_answers(strategy: type[Fifo] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop ends when the other thread has its message. The faulty twin waits for a message that no rank sends. A
    schedule that holds the thread back is no livelock.
    """
    monkeypatch.setattr(watch, "REPEATS", 5_000)

    def found(comes: bool) -> list[str]:
        chosen = None if strategy is None else strategy()
        if chosen is not None:
            chosen.begin()
        try:
            return [klass for klass, _ in threaded(awaits_in_python(comes), world_of(1), choose=chosen)]
        except CutOff:
            return ["cut off"]

    assert found(comes=True) == ["cut off"] * (strategy is Starving)
    assert found(comes=False) == ["LIVELOCK:SLEEP"]
