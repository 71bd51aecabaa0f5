"""Tests how dpsim ends runs without an end: it stops a livelock and reports it. A run that makes progress continues,
however long it takes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.processes import explore_all
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.schedule import CutOff
from dpsim.contract.world import Kill, Unended, World
from dpsim.diagnose.words.told import Told
from dpsim.explore.strategies.dpor import Dpor
from dpsim.explore.strategies.walks import Fifo, ordinary
from dpsim.sim.backend import SimBackend
from dpsim.sim.hosts import watch
from tests.judged import told_of
from tests.programs import Script, Scripted, explored, judged, set_to, world_of

HOST = world_of(2, hosts=["h", "own"], devices=["d"])


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowers the bounds, so that the tests are fast."""
    monkeypatch.setattr(watch, "REPEATS", 5_000)
    monkeypatch.setattr(watch, "ASKS", 300)


def found(script: Script, world: World = HOST, timed: bool = True) -> list[Told]:
    if timed:
        return judged(world, script)
    return told_of(explored(world, script))


def livelock(script: Script, world: World = HOST, timed: bool = True) -> Told:
    (finding,) = (one for one in found(script, world, timed) if one.check == "livelock")
    return finding


# ---- loops without an end


async def polls(rank: Rank) -> None:
    while await rank.mailbox("box").poll("ask") is None:
        pass


async def polls_and_naps(rank: Rank) -> None:
    while await rank.mailbox("box").poll("ask") is None:
        await rank.sleep(1_000_000, "nap")


async def steps(rank: Rank) -> None:
    """A rank that only counts its steps makes no progress."""
    for rank.step in itertools.count():
        rank.probe("here")
        await rank.mailbox("box").poll("ask")


async def queries(rank: Rank) -> None:
    """Rank 0 queries an event behind a collective that rank 1 never makes."""
    main = rank.stream("main")
    if rank.rank == 0:
        buffer = main.alloc(1, "int32", "x")
        rank.device("d").all_reduce(buffer, main)
        event = main.record()
        while not await event.query("ask"):
            rank.probe("again")


async def queries_anew(rank: Rank) -> None:
    main = rank.stream("main")
    if rank.rank == 0:
        rank.device("d").all_reduce(main.alloc(1, "int32", "x"), main)
        while not await main.record().query("ask"):
            pass


async def sleeps(rank: Rank) -> None:
    while True:
        await rank.sleep(1_000, "nap")


async def decides(rank: Rank) -> None:
    while True:
        rank.decide("still", (1, "x"), "own")


async def decides_by_turns(rank: Rank) -> None:
    for number in itertools.count():
        rank.decide("turn", number % 3, "own")


async def probes(rank: Rank) -> None:
    while True:
        rank.probe("here")


ENDLESS: dict[Script, str] = {
    polls: "POLL",
    polls_and_naps: "POLL",
    steps: "POLL",
    queries: "QUERY",
    queries_anew: "QUERY",
    sleeps: "SLEEP",
    decides: "DECISION",
    decides_by_turns: "DECISION",
    probes: "DECISION",
}


@pytest.mark.parametrize("timed", [True, False], ids=["in time", "explored"])
@pytest.mark.parametrize("script", ENDLESS, ids=lambda script: script.__name__)
def test_an_endless_poll_is_a_livelock_with_its_line(script: Script, timed: bool) -> None:
    finding = livelock(script, timed=timed)
    assert finding.klass == f"LIVELOCK:{ENDLESS[script]}"
    assert "tests/sim/test_watch.py:" in finding.message


@pytest.mark.parametrize("timed", [True, False], ids=["in time", "explored"])
def test_the_finding_of_a_livelock_says_what_each_rank_does(timed: bool) -> None:
    async def script(rank: Rank) -> None:
        rank.step = rank.rank
        if rank.rank == 0:
            await rank.host("h").all_reduce(np.ones(1, np.int32), site="agree")
        elif rank.rank == 1:
            await polls(rank)
        elif rank.rank == 2:
            await polls_and_naps(rank)

    finding = livelock(script, world_of(4, hosts=["h"]), timed)
    assert finding.culprit is None
    first, second, third = (line.partition(" (")[0] for line in finding.details)
    assert first == "rank 1 repeats poll box"
    assert second == "rank 2 repeats poll box"
    assert "sleep 1000000 ns (nap, tests/sim/test_watch.py:" in finding.details[1]
    assert third == "rank 0 is blocked in all_reduce int32[1] on h #0"
    cure = "end the loop after a number of rounds"
    assert finding.message.endswith(f", without end: no other event can answer these calls; {cure}")


def test_the_only_polling_rank_is_blamed() -> None:
    finding = livelock(queries)
    assert finding.culprit is not None
    assert (finding.culprit.rank, finding.culprit.site) == (0, "ask")


# ---- loops that end


def late_message(ns: int, first: Callable[[Rank], Any]) -> Script:
    async def script(rank: Rank) -> None:
        if rank.rank:
            await rank.sleep(ns, "long")
            rank.send(0, "box", 1, "send")
        else:
            await first(rank)

    return script


