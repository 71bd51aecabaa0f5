"""Tests sends that end only when a peer arrives that has slept. What follows is late, so a time-out may pass before it.

A send that ends early does not show this, because no delay behind it has a length.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.sim.hosts.early_ends import EarlyEnds, MayWait
from tests.programs import Script, Scripted, set_to, world_of

MS = 1_000_000
ONE = np.ones(1, np.int32)


def verdict(script: Script, ranks: int) -> str:
    return explore_subject(Subject(world_of(ranks, ["h"]), Scripted(script)), "dpor").verdict


def posts_late(nap: int) -> Script:
    """Rank 1 receives after a sleep of `nap` ms. Rank 2 sends to it, then posts to rank 0, which waits for 60 ms."""

    async def run(rank: Rank) -> None:
        if rank.rank == 0:
            assert await rank.mailbox("m").get("g", timeout_ns=60 * MS) is not None, "late"
        elif rank.rank == 1:
            await rank.sleep(nap * MS, "nap")
            await rank.host("h").recv(1, "int32", 2, site="takes")
        else:
            await rank.host("h").send(ONE, 1, site="sends")
            rank.send(0, "m", 1, "posts")

    return run


async def queries_first(rank: Rank) -> None:
    """The query draws how the send ends, before the wait with a time-out."""
    if rank.rank == 0:
        await rank.sleep(120 * MS, "nap")
        await rank.host("h").recv(1, "int32", 1, site="takes")
        return
    work = rank.host("h").send(ONE, 0, site="sends")
    await rank.sleep(MS, "short")
    await work.query("asks")
    assert await work.within(60 * MS, "within"), "late"
    await work


async def sends_twice(rank: Rank) -> None:
    """The first send ends late, and the second early, though its receiver never comes."""
    if rank.rank == 0:
        late = await rank.mailbox("m").get("g", timeout_ns=60 * MS) is None
        ended = await rank.mailbox("n").get("h", timeout_ns=500 * MS) is not None
        assert not (late and ended)
    elif rank.rank == 1:
        await rank.sleep(120 * MS, "nap")
        await rank.host("h").recv(1, "int32", 2, site="takes")
    else:
        await rank.host("h").send(ONE, 1, site="first")
        rank.send(0, "m", 1, "posts")
        await rank.host("h").send(ONE, 0, site="second")
        rank.send(0, "n", 1, "posts_again")


async def sends_twice_on_a_device(rank: Rank) -> None:
    """The same with device sends, both of which are issued before the first time-out is set."""
    if rank.rank == 0:
        await rank.mailbox("go").get("gets")
        await sends_twice(rank)
        return
    stream = rank.stream("s")
    if rank.rank == 1:
        await rank.sleep(120 * MS, "nap")
        into = stream.alloc(1, "int32", "into")
        rank.device("d").recv(into, 2, stream, site="takes")
        await stream.record().synchronize("took")
        return
    both = []
    for peer, site in (1, "first"), (0, "second"):
        buffer = stream.alloc(1, "int32", site)
        stream.launch("fills", set_to, writes=[buffer], args=(1,))
        rank.device("d").send(buffer, peer, stream, site=site)
        both.append(stream.record())
    rank.send(0, "go", 1, "goes")
    for event, box in zip(both, "mn", strict=True):
        await event.synchronize("ends")
        rank.send(0, box, 1, "posts")


def test_a_time_out_may_pass_before_what_follows_a_late_send(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(posts_late(120), 3) == "violated"
    assert verdict(posts_late(40), 3) == "proven"
    assert verdict(queries_first, 2) == "violated"
    monkeypatch.setattr(
        MayWait, "met", property(lambda self: self._all_arrived.causes if self._all_arrived.at >= 0 else None)
    )
    assert (verdict(posts_late(120), 3), verdict(queries_first, 2)) == ("proven", "proven")


def crashes(script: Script) -> bool:
    """Whether rank 0 fails its assertion in some schedule. Each schedule of these has a finding, for the lost send."""
    subject = Subject(world_of(3, ["h"], ["d"]), Scripted(script))
    return any(
        "ASSERTION" in what for what in explore_subject(subject, "dpor", stop_at_first=False).exploration.failures
    )


@pytest.mark.parametrize("script", [sends_twice, sends_twice_on_a_device])
def test_a_send_may_end_early_behind_one_that_ended_late(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin takes each send behind a rendezvous for one, too."""
    assert crashes(script)
    draw = EarlyEnds.next
    monkeypatch.setattr(EarlyEnds, "next", lambda self, *op: (True, 0) if self._waits else draw(self, *op))
    assert not crashes(script)
