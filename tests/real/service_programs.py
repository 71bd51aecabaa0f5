"""Protocols with services and stores, for tests of the real backends. The workers import this module by its name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpsim.contract.interface import CaptureError, Rank, Store
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from tests.real.programs import fill

SECOND = 1_000_000_000
MOMENT = SECOND // 20


@register_protocol("real_desk")
class Desk(Program[Any]):
    """In each of `rounds` steps, each rank sends to the desk, which lets the clerk sum the numbers. `ranks`: their
    number.
    """

    def services(self, prepared: Any) -> tuple[str, ...]:
        return "desk", "clerk"

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        for rank.step in range(prepared["rounds"]):
            rank.send(rank.service("desk"), f"work.{rank.rank}", rank.rank + rank.step, "ask")
            rank.decide("answer", await rank.mailbox("answers").get("answer"), "dp_cpu")
            await rank.host("dp_cpu").barrier(site="met")

    async def serve(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        ranks = range(prepared["ranks"])
        for rank.step in range(prepared["rounds"]):
            if rank.name == "clerk":
                numbers: Any = await rank.mailbox("lists").get("take")
                rank.send(rank.service("desk"), "sums", sum(numbers), "tell")
                continue
            came = tuple([await rank.mailbox(f"work.{one}").get("take") for one in ranks])
            rank.send(rank.service("clerk"), "lists", came, "pass")
            total = await rank.mailbox("sums").get("sum")
            for to in ranks:
                rank.send(to, "answers", total, "answer")


@register_protocol("real_met")
class Met(Program[Any]):
    """All members of the communicator `met` sum their numbers."""

    def services(self, prepared: Any) -> tuple[str, ...]:
        return ("desk", "clerk")[: prepared["services"]]

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 0
        if rank.rank in prepared["members"]:
            sums = await rank.host("met").all_reduce(np.array([1 << rank.rank], np.int32), site="sum")
            rank.decide("sum", sums.tolist()[0], "met")

    async def serve(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        await self.run(rank, prepared)


@register_protocol("real_stores")
class Stores(Program[Any]):
    """Rank 0 does what `how` says, the other ranks what `others` says, and the service what `service` says. Without
    `service` the service waits in an idle get.
    """

    def services(self, prepared: Mapping[str, Any]) -> tuple[str, ...]:
        return ("desk",) if "service" in prepared else ()

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 3
        await getattr(self, prepared["others"] if rank.rank else prepared["how"])(rank, prepared)

    async def serve(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        await getattr(self, prepared["service"])(rank, prepared)

    async def ends(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        pass

    async def idles(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        await rank.mailbox("box").get("idle", idle=True)

    async def streams(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.stream("main")

    async def opens(self, rank: Rank, prepared: Mapping[str, Any]) -> Store | None:
        """Opens a store on the port `port`, and decides whether it got the port."""
        store = await rank.open_store(prepared.get("port", 0), "open")
        if not rank.name:  # a service is in no group that could decide
            rank.decide("opened", store is not None, "dp_cpu")
        return store

    async def opens_and_raises(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        await self.opens(rank, prepared)
        raise ValueError("with a store")

    async def opens_and_waits(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        await self.opens(rank, prepared)
        await rank.mailbox("box").get("wait")

    async def opens_and_exits(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        await self.opens(rank, prepared)
        os._exit(7)

    async def opens_and_goes(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        """Opens a store, and ends the process when all others have joined."""
        store = await self.opens(rank, prepared)
        assert store is not None
        await store.get("here", "here")
        os._exit(7)

    async def is_left(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        store = await rank.join_store(0, prepared["port"], "join")
        assert store is not None
        store.set("here", True, "set")
        rank.decide("left", await store.get("missing", "get"), "dp_cpu")
        store.set("lost", True, "set")
        rank.decide("later", await store.get("lost", "get"), "dp_cpu")

    async def publishes(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        """Opens a store and sends its address. The keys that it sets are there for its readers until it closes the
        store.
        """
        store = await rank.open_store(0, "open")
        assert store is not None
        rank.send(1, "where", (store.node, store.port), "where")
        store.set("key", ("value", (1, 2.5, None)), "set")
        store.set("large", "x" * 3_000_000, "set")
        assert await store.get("done", "done") is True
        store.close("close")

    async def reads(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        where: Any = await rank.mailbox("where").get("where")
        store = await rank.join_store(where[0], where[1], "join", timeout_ns=60 * SECOND)
        assert store is not None
        rank.decide("value", await store.get("key", "get"), "dp_cpu")
        rank.decide("large", len(str(await store.get("large", "get"))), "dp_cpu")
        rank.decide("nothing", await store.get("missing", "get", timeout_ns=MOMENT), "dp_cpu")
        store.set("done", True, "set")
        rank.decide("closed", await store.get("missing", "get"), "dp_cpu")

    async def gets_for_long(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        """Gets a missing key with a time-out that is longer than the stall time."""
        store = await self.opens(rank, prepared)
        assert store is not None
        rank.decide("nothing", await store.get("missing", "get", timeout_ns=SECOND), "dp_cpu")

    async def gets_for_ever(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        store = await self.opens(rank, prepared)
        assert store is not None
        await store.get("missing", "get")

    async def joins_for_ever(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        await rank.join_store(0, prepared["port"], "join")

    async def joins_a_stranger(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        """Joins a stranger's port. The rank cannot open this port, and a joined store never answers. On another node
        the port is free.
        """
        store = await rank.join_store(0, prepared["port"], "join", timeout_ns=60 * SECOND)
        assert store is not None
        store.set("key", 1, "set")
        rank.decide("value", await store.get("key", "get", timeout_ns=MOMENT), "dp_cpu")
        store.close("close")
        nobody = await rank.join_store(2, prepared["port"], "join", timeout_ns=MOMENT)
        rank.decide("nobody", nobody is None, "dp_cpu")
        own = await rank.open_store(prepared["port"], "open")
        rank.decide("opened", (rank.node, own is not None), "dp_cpu")
        if own is not None:
            own.close("close")


@register_protocol("real_lazy")
class Lazy(Program[Any]):
    """Uses communicators for the first time, as `how` says."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 0
        await getattr(self, prepared["how"])(rank)

    async def meets(self, rank: Rank) -> None:
        """Calls a collective and transfers of one pair, and captures both after their first use."""
        main, group = rank.stream("main"), rank.device("dp")
        buffer = main.alloc(4, "int32", "buffer")
        main.launch("fill", fill, writes=[buffer], args=(rank.rank + 1,))
        graph = rank.graph("g")
        try:
            async with graph.capture(main):
                group.all_reduce(buffer, main, site="too-early")
        except CaptureError as error:
            rank.decide("refused", error.code, "dp_cpu")
        group.all_reduce(buffer, main, site="sum")
        with group.coalesced(main):
            (group.recv if rank.rank else group.send)(buffer, 1 - rank.rank, main, site="grouped")
        graph = rank.graph("h")
        try:
            async with graph.capture(main):
                (group.recv if rank.rank else group.send)(buffer, 1 - rank.rank, main, site="alone")
        except CaptureError as error:
            rank.decide("pair refused", error.code, "dp_cpu")
        (group.recv if rank.rank else group.send)(buffer, 1 - rank.rank, main, site="alone")
        graph = rank.graph("k")
        async with graph.capture(main):
            group.all_reduce(buffer, main, site="again")
        graph.replay(main, "replay")
        rank.decide("sum", tuple((await buffer.read("read")).tolist()), "dp_cpu")

    async def one_is_busy(self, rank: Rank) -> None:
        """Rank 0 uses a group while rank 1 waits for its message, so they hang. If the communicators already exist,
        rank 0 continues.
        """
        main, group = rank.stream("main"), rank.device("dp")
        buffer = main.alloc(4, "int32", "buffer")
        if rank.rank:
            await rank.mailbox("box").get("wait")
        group.all_reduce(buffer, main, site="first")
        if not rank.rank:
            rank.send(1, "box", 1, "go-on")
        await rank.host("dp_cpu").all_reduce(np.ones(1, np.int32), site="end")

    async def grouped(self, rank: Rank) -> None:
        """A group of transfers needs the communicator of all ranks, and rank 2 does not create it."""
        main, group = rank.stream("main"), rank.device("dp")
        mine, theirs = main.alloc(4, "int32", "mine"), main.alloc(4, "int32", "theirs")
        main.launch("fill", fill, writes=[mine], args=(rank.rank,))
        if rank.rank < 2:
            with group.coalesced(main):
                group.send(mine, 1 - rank.rank, main, site="send")
                group.recv(theirs, 1 - rank.rank, main, site="recv")
        await rank.host("dp_cpu").barrier(site="end")


@register_protocol("real_outside")
class Outside(Program[Any]):
    """Waits for messages that no rank of the program sends, and passes them on. One get receives no message."""

    def services(self, prepared: Any) -> tuple[str, ...]:
        return ("desk",)

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank == 0:
            rank.decide("first", await rank.mailbox("in").get("first"), "dp_cpu")
            rank.decide("told", await rank.mailbox("told").get("told", timeout_ns=60 * SECOND), "dp_cpu")
            rank.decide("vain", await rank.mailbox("in").get("vain", timeout_ns=MOMENT), "dp_cpu")
            return
        for _ in range(2):
            rank.probe("work")

    async def serve(self, rank: Rank, prepared: Any) -> None:
        rank.send(0, "told", await rank.mailbox("jobs").get("hear"), "tell")