@pytest.mark.slow
@pytest.mark.parametrize("waits", [polls, polls_and_naps], ids=["spins", "naps"])
def test_a_late_message_ends_a_long_poll(waits: Callable[[Rank], Any]) -> None:
    """The host polls more often than a livelock needs, in vain, until the message arrives. A polling host does not stop
    the clock.
    """
    assert found(late_message(60_000_000_000, waits)) == []


def test_two_spinning_ranks_do_not_block_each_other() -> None:
    async def script(rank: Rank) -> None:
        if rank.rank == 2:
            await rank.sleep(1_000_000, "long")
            for peer in (0, 1):
                rank.send(peer, "box", 1, "send")
        else:
            await polls(rank)

    assert found(script, world_of(3)) == []


def test_a_query_of_a_long_kernel() -> None:
    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        main.launch("long", set_to, writes=[main.alloc(1, "int32", "x")], args=(1,), cost=10**12)
        event = main.record()
        while not await event.query("ask"):
            pass

    assert found(script) == []


async def many_steps(rank: Rank) -> None:
    """Almost all steps are equal, but now and then the rank sends a message."""
    for rank.step in range(6_000):
        rank.decide("same", 0, "h")
        await rank.mailbox("box").poll("ask")
        await rank.sleep(1, "nap")
        if not rank.step % 100:
            rank.send(rank.rank, "other", 0, "send")


def test_a_long_run_that_makes_progress() -> None:
    assert found(many_steps) == []


def test_numbers_that_grow_are_progress() -> None:
    async def script(rank: Rank) -> None:
        for number in range(20_000):
            rank.decide("number", number, "own")

    assert found(script) == []


def test_a_poll_loop_that_ends_before_the_bound_is_no_livelock() -> None:
    async def script(rank: Rank) -> None:
        for _ in range(100):
            await rank.mailbox("box").poll("ask")

    assert found(script) == []
    assert explored(HOST, script, "fifo").verdict == "sampled"


@pytest.mark.parametrize("works", ["synchronize", "launch", "alloc", ""])
def test_a_loop_with_a_device_call_may_count_its_rounds(works: str) -> None:
    """A healthy loop polls and works 6,000 times, and ends. The twin without a device call polls too often."""

    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        buffer = main.alloc(1, "int32", "x")
        for _ in range(6_000):
            await rank.mailbox("box").poll("ask")
            if works == "synchronize":
                await main.record().synchronize("wait")
            elif works == "launch":
                main.launch("work", set_to, writes=[buffer], args=(1,))
            elif works == "alloc":
                main.alloc(1, "int32", "y").free()

    assert [one.klass for one in found(script)] == ([] if works else ["LIVELOCK:POLL"])


class Starving(Fifo):
    """A strategy that picks polls first, so no message arrives."""

    def select(self, candidates: Any) -> int:
        at = [index for index, one in enumerate(candidates) if "deliver" not in one.label]
        return at[0] if at else ordinary(candidates)


def test_a_schedule_that_holds_a_message_back_is_cut_off() -> None:
    """A schedule that holds a message back is unfair, which is no fault of the protocol. So dpsim cuts it off."""
    strategy = Starving(longest=900)
    strategy.begin()
    with pytest.raises(CutOff):
        SimBackend(choose=strategy).run_program(HOST, Scripted(late_message(0, polls)), None)
    assert strategy.too_long


def test_a_schedule_that_holds_a_message_back_is_no_livelock() -> None:
    result = explore_subject(Subject(HOST, Scripted(late_message(0, polls))), Starving(longest=900))
    assert (result.verdict, result.exploration.cut) == ("sampled", 1)
    assert "1 of 1 were cut off after 900 choices" in result.summary()


def test_a_rank_that_may_die_and_will_not_does_not_answer() -> None:
    world = world_of(2, hosts=["h"], kills=(Kill(1, 0),))
    assert {one.klass for one in explored(world, polls, "fifo").findings} <= {"LIVELOCK:POLL", "DEATH:RANK"}


# ---- runs without an end that make progress


async def launches(rank: Rank) -> None:
    main = rank.stream("main")
    buffer = main.alloc(1, "int32", "x")
    while True:
        main.launch("again", set_to, writes=[buffer], args=(1,))


async def names(rank: Rank) -> None:
    """The sites of this program are all different."""
    for number in itertools.count():
        rank.probe(f"here-{number}")


@pytest.mark.parametrize("script", [launches, names])
def test_a_run_with_too_many_records_is_ended(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "REPEATS", 10**9)
    monkeypatch.setattr(watch, "MOST_RECORDS", 20_000)
    monkeypatch.setattr(watch, "MOST_UNTIMED", 20_000)
    with pytest.raises(Unended, match=r"did not end within 20,\d+ records.*\nrank 0 in step 0: (kernel|came here)"):
        judged(HOST, script)
    result = explored(HOST, script)
    assert (result.verdict, result.exploration.cut, result.exploration.runs) == ("bounded", 1, 1)
    assert result.exploration.claim().endswith("1 of 1 were cut off after 20,000 records and not judged")


