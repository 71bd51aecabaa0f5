"""Protocols around a store that something outside of the program hits. The workers import this module by its name."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from typing import Any

from dpsim.contract.interface import Rank, Store
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from real.ports import address
from real.store_server import Server


@register_protocol("real_hit_store")
class HitStore(Program[Any]):
    """Rank 0 opens a store, and rank 1 does to it what `how` says before it uses it."""

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
        if how != "killed":  # it has finished, and its store listens
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
