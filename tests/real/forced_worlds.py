"""Ten small programs, each with a failure that real processes hardly ever show by themselves.

    WORLDS["get_before_set"]        # the world of the program

Each program's author assumes an order that some schedules do not have. On gloo, fewer than one run in twenty has such a
schedule. Gates delay the racing calls until they have the order of a simulated run, so that each run fails
(`tests/real/test_forced.py`). The docstring of each class states the wrong assumption, and docs/stepping.md quotes it.
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
"""100 ms, in which real processes do all work that does not wait for them."""
PORT = 23_457
ONE = np.ones(1, np.int32)


async def joined(rank: Rank) -> Store:
    """Returns the store of rank 0, on each rank."""
    store = await (rank.join_store(0, PORT, "join") if rank.rank else rank.open_store(PORT, "open"))
    assert store is not None
    return store


@register_protocol("forced_get_before_set")
class GetBeforeSet(Program[Any]):
    """Assumes that rank 0 has not set the size if the get of rank 1 times out."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step, store = 0, await joined(rank)
        if rank.rank:
            assert await store.get("size", "get", timeout_ns=3 * A_WHILE) is not None, "rank 0 sets it at once"
        else:
            store.set("size", 2, "set")


@register_protocol("forced_join_before_open")
class JoinBeforeOpen(Program[Any]):
    """Assumes that rank 0 opens the store before the join of rank 1 times out."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank:
            assert await rank.join_store(0, PORT, "join", timeout_ns=3 * A_WHILE) is not None, "rank 0 opens it at once"
        else:
            await rank.open_store(PORT, "open")


@register_protocol("forced_tickets")
class Tickets(Program[Any]):
    """Assumes that rank 0 takes its ticket before rank 1, because rank 1 sleeps first."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step, store = 0, await joined(rank)
        if rank.rank:
            await rank.sleep(A_WHILE, "sleep")
        ticket = await store.add("tickets", 1, "ticket")
        assert ticket == rank.rank + 1, "rank 1 takes its ticket last"


@register_protocol("forced_poll")
class Poll(Program[Any]):
    """Assumes that a message has arrived because rank 1 posted it before a barrier and rank 0 polls later."""

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
    """Assumes that the message of rank 1 arrives first, because rank 2 posts only after a message of rank 1."""

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
    """Assumes that rank 0 receives from rank 1 first, because rank 2 sends only after a message of rank 1."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step, host = 0, rank.host("dp_cpu")
        if rank.rank == 0:
            first = await host.recv_any((1,), "int32", site="first")
            await host.recv_any((1,), "int32", site="second")
            assert first.source == 1, "the message of rank 1 arrives first, since rank 2 sends after it"
            return
        if rank.rank == 2:
            await rank.mailbox("go").get("go")
        sent = host.send(ONE, 0, site="send")
        if rank.rank == 1:
            rank.send(2, "go", 1, "tell")
        await sent


@register_protocol("forced_event")
class Event(Program[Any]):
    """Assumes that the event of a short kernel has passed after 100 ms."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step, main = 0, rank.stream("main")
        x = main.alloc(4, "int32", "x")
        main.launch("fill", set_to, writes=[x], args=(1,))
        done = main.record()
        await rank.sleep(A_WHILE, "sleep")
        assert await done.query("look"), "the kernel has ended"


@register_protocol("forced_send")
class Send(Program[Any]):
    """Assumes that the send of rank 0 does not return before rank 1 receives."""

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
    """Assumes that main adds to a Python number before the other thread does, because that thread sleeps first."""

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
    """Assumes that a sum is over before a watchdog aborts its communicator after 100 ms."""

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
