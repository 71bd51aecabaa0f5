"""Ten small programs, each with a failure that real processes hardly ever show by themselves.

    WORLDS["get_before_set"]        # (its world, and the class of its failure)

Each has one schedule or a few in which an assumption of its author does not hold. gloo has that order less often than
once in twenty runs; at the gates of a simulated run it has it each time (`tests/real/test_forced.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpsim.contract.interface import Aborted, Rank, Store
from dpsim.contract.ops import MAIN
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from dpsim.contract.world import World
from tests.programs import set_to
from tests.real.worlds import make_world

A_WHILE = 100_000_000
"""100 ms, in which real processes do all that does not wait for it."""
PORT = 23_457
ONE = np.ones(1, np.int32)


async def joined(rank: Rank) -> Store:
    """The store of rank 0, at each rank."""
    store = await (rank.join_store(0, PORT, "join") if rank.rank else rank.open_store(PORT, "open"))
    assert store is not None
    return store


@register_protocol("forced_get_before_set")
class GetBeforeSet(Program[Any]):
    """Rank 1 takes no value in time for a setting that was left out."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step, store = 0, await joined(rank)
        if rank.rank:
            assert await store.get("size", "get", timeout_ns=3 * A_WHILE) is not None, "rank 0 sets it at once"
        else:
            store.set("size", 2, "set")


@register_protocol("forced_join_before_open")
class JoinBeforeOpen(Program[Any]):
    """Rank 1 gives up after a while in which no actor listens."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank:
            assert await rank.join_store(0, PORT, "join", timeout_ns=3 * A_WHILE) is not None, "rank 0 opens it at once"
        else:
            await rank.open_store(PORT, "open")


@register_protocol("forced_tickets")
class Tickets(Program[Any]):
    """Rank 0 takes its ticket when it opens the store, so its ticket is 1."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step, store = 0, await joined(rank)
        if rank.rank:
            await rank.sleep(A_WHILE, "sleep")
        ticket = await store.add("tickets", 1, "ticket")
        assert ticket == rank.rank + 1, "rank 1 has more to do first"


@register_protocol("forced_poll")
class Poll(Program[Any]):
    """Rank 1 posts before a barrier, and rank 0 polls a while behind it."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank:
            rank.send(0, "in", "ready", "post")
        await rank.host("dp_cpu").barrier(site="meet")
        if not rank.rank:
            await rank.sleep(A_WHILE, "sleep")
            assert await rank.mailbox("in").poll("look") is not None, "rank 1 has posted"


@register_protocol("forced_two_senders")
class TwoSenders(Program[Any]):
    """Rank 1 posts to rank 0, and then has rank 2 post."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank:
            if rank.rank == 2:
                await rank.mailbox("go").get("go")
            rank.send(0, "in", rank.rank, "post")
            if rank.rank == 1:
                rank.send(2, "go", 1, "tell")
            return
        box = rank.mailbox("in")
        assert (await box.get("take"), await box.get("take")) == (1, 2), "rank 1 comes first"


@register_protocol("forced_any_source")
class AnySource(Program[Any]):
    """Rank 1 sends to rank 0, and then has rank 2 send."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step, host = 0, rank.host("dp_cpu")
        if rank.rank == 0:
            first = await host.recv_any((1,), "int32", site="first")
            await host.recv_any((1,), "int32", site="second")
            assert first.source == 1, "rank 2 has to hear of rank 1"
            return
        if rank.rank == 2:
            await rank.mailbox("go").get("go")
        sent = host.send(ONE, 0, site="send")
        if rank.rank == 1:
            rank.send(2, "go", 1, "tell")
        await sent


@register_protocol("forced_event")
class Event(Program[Any]):
    """The kernel is short, so its event has passed after a while."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step, main = 0, rank.stream("main")
        x = main.alloc(4, "int32", "x")
        main.launch("fill", set_to, writes=[x], args=(1,))
        done = main.record()
        await rank.sleep(A_WHILE, "sleep")
        assert await done.query("look"), "the kernel is over by now"


@register_protocol("forced_send")
class Send(Program[Any]):
    """Rank 0 cannot have come past its send while rank 1 has not received."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step, host = 0, rank.host("dp_cpu")
        if rank.rank == 0:
            await host.send(ONE, 1, site="send")
            rank.send(1, "in", "sent", "post")
            return
        early = await rank.mailbox("in").get("wait", timeout_ns=A_WHILE)
        await host.recv((1,), "int32", 0, site="receive")
        assert early is None, "a send waits for its receiver"


@register_protocol("forced_threads")
class Threads(Program[Any]):
    """Two threads add to a number of Python; main has done so long before the other one begins."""

    threaded = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step, number = 0, [0]

        async def adds(own: Rank) -> None:
            if own.thread != MAIN:
                await own.sleep(A_WHILE, "sleep")
            old = number[0]
            own.probe("added")
            number[0] = old + 1

        thread = rank.start("adder", adds)
        await adds(rank)
        await thread.join("join")
        assert number == [2], "both have added"


@register_protocol("forced_abort")
class Abort(Program[Any]):
    """A watchdog gives up what is not over after a while; the sum takes no time."""

    threaded = True
    aborts = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step, host, done = 0, rank.host("dp_cpu"), [False]

        async def watches(own: Rank) -> None:
            await own.sleep(A_WHILE, "sleep")
            if not done[0]:
                host.abort(site="abort")

        if rank.rank:
            await host.all_reduce(ONE, site="sum")
            return
        dog = rank.start("dog", watches)
        try:
            await host.all_reduce(ONE, site="sum")
        except Aborted:
            raise AssertionError("the sum takes no time") from None
        done[0] = True
        await dog.join("join")


def _worlds() -> dict[str, World]:
    two = make_world(devices=())
    hasty, three = replace(two, early_timeouts=1), make_world(3, devices=())
    worlds = dict.fromkeys(("get_before_set", "join_before_open"), hasty)
    worlds |= dict.fromkeys(("tickets", "poll", "event", "send", "threads", "abort"), two)
    return worlds | dict.fromkeys(("two_senders", "any_source"), three)


WORLDS = _worlds()
