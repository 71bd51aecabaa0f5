"""Eager or rendezvous: DPOR makes an op wait only where a run has shown that the wait would last for ever.

Each world here is decided by one draw, and each has a twin, in the machine or in DPOR, that misses it.
"""

from __future__ import annotations

import numpy as np

from dpsim.interface import Rank
from tests.programs import explored, world_of


async def passes_on(rank: Rank) -> None:
    """Down the line, in messages of many sizes."""
    for size in range(1, 9):
        if rank.rank:
            await rank.host("h").recv(size, "int32", rank.rank - 1)
        if rank.rank < 2:
            await rank.host("h").send(np.ones(size, np.int32), rank.rank + 1)


def test_where_no_wait_would_last_one_run_is_the_proof() -> None:
    found = explored(world_of(3, ["h"]), passes_on)
    assert (found.verdict, found.exploration.runs) == ("proven", 1)


async def both_send_first(rank: Rank) -> None:
    await rank.host("h").send(np.ones(1, np.int32), 1 - rank.rank)
    await rank.host("h").recv(1, "int32", 1 - rank.rank)


def test_what_holds_only_if_sends_are_eager_is_found_at_once() -> None:
    found = explored(world_of(2, ["h"]), both_send_first)
    assert (found.verdict, found.exploration.runs) == ("violated", 2)


async def only_if_eager(rank: Rank) -> None:
    """Rank 0 is ahead of its receiver only if its send does not wait; rank 2 may then hear of it too early."""
    host = rank.host("h")
    if rank.rank == 0:
        await host.send(np.ones(1, np.int32), 1)
        rank.send(2, "in", "sent", "tell")
    elif rank.rank == 1:
        await rank.mailbox("in").get("go")
        await host.recv(1, "int32", 0)
    else:
        heard = await rank.mailbox("in").poll("poll")
        rank.send(1, "in", "go on", "go")
        assert heard is None


def test_what_holds_only_if_a_send_waits_is_found() -> None:
    found = explored(world_of(3, ["h"]), only_if_eager)
    assert found.verdict == "violated"
