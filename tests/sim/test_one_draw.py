"""Tests two rules of waits with a time-out. One draw decides whether a call waits for all members. In a thread, too, a
time-out may pass before a peer that sleeps longer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.schedule import CutOff
from dpsim.explore.strategies.dpor import Dpor
from dpsim.sim.backend import SimBackend
from dpsim.sim.calls.underway import QueriedCall
from dpsim.sim.hosts.turns import TurningHost
from tests.programs import Script, Scripted, world_of

MS = 1_000_000
WORLD = world_of(2, ["h"])


class Threaded(Scripted):
    """A script that may start threads."""

    threaded = True


def verdict(script: Script) -> str:
    return explore_subject(Subject(WORLD, Threaded(script)), "dpor", stop_at_first=False).verdict


def root(ended: list[bool]) -> Callable[[Rank], Any]:
    """Rank 0 broadcasts, and rank 1 never joins. `ended`: what `within` said where the await then returned."""

    async def run(rank: Rank) -> None:
        if rank.rank == 0:
            work = rank.host("h").broadcast(np.ones(1, np.int32), 0, site="gives")
            over = await work.within(50 * MS, "within")
            await work
            ended.append(over)

    return run


def test_a_call_that_outlasts_a_time_out_for_its_peers_waits_for_all_of_them() -> None:
    ended: list[bool] = []
    assert verdict(root(ended)) == "violated"  # it waits without end
    assert set(ended) == {True}


def test_a_second_draw_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = QueriedCall._drawn_in_time

    def forgets(self: QueriedCall, *args: Any) -> Any:
        end = drawn(self, *args)
        self._end = None
        return end

    monkeypatch.setattr(QueriedCall, "_drawn_in_time", forgets)
    ended: list[bool] = []
    verdict(root(ended))
    assert set(ended) == {True, False}


def in_a_thread(ended: list[bool]) -> Script:
    """Rank 1 sleeps longer than a thread of rank 0 waits for their barrier. `ended`: what `within` said."""

    async def waits_in_time(rank: Rank) -> None:
        work = rank.host("h").barrier(site="meet")
        ended.append(await work.within(21 * MS, "within"))
        await work

    async def run(rank: Rank) -> None:
        if rank.rank == 1:
            await rank.sleep(333 * MS, "nap")
            await rank.host("h").barrier(site="late")
        else:
            rank.start("t", waits_in_time)

    return run


def seen_without_time() -> set[bool]:
    """Returns what a search without the timed run sees."""
    ended, strategy = list[bool](), Dpor()
    while strategy.begin():
        with suppress(CutOff):  # a schedule whose beginning another one has
            SimBackend(choose=strategy).run_program(WORLD, Threaded(in_a_thread(ended)), None)
            strategy.end(whole=True)
            continue
        strategy.end(whole=False)
    return set(ended)


def test_the_time_out_of_a_thread_may_pass() -> None:
    assert seen_without_time() == {True, False}


def test_a_wait_that_counts_as_a_turn_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the wait then hides the race of its time-out with the sleep."""
    made = TurningHost.__init__

    def init(self: TurningHost, *args: Any, **named: Any) -> None:
        made(self, *args, **named)
        self.mortal = self.lives or ()

    monkeypatch.setattr(TurningHost, "__init__", init)
    assert seen_without_time() == {True}
