"""The part `lazy`: communicators that are created at their first use, for a world with `World.lazy`, in one round.

At its first use, all members of a communicator meet, so a CUDA graph cannot record that use. A transfer outside of a
coalesced group uses a separate communicator for its pair of ranks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpsim.contract.interface import Buffer, CaptureError
from dpsim.testing.conformance.ground import Round, expect

NOT_PERMITTED = 900

ONCE = "a capture records calls on a communicator that exists already. A wrong backend creates it again at each use"


async def lazy(at: Round) -> None:
    group = at.device
    total = at.put(4, "int32")
    law = (
        "a capture refuses the first use of a communicator, because all members have to meet for "
        "it. A wrong backend records it"
    )
    expect("a first use in a capture", await _refusal(at, "sum", _sum, total), NOT_PERMITTED, law)
    _sum(at, total)
    wanted = np.sum([at.line(rank, 4, "int32") for rank in group.ranks], axis=0).astype(np.int32)
    expect(
        "the first sum",
        await total.read("conformance.read"),
        wanted,
        (
            "outside of a capture, the first use creates the communicator and returns the sum. A "
            "wrong backend returns another result"
        ),
    )
    expect("a later use in a capture", await _refusal(at, "later", _sum, total), None, ONCE)
    if group.index < 2 < group.size:  # with two members, the pair is the group
        law = (
            "a transfer outside of a coalesced group uses a communicator of its pair, so a capture "
            "refuses the pair's first transfer. A wrong backend uses the group's"
        )
        expect("a first transfer in a capture", await _refusal(at, "pair", _exchange, total), NOT_PERMITTED, law)
        _exchange(at, total)
        expect("a later transfer in a capture", await _refusal(at, "again", _exchange, total), None, ONCE)
    total.free()


async def _refusal(at: Round, name: str, use: Callable[[Round, Buffer], None], buffer: Buffer) -> int | None:
    """The error code, or None if the capture records the operation."""
    try:
        async with at.rank.graph(f"conformance.lazy.{name}").capture(at.main):
            use(at, buffer)
    except CaptureError as error:
        return error.code
    return None


def _sum(at: Round, buffer: Buffer) -> None:
    at.device.all_reduce(buffer, at.main)


def _exchange(at: Round, buffer: Buffer) -> None:
    first, second = at.device.ranks[:2]
    if at.device.index:
        at.device.recv(buffer, first, at.main)
    else:
        at.device.send(buffer, second, at.main)
