"""Tests of strict replay: a schedule that does not fit stops the run. If a program behaves differently under the same
schedule, dpsim reports a finding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.explore.strategies.replay import Mismatch, ScheduleReplay
from tests.programs import Script, explored, run, world_of

pytestmark = pytest.mark.runs_once  # the suite's repeated runs would differ


def raised(call: Callable[[], object]) -> type[Exception] | None:
    """Returns the class of the exception that the call raises, or None."""
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
    """The result of rank 1's poll depends on the schedule, so the schedule has steps."""
    if rank.rank == 0:
        rank.send(1, "box", 1, "send")
    else:
        await rank.mailbox("box").poll("poll")


def replayed(script: Script) -> None:
    """Replays a schedule without steps."""
    replay = ScheduleReplay([])
    replay.begin()
    run(world_of(2, hosts=["h"]), script, choose=replay, memory=False)


def test_a_draw_that_does_not_fit_stops_the_replay() -> None:
    """Replays an empty schedule with a program that needs a draw. The replay raises Mismatch instead of reporting a
    CRASH of the protocol, so that the user learns that the schedule does not fit.
    """
    assert raised(lambda: replayed(sends)) is Mismatch


async def swallows(rank: Rank) -> None:
    """Rank 0 catches every exception of its send and continues."""
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
    """Returns a program that runs one script in odd runs, and the other in even runs."""
    runs = 0

    async def script(rank: Rank) -> None:
        nonlocal runs
        runs += rank.rank == 0
        await (first if runs % 2 else second)(rank)

    return script


@pytest.mark.parametrize("second", [pytest.param(asks_elsewhere, id="in a step"), pytest.param(sends, id="in a draw")])
def test_a_run_that_does_not_repeat_is_a_finding(second: Script) -> None:
    """Explores a program that does not repeat. The only finding is NONDETERMINISM:REPEAT: no crash of the protocol, and
    no error of the explorer.
    """
    found = explored(world_of(2, hosts=["h"]), in_turn(writes_or_polls, second))
    assert found.verdict == "violated"
    assert [finding.klass for finding in found.findings] == ["NONDETERMINISM:REPEAT"]
