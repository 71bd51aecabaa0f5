"""Tests of flags of a real rank: the call of a wait or query, and not its await, decides what it refers to."""

from __future__ import annotations

import threading

from dpsim.backend.journal.journal import RankJournal
from dpsim.contract.ops import RawRecord
from real.flags import RealFlag
from real.threads import drive
from real.waiting import Patience
from tests.programs import world_of


def test_a_flag_set_after_a_query_does_not_change_its_answer() -> None:
    records: list[RawRecord] = []
    flag = RealFlag(RankJournal(0, world_of(1), records.append).thread(), "f", Patience(threading.Event(), True))
    found: list[bool] = []

    async def program() -> None:
        asked, waits = flag.query("query"), flag.wait("wait")
        flag.set("set")
        found.append(await asked)
        flag.clear("clear")
        await waits

    drive(program())
    assert found == [False]
