"""Tests the order that an abort makes between two threads of a rank. A thread aborts a communicator; what it did before
comes before all that another thread does after it got Aborted. So the two may share a variable.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from dpsim.backend.hosts.aborting import Abortable
from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Aborted, Rank
from dpsim.contract.program import Program
from dpsim.sim.calls.communicators import SimHostCommunicator
from tests.programs import world_of


class TwoReceives(Program[Any]):
    """Rank 0 waits for two messages, of which one may arrive. Its other thread writes a variable, and aborts the
    communicator. The main thread reads the variable after it got Aborted. With `asks`, it also queries each receive.
    """

    threaded = ordered_by_flags = aborts = True

    def __init__(self, asks: bool) -> None:
        self.asks = asks

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step, group = 0, rank.host("h")
        if rank.rank:
            going = group.send(np.ones(1, np.int32), 0, site="send")
            group.abort(site="leave")
            with suppress(Aborted):
                await going
            return
        why: list[str] = []

        async def breaks(rank: Rank) -> None:
            why.append("gone")
            rank.host("h").abort(site="give_up")

        coming = [group.recv((1,), "int32", 1, site=f"recv{number}") for number in (1, 2)]
        thread = rank.start("monitor", breaks)
        try:
            for one in coming:
                if self.asks:
                    await one.query("ask")
                await one
        except Aborted:
            rank.decide("why", len(why), "own", local=True)
        await thread.join("join")


def found(asks: bool, strategy: str = "dpor") -> Explored:
    return explore_subject(Subject(world_of(2, ["h", "own"]), TwoReceives(asks)), strategy, schedules=100)


@pytest.mark.parametrize("asks", [False, True])
def test_an_abort_orders_threads(asks: bool) -> None:
    assert found(asks).verdict == "proven"


@pytest.mark.parametrize(("asks", "strategy"), [(False, "random"), (True, "dpor")])
def test_a_call_that_raises_at_once_is_behind_the_abort(
    monkeypatch: pytest.MonkeyPatch, asks: bool, strategy: str
) -> None:
    """A call that raises Aborted at once comes after the abort too, so the shared variable is no race. In the faulty
    twin the call raises without an edge from the abort, and the explorer reports RACE:THREADS. With `asks=False` the
    strategy is random: DPOR needs no such order of an await.
    """
    assert not found(asks, strategy).findings

    monkeypatch.setattr(SimHostCommunicator, "unless_aborted", Abortable.unless_aborted)
    [finding] = found(asks, strategy).findings
    assert finding.klass == "RACE:THREADS"
