"""Tests the turning point of a failing schedule, found by running variations: the failing schedule fails, and the
schedule with two swapped events finishes.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.campaign.alternatives import turning_in_time, turning_of
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.diagnose.turning_text import no_return, to_swap
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.explore.turning import WALKS, Turning
from tests.programs import Scripted, explored, world_of


async def first_come(rank: Rank) -> None:
    """Rank 2 assumes that rank 0's message comes first. Otherwise it hangs before the barrier."""
    if rank.rank < 2:
        rank.send(2, "in", rank.rank, "tell")
    elif await rank.mailbox("in").get("look") != 0:
        await rank.mailbox("never").get("stand")
    await rank.host("h").barrier(site="meet")


async def first_come_of_three(rank: Rank) -> None:
    """Like `first_come`, with a message that does not matter before the get."""
    if rank.rank < 2:
        rank.send(2, "in", rank.rank, "tell")
        rank.send(2, "news", rank.rank, "inform")
    else:
        await rank.mailbox("news").get("read")
        if await rank.mailbox("in").get("look") != 0:
            await rank.mailbox("never").get("stand")
    await rank.host("h").barrier(site="meet")


async def never(rank: Rank) -> None:
    """Rank 1 leaves the barrier out in every schedule."""
    if rank.rank == 0:
        rank.send(2, "in", 0, "tell")
    if rank.rank == 2:
        await rank.mailbox("in").poll("look")
    if rank.rank != 1:
        await rank.host("h").barrier(site="meet")


def turned(script: Any) -> tuple[Subject, list[str], Turning]:
    """Returns the world, a failing schedule, and its turning point."""
    world = world_of(3, ["h"])
    shown = explored(world, script).shown[0]
    subject = Subject(world, Scripted(script))
    found = turning_of(subject, shown.schedule)
    assert found is not None
    return subject, list(shown.schedule), found


def findings_along(subject: Subject, schedule: Any) -> Any:
    follow = ScheduleReplay(schedule)
    follow.begin()
    found = subject.run(follow)[1]
    follow.end(True)
    return found


@pytest.mark.parametrize("script", [first_come, first_come_of_three])
def test_the_swapped_schedule_finishes(script: Any) -> None:
    subject, failing, found = turned(script)
    assert findings_along(subject, failing)
    assert not findings_along(subject, found.schedule)
    [(one, other)] = found.swaps
    assert failing.index(one) < failing.index(other)
    assert found.schedule.index(other) < found.schedule.index(one)


def test_the_point_is_the_first_step_after_which_no_walk_finishes() -> None:
    _, failing, found = turned(first_come_of_three)
    assert found.after == WALKS
    at = failing.index(found.point)
    assert list(found.schedule[:at]) == failing[:at]
    assert found.point == "rank 1 delivers tell[0]"


def test_a_program_that_fails_in_any_order_has_none() -> None:
    _, _, found = turned(never)
    assert not found.finishes
    assert found.swaps == ()
    assert found.point == ""


def test_a_run_that_holds_has_none() -> None:
    async def meets(rank: Rank) -> None:
        await rank.host("h").barrier(site="meet")

    assert turning_in_time(Subject(world_of(3, ["h"]), Scripted(meets))) is None


def test_a_long_run_is_not_searched() -> None:
    async def long(rank: Rank) -> None:
        for _ in range(4_000):
            await rank.mailbox("in").poll("look")
        await never(rank)

    assert turning_in_time(Subject(world_of(3, ["h"]), Scripted(long))) is None


def test_the_turning_in_words_names_ops_and_messages() -> None:
    subject, failing, found = turned(first_come)
    follow = ScheduleReplay(failing)
    follow.begin()
    run = subject.run(follow)[0]
    said = "rank 2 receives message 1 of rank 1 (tell[0])"
    assert no_return(run, found.point, found.after) == f"{said}; 16 random schedules from there fail, too"
    assert to_swap(run, found.swaps) == f"{said} before rank 2 receives message 0 of rank 0 (tell[0])"
    assert no_return(run, "", 0) == ""
