"""Programs with a store that something outside of the program disturbs. The workers import this module by its name."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import BaseModel

from dpsim.contract.interface import Rank, Store
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from real.ports import address
from real.store_server import Server


@register_protocol("real_hit_store")
class HitStore(Program[Any]):
    """Rank 0 opens a store. Rank 1 disturbs it as `how` says, and then uses it."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 0
        if rank.rank == 0:
            await self.listens(rank, prepared["how"])
        else:
            await self.visits(rank, prepared["how"])

    async def listens(self, rank: Rank, how: str) -> None:
        store = await rank.open_store(0, "open")
        assert store is not None
        if how == "fails":
            Server._serve = fails  # type: ignore[method-assign, assignment]
        rank.send(1, "where", (store.node, store.port, os.getpid()), "where")
        if how != "killed":  # rank 0 has finished, and its store still listens
            await store.get("done", "done")

    async def visits(self, rank: Rank, how: str) -> None:
        where: Any = await rank.mailbox("where").get("where")
        if how == "garbage":
            with socket.create_connection((address(where[0]), where[1])) as stranger:
                stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
                stranger.recv(1)
        store = await rank.join_store(where[0], where[1], "join")
        assert store is not None
        if how == "killed":
            rank.watch(0, "gone", "watch")
            await rank.mailbox("gone").get("gone")
            os.kill(where[2], signal.SIGKILL)
            assert await store.get("missing", "get") is None
        else:
            await self.agrees(rank, store)

    async def agrees(self, rank: Rank, store: Store) -> None:
        store.set("key", 7, "set")
        assert await store.get("key", "get") == 7
        store.set("done", True, "set")


def fails(server: Server, connection: socket.socket, message: list[Any]) -> None:
    raise AssertionError("as planned")


@register_protocol("real_hit_steps")
class HitSteps(Program[Any]):
    """Steps with a collective, a message to the next rank, and a key in the store of rank 0. Without hits they
    finish.
    """

    class Params(BaseModel):
        ranks: int = 3
        steps: int = 60

    @staticmethod
    def ranks(params: Any) -> int:
        return int(params.ranks)

    async def run(self, rank: Rank, prepared: Any) -> None:
        world, size, steps = rank.host("world"), prepared.params.ranks, prepared.params.steps
        rank.step = 0
        store = await self.store(rank, size)
        for rank.step in range(steps):
            store.set(f"{rank.step}.{rank.rank}", rank.rank, "set")
            before = (rank.rank - 1) % size
            rank.decide("told", await store.get(f"{rank.step}.{before}", "get") == before, "world")
            rank.send((rank.rank + 1) % size, "box", rank.step, "send")
            rank.decide("came", await rank.mailbox("box").get("get.box") == rank.step, "world")
            total = await world.all_reduce(np.array([rank.rank], np.int32), site="agree")
            rank.decide("sum", int(total[0]), "world")
        await world.barrier(site="end")
        store.close("close")

    async def store(self, rank: Rank, size: int) -> Store:
        if rank.rank:
            where: Any = await rank.mailbox("where").get("where")
            joined = await rank.join_store(where[0], where[1], "join")
            assert joined is not None
            return joined
        opened = await rank.open_store(0, "open")
        assert opened is not None
        for other in range(1, size):
            rank.send(other, "where", (opened.node, opened.port), "where")
        return opened
