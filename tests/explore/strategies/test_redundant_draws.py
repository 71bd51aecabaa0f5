"""Tests draws of redundant runs: where only sleeping steps are left, another answer of a draw may wake one."""

from __future__ import annotations

import numpy as np
import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.explore.strategies.dpor import Dpor
from tests.programs import Script, Scripted, world_of

MS = 1_000_000
ONE = np.ones(1, np.int32)


async def ends_early(rank: Rank) -> None:
    """The poll of rank 0 finds the message only if the send of rank 2 ends before its receive, which a time-out
    delays.
    """
    if rank.rank == 0:
        assert await rank.mailbox("x").poll("poll") is None
    elif rank.rank == 1:
        rank.send(2, "y", 1, "ready")
        await rank.mailbox("w").get("pause", timeout_ns=60 * MS)
        await rank.host("h").recv(1, "int32", 2, site="receives")
    else:
        await rank.mailbox("y").get("ready")
        await rank.host("h").send(ONE, 1, site="sends")
        rank.send(0, "x", 1, "done")


async def ends_late(rank: Rank) -> None:
    """The poll of rank 0 finds the message only if the send of rank 2 ends so late that rank 3 waits in vain."""
    if rank.rank == 0:
        await rank.sleep(60 * MS, "nap")
        assert await rank.mailbox("x").poll("poll") is None
    elif rank.rank == 1:
        rank.send(2, "y", 1, "ready")
        if await rank.mailbox("q").poll("early") is not None:
            await rank.sleep(120 * MS, "slow")
        await rank.host("h").recv(1, "int32", 2, site="receives")
    elif rank.rank == 2:
        await rank.mailbox("y").get("ready")
        await rank.host("h").send(ONE, 1, site="sends")
        rank.send(3, "z", 1, "done")
    elif rank.rank == 3:
        if await rank.mailbox("z").get("done", timeout_ns=50 * MS) is None:
            rank.send(0, "x", 1, "late")
    else:
        rank.send(1, "q", 1, "load")


@pytest.mark.parametrize(("script", "ranks"), [(ends_early, 3), (ends_late, 5)])
def test_the_draws_of_a_redundant_run_count(script: Script, ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin looks at the draws of whole runs only."""

    def verdict() -> str:
        return explore_subject(Subject(world_of(ranks, ["h"]), Scripted(script)), "dpor").verdict

    assert verdict() == "violated"
    look = Dpor._look_at_waits
    monkeypatch.setattr(Dpor, "_look_at_waits", lambda self, whole: look(self, whole) if whole else None)
    assert verdict() == "proven"
