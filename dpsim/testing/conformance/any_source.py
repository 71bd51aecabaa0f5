"""The part `any_source`: a receive from any source takes the next message of some member, and any member may be first.

Each message goes to exactly one receive, the receive returns the sender, and the messages of one sender arrive in
order. The order between senders is undefined, so this test checks the messages of each sender separately.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

import numpy as np

from dpsim.contract.dtypes import NUMPY
from dpsim.contract.interface import HostArray, HostCommunicator, Received
from dpsim.contract.ops import DType
from dpsim.testing.conformance.ground import Round, expect, refused

EACH = 2
"""The number of messages of each sender."""

ORDER = "the messages of one sender arrive in the order of its sends. A wrong backend lets a later message overtake"
ONCE = (
    "each message goes to exactly one receive, which also returns its sender. A wrong backend "
    "loses or repeats a message, or names another sender"
)
TYPES = "recv_any returns the elements with the type and the bytes that the sender sent. A wrong backend converts them"
BEHIND = (
    "receives take a sender's messages in the order of their calls, also if one receive names "
    "the sender and the next accepts any. A wrong backend matches them in another order"
)


async def any_source(at: Round) -> None:
    if at.host.size > 1:
        for ahead in (False, True):
            await _from_all(at, ahead)
        await _behind_a_named_one(at)
        await _of_each_type(at)


async def _from_all(at: Round, ahead: bool) -> None:
    """The first member receives from all others. `ahead`: it makes all calls before it awaits the last one first."""
    group, first = at.host, at.host.ranks[0]
    if group.index:
        for number in range(EACH):
            await group.send(_message(at, at.rank.rank, number), first, site="conformance.send")
        await group.barrier(site="conformance.barrier")
        return
    count = EACH * (group.size - 1)
    if ahead:
        works = [_receive(group) for _ in range(count)]
        refused(RuntimeError, "a named receive beside one from any source", lambda: group.recv(2, "int32", _last(at)))
        received_all = [await work for work in reversed(works)][::-1]
    else:
        received_all = [await _receive(group) for _ in range(count)]
    await group.barrier(site="conformance.barrier")
    for sender in group.ranks[1:]:
        rows = [received.array for received in received_all if received.source == sender]
        expect(f"messages of rank {sender}", len(rows), EACH, ONCE)
        for number, row in enumerate(rows):
            expect(f"message {number} of rank {sender}", row, _message(at, sender, number), ORDER)


async def _behind_a_named_one(at: Round) -> None:
    """The last member sends three messages: to a named receive, to one from any source, and to another named one."""
    group, first = at.host, at.host.ranks[0]
    if group.index == group.size - 1:
        for number in range(3):
            await group.send(_message(at, at.rank.rank, number), first, site="conformance.send")
    if group.index == 0:
        sender = _last(at)
        named = group.recv(2, "int32", sender, site="conformance.recv")
        received = await _receive(group)
        expect("the source", received.source, sender, ONCE)
        expect("the message behind a named receive", received.array, _message(at, sender, 1), BEHIND)
        expect("the named receive before it", await named, _message(at, sender, 0), BEHIND)
        third = await group.recv(2, "int32", sender, site="conformance.recv")
        expect("the named receive after it", third, _message(at, sender, 2), ORDER)
    await group.barrier(site="conformance.barrier")


async def _of_each_type(at: Round) -> None:
    """The last member sends elements of each type. All their bytes are 1."""
    group = at.host
    for name, dtype in NUMPY.items():
        sent = np.ones(2 * dtype.itemsize, np.uint8).view(dtype)
        if group.index == group.size - 1:
            await group.send(sent, group.ranks[0], site="conformance.send")
        if group.index == 0:
            received = await group.recv_any(2, cast(DType, name), site="conformance.recv_any")
            expect(f"the type of {name} from any source", received.array.dtype, dtype, TYPES)
            expect(f"elements of {name} from any source", received.array.tobytes(), sent.tobytes(), TYPES)
    await group.barrier(site="conformance.barrier")


def _receive(group: HostCommunicator) -> Awaitable[Received]:
    return group.recv_any(2, "int32", site="conformance.recv_any")


def _last(at: Round) -> int:
    return at.host.ranks[-1]


def _message(at: Round, sender: int, number: int) -> HostArray:
    return np.array([100 * sender + at.step, number], np.int32)