class Large:
    """Pretends that the process occupies `each` more bytes at each measurement."""

    def __init__(self, each: int) -> None:
        self.each, self.looks = each, 0

    def __call__(self) -> int:
        self.looks += 1
        return 500_000_000 + self.looks * self.each


@pytest.mark.parametrize("script", [launches, names])
def test_a_run_that_takes_too_much_memory_is_ended(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "REPEATS", 10**9)
    monkeypatch.setattr(watch, "occupied", large := Large(300_000_000))
    with pytest.raises(
        Unended, match=r"within 1.0 GB of memory, [\d,]+ records\. .* fewer steps .*\nrank 0 in step 0: "
    ):
        judged(HOST, script)
    assert large.looks == 5
    result = explored(HOST, script)
    assert result.exploration.claim().endswith("1 of 1 were cut off after 1.0 GB of memory and not judged")
    assert result.exploration.stood.startswith(
        "a run stood here after 1.0 GB of memory, where it was cut off:\nrank 0 in"
    )


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [0, 1])
def test_no_other_schedule_is_tried_after_a_run_that_takes_too_much(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a run with too many records, the explorer tries no other schedule. The same program without the endless
    launches ends, so the explorer tries both of its schedules.
    """

    async def looks(rank: Rank) -> None:
        if rank.rank:
            rank.send(0, "box", 1, "send")
            return
        await rank.mailbox("box").poll("look")
        await rank.mailbox("box").get("wait", idle=True)

    async def then_launches(rank: Rank) -> None:
        await looks(rank)
        await launches(rank)

    monkeypatch.setattr(watch, "MOST_UNTIMED", 2_000)
    for script, ended in ((looks, False), (then_launches, True)):
        subject = Subject(world_of(3), Scripted(script))
        result = explore_all([subject])[0] if jobs else explore_subject(subject)
        assert result.exploration.outgrown is ended
        assert (result.exploration.runs == 1) is ended


def test_memory_of_earlier_runs_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs in one process each need less than the bound, so the memory of earlier runs does not count."""
    monkeypatch.setattr(watch, "occupied", large := Large(40_000_000))
    for _ in range(3):
        assert found(many_steps) == []
    assert large.looks * large.each > watch.MOST_BYTES


def test_the_memory_of_a_process_is_measured() -> None:
    before = watch.occupied()
    kept = bytearray(64 << 20)
    assert 60 << 20 < watch.occupied() - before < 200 << 20
    assert kept


@pytest.mark.slow
def test_the_state_of_a_cut_run_has_one_line_for_each_place() -> None:
    async def script(rank: Rank) -> None:
        if rank.rank == 11:
            await launches(rank)
        await rank.mailbox("box").get(f"asleep.{rank.rank}")

    strategy = Fifo()
    world = world_of(12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "MOST_UNTIMED", 2_000)
        stood = explore_subject(Subject(world, Scripted(script)), strategy, schedules=1).exploration.stood
    first, *lines = stood.splitlines()
    assert first == "a run stood here after 2,000 records, where it was cut off:"
    assert (len(lines), lines[-1]) == (9, "and 4 ranks elsewhere")


def clock(runs: int) -> Iterator[bool]:
    yield from itertools.repeat(False, runs)
    yield from itertools.repeat(True)


@pytest.mark.parametrize("script", [launches, polls, decides], ids=lambda script: script.__name__)
def test_a_budget_holds_within_a_run(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is up at the fourth query of the clock, within a run. The result claims nothing about this run."""
    from dpsim.campaign.searches import search_subject

    monkeypatch.setattr(watch, "REPEATS", 10**9)
    monkeypatch.setattr(watch, "ASKS", 10**9)
    time = clock(3)
    result = search_subject(
        Subject(HOST, Scripted(script)), Dpor(), schedules=9, stop_at_first=True, expired=lambda: next(time)
    )
    assert (result.verdict, result.runs, result.claim()) == ("sampled", 0, "no schedule was judged")
    assert result.stood.startswith("a run stood here when the time was up:\nrank 0 in step 0: ")
    assert "tests/sim/test_watch.py:" in result.stood


def test_a_budget_over_processes() -> None:
    (result,) = explore_all([Subject(HOST, Scripted(late_message(0, polls)))], seconds=0.0, jobs=2)
    assert result.verdict == "sampled"


@pytest.mark.parametrize("jobs", [1, 2])
def test_workers_report_where_a_run_is_blocked(jobs: int) -> None:
    (result,) = explore_all([Subject(HOST, Scripted(polls), longest=50)], jobs=jobs)
    assert result.exploration.stood.startswith("a run stood here after 50 choices, where it was cut off:\nrank")
    (whole,) = explore_all([Subject(HOST, Scripted(late_message(0, _nothing)))], jobs=jobs)
    assert whole.exploration.stood == ""


async def _nothing(rank: Rank) -> None:
    pass


def test_a_program_that_catches_all_exceptions_is_ended() -> None:
    async def script(rank: Rank) -> None:
        while True:
            with suppress(Exception):
                await polls(rank)

    assert found(script)[0].klass == "LIVELOCK:POLL"
