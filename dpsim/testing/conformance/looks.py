"""The part `looks`: what a query of a host's collective or transfer may return.

A rank may observe the end of a call some time after the call can be over. So a query may return False for any time, and
the part accepts both values, until an await or a query that returned True. It returns False while the call cannot be
over.

A wait with a time-out returns True if all members arrive before the time-out, and False otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import HostWork
from dpsim.testing.conformance.ground import Round, expect

STAYS = "after a query returned True, each later query of the call returns True. A wrong backend answers False again"
AFTER = "after the host has awaited a call, query and within return True. A wrong backend answers False"
RESULT = (
    "a query does not consume the result: the await after it returns the result. A wrong backend returns another value"
)
IN_TIME = (
    "a wait with a time-out returns True when the call completes before the time-out. A wrong backend returns False"
)
EARLY = (
    "a call completes only after all members for which it waits have made their calls. A "
    "wrong backend reports it as complete before"
)


SHORT_NS, LONG_NS = 1_000_000, 60_000_000_000


async def looks(at: Round) -> None:
    group, mine = at.host, at.line(at.rank.rank, 4, "int32")
    total = np.sum([at.line(rank, 4, "int32") for rank in group.ranks], axis=0, dtype=np.int32)
    expect(
        "an all_reduce that the host queried before the await",
        await _queried(group.all_reduce(mine), "an all_reduce"),
        total,
        RESULT,
    )
    if group.size == 1:
        return
    first, last = group.ranks[0], group.ranks[-1]
    if group.index == 0:
        early = group.barrier(site="conformance.barrier")
        expect("a query of a barrier that the last member has not called", await _look(early), False, EARLY)
        in_vain = await early.within(SHORT_NS, "conformance.within")
        expect("a wait for a barrier that the last member has not called", in_vain, False, EARLY)
        received = group.recv(4, "int32", last, site="conformance.recv")
        expect("a query of a receive before the send", await _look(received), False, EARLY)
        at.rank.send(last, "conformance.looked", at.step, "conformance.send")
        expect("a wait for a receive", await received.within(LONG_NS, "conformance.within"), True, IN_TIME)
        expect(
            "a recv that the host queried before the await",
            await _queried(received, "a recv"),
            at.line(last, 4, "int32"),
            RESULT,
        )
        expect("a wait for a barrier", await early.within(LONG_NS, "conformance.within"), True, IN_TIME)
        await early
        from_any = group.recv_any(4, "int32", site="conformance.recv_any")
        got = await _queried(from_any, "a recv_any")
        expect("a recv_any that the host queried before the await", got.array, at.line(last, 4, "int32"), RESULT)
    elif group.index == group.size - 1:
        await at.rank.mailbox("conformance.looked").get("conformance.get")
        await _queried(group.send(mine, first, site="conformance.send"), "a send")
        await group.barrier(site="conformance.barrier")
        await _queried(group.send(mine, first, site="conformance.send"), "a send")
    else:
        await group.barrier(site="conformance.barrier")


async def _queried(work: HostWork[Any], what: str) -> Any:
    answers = [await _look(work) for _ in range(3)]
    expect(f"queries of {what}", answers, sorted(answers), STAYS)
    result = await work
    expect(f"a query of {what} after its await", await _look(work), True, AFTER)
    expect(f"a wait for {what} after its await", await work.within(SHORT_NS, "conformance.within"), True, AFTER)
    return result


async def _look(work: HostWork[Any]) -> bool:
    return await work.query("conformance.look")
