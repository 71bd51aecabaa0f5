"""Tests of exploring a query of an event: it returns False in some schedule exactly if that is possible.

Brute force over all schedules must find the same outcomes as DPOR.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.world import Kill, World
from dpsim.sim.backend import SimBackend
from dpsim.sim.calls.streams import SimStream
from dpsim.sim.graph.alarms import Alarms
from dpsim.sim.graph.op import Op
from tests.programs import Script, world_of
from tests.worlds.brute import enumerate_schedules, schedules
from tests.worlds.case import Case
from tests.worlds.event_answers import CERTAIN, MAYBE, EventAnswers, Threaded, answers, asks, handed_over, written
from tests.worlds.explored import missed

WORLD = world_of(2, ["dp_cpu"], ["dp"])
LONG = 1_000_000_000
"""A time-out in ns, longer than any op of a timed run."""


def case_of(script: Script | str, world: World = WORLD, program: type[EventAnswers] = EventAnswers) -> Case:
    return Case("answers", world, program(), {"script": script})


def possible(case: Case) -> set[bool]:
    """Returns all results of queries in all schedules."""
    return {answer for _, one in schedules(case) for answer in answers(one)}


def demanded(script: Script | str, world: World = WORLD, program: type[EventAnswers] = EventAnswers) -> Explored:
    """Explores the script with DPOR. The program raises if a query returns False."""
    return explore_subject(Subject(world, program(), {"script": script, "demands": True}), "dpor", schedules=1_000)


@pytest.mark.parametrize("name", MAYBE)
def test_no_is_chosen_where_it_is_possible(name: str) -> None:
    assert possible(case_of(name)) == {True, False}
    assert missed(case_of(name)) == (0, 0, 0)
    seen = demanded(name)
    assert (seen.verdict, seen.findings[0].klass) == ("violated", "CRASH:ASSERTIONERROR")


@pytest.mark.parametrize("name", CERTAIN)
def test_no_is_not_chosen_where_the_host_knows(name: str) -> None:
    assert possible(case_of(name)) == {True}
    assert missed(case_of(name)) == (0, 0, 0)
    assert demanded(name).verdict == "proven"


@pytest.mark.parametrize("name", [*MAYBE, *CERTAIN])
def test_the_run_in_time_is_one_of_those_explored(name: str) -> None:
    timed = SimBackend().run_program(WORLD, EventAnswers(), {"script": name})
    assert timed.finished
    assert answers(timed)
    assert {*answers(timed)} <= possible(case_of(name))


def test_twin_a_machine_without_record_ops_never_answers_no(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: the machine lets an event pass together with the work before it, so the query never returns
    False.
    """
    record = SimStream._record
    monkeypatch.setattr(SimStream, "_record", lambda stream, number, joins=False: record(stream, number, True))
    kept = [name for name in MAYBE if possible(case_of(name)) == {True}]
    assert set(kept) >= {"behind_a_read", "behind_another_event", "recorded_again", "behind_a_replay"}


# ---- observations by other threads and ranks


@pytest.mark.parametrize("tells", [True, False])
def test_a_flag_orders_an_event_query(tells: bool) -> None:
    """Runs a thread that waits for an event. The main thread's query can return False unless it has first waited for a
    flag of that thread.
    """
    case = case_of(handed_over(tells), world_of(1), Threaded)
    assert possible(case) == ({True} if tells else {True, False})
    assert missed(case) == (0, 0, 0)
    assert demanded(handed_over(tells), world_of(1), Threaded).verdict == ("proven" if tells else "violated")


@pytest.mark.parametrize("name", ["idle", "recorded_again", "synchronised", "another_stream_waited"])
def test_of_a_rank_that_may_be_killed_no_class_is_missed(name: str) -> None:
    case = case_of(name, replace(WORLD, kills=(Kill(0, 0),)))
    assert missed(case) == (0, 0, 0)
    assert not enumerate_schedules(case).torn


async def asks_for_each_record(rank: Rank) -> bool | None:
    """Queries an event, records it again, and queries it again. The machine has two points for the two records, and
    each passes separately.
    """
    main = rank.stream("main")
    event = main.record()
    await asks(event)
    main.record(event)
    return await asks(event)


def test_each_record_of_an_event_passes_by_itself() -> None:
    case = case_of(asks_for_each_record, world_of(1))
    found = enumerate_schedules(case)
    assert (found.row, found.broken, found.torn) == ((8, 4, 4, 0), [], [])
    assert missed(case) == (0, 0, 0)


# ---- time-outs, which pass when no other op is possible


async def asks_after_a_time_out(rank: Rank) -> bool | None:
    main = rank.stream("main")
    written(main)
    event = main.record()
    await rank.mailbox("never").get("get", timeout_ns=LONG)
    return await asks(event)


def sends_and_asks(comes: str) -> Script:
    """Returns a script: rank 0 sends, times out on a get, and queries an event. `comes` states whether its peer
    receives at once, after the time-out (`late`), or never.
    """

    async def script(rank: Rank) -> bool | None:
        main, group = rank.stream("main"), rank.device("dp")
        x = written(main)
        if rank.rank:
            if comes == "late":
                await rank.mailbox("never").get("get", timeout_ns=10 * LONG)
            if comes != "never":
                group.recv(x, 0, main)
            return None
        group.send(x, 1, main)
        event = main.record()
        await rank.mailbox("never").get("get", timeout_ns=LONG)
        return await asks(event)

    return script


@pytest.mark.parametrize("residency", [None, 1])
def test_after_a_time_out_all_has_passed_that_could(residency: int | None) -> None:
    world = replace(WORLD, residency=residency)
    for script in (asks_after_a_time_out, sends_and_asks("at once")):
        assert possible(case_of(script, world)) == {True}
        assert missed(case_of(script, world)) == (0, 0, 0)
        assert demanded(script, world).verdict == "proven"


@pytest.mark.parametrize("residency", [None, 1])
@pytest.mark.parametrize("comes", ["late", "never"])
def test_a_send_that_waits_for_its_receiver_may_outlast_a_time_out(comes: str, residency: int | None) -> None:
    case = case_of(sends_and_asks(comes), replace(WORLD, residency=residency))
    assert possible(case) == {True, False}
    assert missed(case) == (0, 0, 0)


def test_twin_a_time_out_that_observes_no_end_misses_a_waiting_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: the machine does not report that the rank has observed the end of the send. So the search tries
    no send that waits for its receiver, and misses an outcome.
    """

    def marks_alone(alarms: Alarms, event: Op) -> None:
        alarms._events |= event.own_mark

    monkeypatch.setattr(Alarms, "passed", marks_alone)
    assert missed(case_of(sends_and_asks("late")))[0] == 1


def test_twin_a_time_out_that_observes_no_event_lets_a_query_answer_no(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: the query may return False about a kernel though a time-out has waited for it."""
    monkeypatch.setattr(Alarms, "passed", lambda alarms, event: None)
    assert possible(case_of(asks_after_a_time_out)) == {True, False}


def test_an_event_recorded_after_a_time_out_is_open() -> None:
    async def script(rank: Rank) -> Any:
        await rank.mailbox("never").get("get", timeout_ns=LONG)
        return await asks(rank.stream("main").record())

    assert possible(case_of(script, world_of(1))) == {True, False}


def test_a_query_of_what_is_known_adds_no_schedule() -> None:
    assert enumerate_schedules(case_of("synchronised", world_of(1))).schedules == 1
