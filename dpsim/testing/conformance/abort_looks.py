"""Part of the programs `conformance_aborts`: looks at work of a host before, beside and after aborts.

A *look* is a query, a wait with a time-out, or an await. Each example makes a group, since an abort is permanent. The
ranks meet on the communicator of the world between its phases, so every look has one right answer:

    own       all call; this rank finds the call over; it aborts; each look raises Aborted
    peer      all call; a peer aborts; this rank looks: the call is over, as it ended in the background
    left      a peer aborts and calls nothing; a call that waits for it does not end
    third     a third member aborts; a transfer between two others ends
    beside    another thread waits for a call that never ends, and gets Aborted (`conformance_aborts_beside`)
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import numpy as np

from dpsim.contract.interface import Aborted, HostCommunicator, HostWork, Rank
from dpsim.testing.conformance.ground import Round, expect

LAW = (
    "after a rank aborts a communicator, each call of this rank on it raises Aborted. So does each await, query and "
    "wait with a time-out for earlier work, even if the work is over. A wrong backend returns a result, or lets the "
    "rank wait without end"
)
ENDS = (
    "a call ends in the background, whether or not its host looks, and stays over when a peer aborts later. A wrong "
    "backend ends it only when the host looks"
)
LEFT = "a call that waits for a member which has aborted never ends. A wrong backend reports it as over"
THIRD = (
    "a call that does not wait for the member that aborted ends as if nothing had happened. A wrong backend never "
    "ends it"
)
BESIDE = (
    "a thread that waits on a communicator gets Aborted when another thread of its rank aborts it. A wrong backend "
    "lets it wait without end"
)

SHORT_NS, LONG_NS = 1_000_000, 60_000_000_000


async def abort_looks(at: Round) -> None:
    rank, everyone = at.rank, at.host
    await _own(rank, await _made(rank, everyone, "own"))
    if everyone.size > 1:
        await _peer(rank, everyone, await _made(rank, everyone, "peer"))
        await _left(rank, everyone, await _made(rank, everyone, "left"))
    if everyone.size > 2:
        await _third(rank, everyone, await _made(rank, everyone, "third"))
    await everyone.barrier(site="conformance.met")


async def _made(rank: Rank, everyone: HostCommunicator, name: str) -> HostCommunicator:
    return await rank.group(f"conformance.{name}", everyone.ranks, site="conformance.group")


async def _own(rank: Rank, group: HostCommunicator) -> None:
    """This rank has found the calls over, and has even awaited one of them."""
    awaited, found = group.barrier(site="conformance.awaited"), _sum(group)
    await awaited
    expect("a wait for a sum that all have called", await found.within(LONG_NS, "conformance.within"), True, ENDS)
    group.abort(site="conformance.abort")
    for what, work in (("an awaited barrier", awaited), ("a sum that the rank has found over", found)):
        await aborted(f"a query of {what}", work.query("conformance.query"))
        await aborted(f"a wait with a time-out for {what}", work.within(LONG_NS, "conformance.within"))
    await aborted("the await of a sum that the rank has found over", found)


async def _peer(rank: Rank, everyone: HostCommunicator, group: HostCommunicator) -> None:
    """The last member aborts after all calls have ended. The others look for the first time after the abort."""
    total, from_last = _sum(group), _from(group, group.ranks[-1])
    for _ in (total, from_last):  # as many calls in a row take as long on a slow backend
        await everyone.barrier(site="conformance.met")
    if group.index == group.size - 1:
        await rank.mailbox("conformance.never").get("conformance.wait", timeout_ns=SHORT_NS)
        group.abort(site="conformance.abort")
    await everyone.barrier(site="conformance.met")
    for what, work in (("sum", total), ("broadcast", from_last)):
        if group.index == group.size - 1:
            await aborted(f"the await of a {what}", work)
            continue
        over = await work.within(LONG_NS, "conformance.within")
        expect(f"a wait for a {what} that all called before the abort of a peer", over, True, ENDS)
        expect(f"a query of that {what}", await work.query("conformance.query"), True, ENDS)
        await work


async def _left(rank: Rank, everyone: HostCommunicator, group: HostCommunicator) -> None:
    """The last member has aborted before the others call."""
    if group.index == group.size - 1:
        group.abort(site="conformance.abort")
    await everyone.barrier(site="conformance.met")
    if group.index == group.size - 1:
        return
    work = _sum(group)
    expect("a query of a sum with a member that left", await work.query("conformance.query"), False, LEFT)
    expect("a wait for a sum with a member that left", await work.within(SHORT_NS, "conformance.within"), False, LEFT)
    group.abort(site="conformance.abort")
    await aborted("the await of a sum after an abort", work)


async def _third(rank: Rank, everyone: HostCommunicator, group: HostCommunicator) -> None:
    first, second = group.ranks[:2]
    if group.index == group.size - 1:
        group.abort(site="conformance.abort")
    await everyone.barrier(site="conformance.met")
    if group.index == 0:
        await group.send(np.ones(1, np.int32), second, site="conformance.send")
    elif group.index == 1:
        received = group.recv(1, "int32", first, site="conformance.recv")
        expect("a wait for a receive", await received.within(LONG_NS, "conformance.within"), True, THIRD)
        expect("a received element", (await received).tolist(), [1], THIRD)


async def beside(at: Round) -> None:
    """A thread waits for a call that its peers never make, and main aborts the communicator."""
    if at.host.size == 1:
        return
    rank, heard = at.rank, list[str]()
    for how in ("await", "within"):
        group = await _made(rank, at.host, f"beside.{how}")
        if group.index:
            continue
        work = group.barrier(site="conformance.begun")

        async def waits(own: Rank, how: str = how, work: HostWork[Any] = work) -> None:
            try:
                await (work if how == "await" else work.within(LONG_NS, "conformance.within"))
            except Aborted:
                heard.append(how)

        thread = rank.start(how, waits)
        await rank.sleep(SHORT_NS, "conformance.sleep")
        group.abort(site="conformance.abort")
        await thread.join("conformance.join")
        expect("what the threads that waited got", heard[-1:], [how], BESIDE)
        if how == "within":
            await aborted("the await of a barrier after an abort", work)
    await at.host.barrier(site="conformance.met")


def _sum(group: HostCommunicator) -> HostWork[Any]:
    return group.all_reduce(np.ones(1, np.int32), site="conformance.sum")


def _from(group: HostCommunicator, root: int) -> HostWork[Any]:
    return group.broadcast(np.ones(1, np.int32), root, site="conformance.broadcast")


async def aborted(what: str, wait: Awaitable[Any]) -> None:
    """Raises AssertionError unless the wait raises Aborted."""
    try:
        await wait
    except Aborted:
        return
    raise AssertionError(f"{what} returned. The contract: {LAW}")
