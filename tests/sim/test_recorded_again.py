"""Tests an event that is recorded again behind a stream's wait for a flag.

If a host waits for the event before it sets the flag, it hangs. Each hang has a healthy twin, a program that records
another event there, so that the host continues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpsim.contract.interface import Event, Rank
from dpsim.contract.ops import KIND, WHERE
from tests.programs import Script, explored, judged, run
from tests.sim.programs import filled, usual_world


async def waits_for_the_event(rank: Rank, event: Event) -> None:
    await event.synchronize("sync")


async def reads_behind_it(rank: Rank, event: Event) -> None:
    """The host waits for a stream that waits for the event."""
    other = rank.stream("other")
    y = other.alloc(1, "int32", "y")
    other.wait(event)
    await filled(other, 3, "z").read("sync")
    y.free()


def held(right: bool, stands: Callable[[Rank, Event], Any], far: bool = False) -> Script:
    """Returns a script that hangs unless `right`. With `far`, the event is on a stream that waits for the
    blocked one.
    """

    async def script(rank: Rank) -> None:
        main, side, flag = rank.stream("main"), rank.stream("side"), rank.flag("f")
        filled(main, 5)
        ready = main.record()
        side.wait_flag(flag, "hold")
        if far:
            last = rank.stream("last")
            last.wait_stream(side)
        else:
            last = side
        if right:
            last.record()
        else:
            last.record(ready)
        await stands(rank, ready)
        flag.set("go")

    return script


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("stands", [waits_for_the_event, reads_behind_it])
def test_the_report_names_the_record_that_moved_the_event(stands: Callable[[Rank, Event], Any], far: bool) -> None:
    world, wrong = usual_world(1), held(False, stands, far)
    marks = [raw for raw in run(world, wrong).journals[0] if raw[KIND] == "mark"]
    one = judged(world, wrong)[0]
    assert one.klass == "HANG:EVENT:RECORDED_AGAIN"
    assert one.culprit is not None
    assert (one.culprit.site, one.culprit.where) == ("record", marks[-1][WHERE])
    assert one.message.startswith(
        f"event 0 of rank 0 is recorded again on stream {'last' if far else 'side'} (record, "
    )
    assert marks[-1][WHERE] in one.message
    assert f"The record before (record, {marks[0][WHERE]}, step 0) is not behind" in one.message
    assert "stream side for flag f (hold, " in one.message
    assert explored(world, wrong).findings[0].klass == one.klass
    right = held(True, stands, far)
    assert not judged(world, right)
    assert explored(world, right).verdict == "proven"


def test_ranks_that_hang_alike_share_the_finding() -> None:
    (one,) = judged(usual_world(2), held(False, waits_for_the_event))
    assert one.klass == "HANG:EVENT:RECORDED_AGAIN"
    assert one.culprit is not None
    assert str(one.culprit).startswith("every rank, step 0, record at ")


async def a_first_record_behind_the_wait(rank: Rank) -> None:
    side = rank.stream("side")
    side.wait_flag(rank.flag("f"), "hold")
    await side.record().synchronize("sync")
    rank.flag("f").set("go")


async def recorded_twice_behind_the_wait(rank: Rank) -> None:
    side = rank.stream("side")
    side.wait_flag(rank.flag("f"), "hold")
    event = side.record()
    side.record(event)
    await event.synchronize("sync")
    rank.flag("f").set("go")


async def recorded_again_elsewhere(rank: Rank) -> None:
    main, side = rank.stream("main"), rank.stream("side")
    event = main.record()
    side.wait_flag(rank.flag("f"), "hold")
    main.record(event)
    await event.synchronize("sync")
    await filled(side, 3).read("read")
    rank.flag("f").set("go")


@pytest.mark.parametrize(
    "script", [a_first_record_behind_the_wait, recorded_twice_behind_the_wait, recorded_again_elsewhere]
)
def test_the_flag_is_named_if_no_record_moved_the_event(script: Script) -> None:
    assert [one.klass for one in judged(usual_world(1), script)] == ["HANG:FLAG:NEVER_SET"]


async def set_and_cleared_in_the_step_before(rank: Rank) -> None:
    """The flag was set for the wait of step 0, which proves nothing about the wait of step 1."""
    main, side, flag = rank.stream("main"), rank.stream("side"), rank.flag("f")
    event = main.record()
    for rank.step in range(2):
        side.wait_flag(flag, "hold")
        if rank.step:
            side.record(event)
        await event.synchronize("sync")
        flag.set("go")
        await filled(side, 3).read("read")
        flag.clear("stop")


def test_a_flag_that_was_set_in_another_step_changes_nothing() -> None:
    assert [one.klass for one in judged(usual_world(1), set_and_cleared_in_the_step_before)] == [
        "HANG:EVENT:RECORDED_AGAIN"
    ]
