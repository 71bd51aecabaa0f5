"""The part `looks`: what a query of a host's collective or transfer may return.

A rank may observe the end of a call some time after the call can be over. So a query may return False for any time, and
the part accepts both values. After an await, or after a query that returned True, each query returns True. While the
call cannot be over, each query returns False.

A wait with a time-out returns True if all members arrive before the time-out, and False otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import HostWork
from dpsim.testing.conformance.ground import Round, expect

STAYS = "a completed call stays complete"
AFTER = "after the host has awaited a call, a query returns True"
RESULT = "to ask takes no result: it has to be awaited all the same"
IN_TIME = "a wait with a time-out returns when the call completes"
EARLY = "a call completes only after all members that it waits for have called"


SHORT_NS, LONG_NS = 1_000_000, 60_000_000_000


async def looks(at: Round) -> None:
    group, mine = at.host, at.line(at.rank.rank, 4, "int32")
    total = np.sum([at.line(rank, 4, "int32") for rank in group.ranks], axis=0, dtype=np.int32)
    expect("a sum that was asked for", await _queried(group.all_reduce(mine), "an all_reduce"), total, RESULT)
    if group.size == 1:
        return
    first, last = group.ranks[0], group.ranks[-1]
    if group.index == 0:
        early = group.barrier(site="conformance.barrier")
        expect("a barrier to which the last member has not come", await _look(early), False, EARLY)
        in_vain = await early.within(SHORT_NS, "conformance.within")
        expect("a wait for a barrier to which the last member has not come", in_vain, False, EARLY)
        received = group.recv(4, "int32", last, site="conformance.recv")
        expect("a receive of what was not sent", await _look(received), False, EARLY)
        at.rank.send(last, "conformance.looked", at.step, "conformance.send")
        expect("a wait for a receive", await received.within(LONG_NS, "conformance.within"), True, IN_TIME)
        expect("a receive that was asked for", await _queried(received, "a recv"), at.line(last, 4, "int32"), RESULT)
        expect("a wait for a barrier", await early.within(LONG_NS, "conformance.within"), True, IN_TIME)
        await early
        from_any = group.recv_any(4, "int32", site="conformance.recv_any")
        got = await _queried(from_any, "a recv_any")
        expect("a receive from any source that was asked for", got.array, at.line(last, 4, "int32"), RESULT)
    elif group.index == group.size - 1:
        await at.rank.mailbox("conformance.looked").get("conformance.get")
        await _queried(group.send(mine, first, site="conformance.send"), "a send")
        await group.barrier(site="conformance.barrier")
        await _queried(group.send(mine, first, site="conformance.send"), "a send")
    else:
        await group.barrier(site="conformance.barrier")


async def _queried(work: HostWork[Any], what: str) -> Any:
    """Returns the result of a call, which it queries before and after the await."""
    answers = [await _look(work) for _ in range(3)]
    expect(f"looks at {what}", answers, sorted(answers), STAYS)
    result = await work
    expect(f"a look at {what} that was awaited", await _look(work), True, AFTER)
    expect(f"a wait for {what} that was awaited", await work.within(SHORT_NS, "conformance.within"), True, AFTER)
    return result


async def _look(work: HostWork[Any]) -> bool:
    return await work.query("conformance.look")
