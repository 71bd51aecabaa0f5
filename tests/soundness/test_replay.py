"""A schedule that does not fit stops the run that follows it; a program that is no function of it is a finding."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.explore.strategies.replay import Mismatch, ScheduleReplay
from tests.programs import Script, explored, run, world_of

pytestmark = pytest.mark.runs_once  # what is repeated here does not repeat


def raised(call: Callable[[], object]) -> type[Exception] | None:
    """The class of what the call raises; None if it returns."""
    try:
        call()
    except Exception as error:
        return type(error)
    return None


# ---- strict replay


async def sends(rank: Rank) -> None:
    if rank.rank == 0:
        await rank.host("h").send(np.ones(4, np.int32), 1)
    else:
        await rank.host("h").recv(4, "int32", 0)


async def writes_or_polls(rank: Rank) -> None:
    """What rank 1 learns depends on the schedule, so there are steps."""
    if rank.rank == 0:
        rank.send(1, "box", 1, "send")
    else:
        await rank.mailbox("box").poll("poll")


def replayed(script: Script) -> None:
    """A replay of a schedule without steps."""
    replay = ScheduleReplay([])
    replay.begin()
    run(world_of(2, hosts=["h"]), script, choose=replay, memory=False)


def test_a_draw_that_does_not_fit_stops_the_replay() -> None:
    """It is no CRASH of the protocol: the schedule does not fit, and the user who replays it has to know that."""
    assert raised(lambda: replayed(sends)) is Mismatch


async def swallows(rank: Rank) -> None:
    """Whatever its send raises, it goes on."""
    if rank.rank == 0:
        with contextlib.suppress(Exception):
            await rank.host("h").send(np.ones(4, np.int32), 1)
    rank.decide("over", True, "h")


def test_a_program_that_catches_exceptions_does_not_catch_that_of_a_strategy() -> None:
    assert raised(lambda: replayed(swallows)) is Mismatch


def test_a_step_that_does_not_fit_stops_the_replay() -> None:
    assert raised(lambda: replayed(writes_or_polls)) is Mismatch


# ---- exploring


async def asks_elsewhere(rank: Rank) -> None:
    if rank.rank == 0:
        rank.send(1, "box", 1, "another.send")
    else:
        await rank.mailbox("box").poll("another.poll")


def in_turn(first: Script, second: Script) -> Script:
    """A program that is one script in every other run, and the other script in those between."""
    runs = 0

    async def script(rank: Rank) -> None:
        nonlocal runs
        runs += rank.rank == 0
        await (first if runs % 2 else second)(rank)

    return script


@pytest.mark.parametrize("second", [pytest.param(asks_elsewhere, id="in a step"), pytest.param(sends, id="in a draw")])
def test_a_run_that_does_not_repeat_is_a_finding(second: Script) -> None:
    """It is no crash of the protocol, and no error of the explorer. The verdict on such a world says nothing else."""
    found = explored(world_of(2, hosts=["h"]), in_turn(writes_or_polls, second))
    assert found.verdict == "violated"
    assert [finding.klass for finding in found.findings] == ["NONDETERMINISM:REPEAT"]
