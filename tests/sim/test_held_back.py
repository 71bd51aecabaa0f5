"""Tests schedules that dpsim cuts off. A schedule that kept an event waiting is unfair. Any other one leaves the
expectation unmet, because the program may have no end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.processes import explore_all
from dpsim.campaign.properties import DoesNotHold, holds
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.explore import Search
from dpsim.explore.strategies.dpor import Dpor
from dpsim.explore.strategies.walks import Fifo
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts import watch
from dpsim.sim.hosts.watch import HeldBack
from tests.programs import Script, Scripted, set_to, world_of
from tests.sim.test_watch import Starving, launches

WORLD = world_of(2)


def works_until(takes_later_mail: bool) -> Script:
    """Rank 1 polls and works until it has the message. The faulty variant takes it at its first poll or ignores it."""

    async def script(rank: Rank) -> None:
        if rank.rank == 0:
            rank.send(1, "box", 1, "send")
            return
        main = rank.stream("main")
        await rank.sleep(1_000_000, "doze")  # in time, the message comes first, so that run ends
        came = await rank.mailbox("box").poll("look") is not None
        while not came:
            buffer = main.alloc(1, "int32", "x")
            main.launch("work", set_to, writes=[buffer], args=(1,))
            await main.record().synchronize("wait")
            buffer.free()
            came = await rank.mailbox("box").poll("again") is not None and takes_later_mail

    return script


class InTurn(Starving):
    """Every second schedule, from the first, holds the message back; the other ones deliver it at once."""

    starves = False

    def begin(self) -> bool:
        self.starves = not self.starves
        super().begin()
        return True

    def select(self, candidates: Any) -> int:
        delivers = [at for at, one in enumerate(candidates) if "deliver" in one.label]
        return super().select(candidates) if self.starves or not delivers else delivers[0]


def explored(script: Script, search: Search, schedules: int = 4) -> Explored:
    return explore_subject(Subject(WORLD, Scripted(script), repeats=False), search, schedules=schedules)


def counts(explored: Explored) -> tuple[int, int, int]:
    """Returns the numbers of whole runs, of runs that were cut off, and of fair ones among these."""
    found = explored.exploration
    return len(found.fresh), found.cut, found.unended


def test_a_fair_schedule_without_an_end_leaves_the_expectation_unmet() -> None:
    """The fault: a rank that finds no message at its first poll works without end. Without it, all ends are met."""
    faulty = explored(works_until(takes_later_mail=False), Dpor(longest=300))
    assert counts(faulty) == (1, 3, 3)
    assert faulty.unmet == "3 of 4 schedules did not end within 300 choices, and kept no event waiting"
    sound = explored(works_until(takes_later_mail=True), Dpor(longest=300))
    assert (counts(sound), sound.unmet) == ((4, 0, 0), None)


def test_a_schedule_that_holds_a_message_back_leaves_it_met() -> None:
    """The message could arrive at each choice of the cut runs, so these runs show nothing about the program."""
    sound = explored(works_until(takes_later_mail=True), InTurn(longest=300))
    assert (counts(sound), sound.unmet) == ((2, 2, 0), None)


def test_a_message_that_comes_late_in_a_cut_run_is_not_held_back() -> None:
    """The schedule delivers the message after a tenth of its choices, and the faulty program ignores it."""

    class Late(Fifo):
        def select(self, candidates: Any) -> int:
            late = len(self.order.steps) < 30
            at = [index for index, one in enumerate(candidates) if ("deliver" in one.label) is not late]
            return at[0] if at else 0

    assert counts(explored(works_until(takes_later_mail=False), Late(longest=300), 1)) == (0, 1, 1)


async def waits_for_a_time_out(rank: Rank) -> None:
    """Rank 0 stops rank 1 after a time-out, which passes only when nothing else can happen."""
    if rank.rank == 0:
        await rank.mailbox("none").get("long", timeout_ns=1_000_000)
        rank.send(1, "box", 1, "send")
    else:
        while await rank.mailbox("box").poll("again") is None:
            rank.stream("main").launch("work", set_to, writes=[rank.stream("main").alloc(1, "int32", "x")], args=(1,))


def test_a_time_out_that_cannot_pass_counts_as_held_back() -> None:
    assert counts(explored(waits_for_a_time_out, Fifo(longest=300), 1)) == (0, 1, 0)


async def looks_once(rank: Rank) -> None:
    """The faulty rank launches kernels without end unless the message came first; no choice of a schedule remains."""
    if rank.rank == 0:
        rank.send(1, "box", 1, "send")
        return
    await rank.sleep(1_000_000, "doze")
    if await rank.mailbox("box").poll("look") is None:
        await launches(rank)


def test_a_run_with_too_many_records_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MOST_UNTIMED", 2_000)
    found = explored(looks_once, InTurn())
    assert counts(found) == (0, 1, 1)
    assert found.unmet == "no schedule was judged"


def test_a_property_says_where_each_rank_stood() -> None:
    """The twin is the sound program, of which `holds` returns the result."""
    faulty, sound = (Subject(WORLD, Scripted(works_until(one)), longest=300, repeats=False) for one in (False, True))
    with pytest.raises(DoesNotHold) as raised:
        holds(faulty, strategy="dpor", schedules=4)
    head, where, *ranks = str(raised.value).splitlines()
    assert head == "this world: 3 of 4 schedules did not end within 300 choices, and kept no event waiting"
    assert where == "a run stood here after 300 choices, where it was cut off:"
    assert [line.split(" in step")[0] for line in ranks] == ["rank 0 ended", "rank 1"]
    assert holds(sound, strategy="dpor", schedules=4).unmet is None


@pytest.mark.parametrize("jobs", [1, 2])
def test_processes_count_the_same(jobs: int) -> None:
    subject = Subject(WORLD, Scripted(works_until(takes_later_mail=False)), longest=300)
    (faulty,) = explore_all([subject], "dpor", schedules=4, jobs=jobs)
    assert counts(faulty) == counts(explored(works_until(takes_later_mail=False), Dpor(longest=300)))
    assert faulty.unmet is not None


def test_a_failure_is_what_counts() -> None:
    """A cut schedule beside a failure changes nothing about an expected violation. The twin has no failure."""

    async def script(rank: Rank) -> None:
        await works_until(takes_later_mail=False)(rank)
        if rank.rank == 1 and fails:
            raise AssertionError  # pytest would add an address to the text of an assert, which differs in each run

    for fails in (True, False):
        subject = Subject(WORLD, Scripted(script), longest=300, repeats=False)
        subject = replace(subject, expected=subject.expected._replace(verdict="violated" if fails else "held"))
        found = explore_subject(subject, Dpor(longest=300), schedules=4, stop_at_first=False)
        assert (found.exploration.unended > 0, found.unmet is None) == (True, fails)


def test_an_event_waits_for_half_of_a_short_run_or_for_a_thousand_choices() -> None:
    held, early, late = HeldBack(), Op("early"), Op("late")
    assert not held.any
    for steps, ops, any_ in (
        (100, [early], False),
        (200, [early], True),
        (300, [late], False),
        (500, [late], False),
        (600, [late], True),
        (2_400, [early, late], True),
        (2_500, [early], False),
        (3_300, [early], False),
        (3_400, [early], True),
    ):
        held.look(steps, ops)
        assert held.any is any_, steps
