"""Handles the messages of a rank about stores (TCPStore and its kind): each becomes a call of a store of dpsim.

A rank joins a store at its first use. The store of the launcher is a service (`dpsim.torch.ports`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsim.contract.interface import Rank, Store
from dpsim.torch.found import NewGroup
from dpsim.torch.ports import AGENT, PORT

if TYPE_CHECKING:
    from dpsim.torch.conversation import RankProcess
    from dpsim.torch.times import RankTimes

LEFT = ["left"]
"""The answer to a get with a time-out, if the rank that listened has left."""


class StoreMessages:
    """The part of a conversation that handles stores. `stores`: those that the rank opened or joined, by port."""

    rank: Rank
    process: RankProcess
    times: RankTimes
    stores: dict[int, Store]

    def _answer(self, value: Any, blocks: list[bytes] | None = None) -> None:
        """The conversation implements this method: it sends the answer to the process."""
        raise NotImplementedError

    async def on_open(self, port: int, site: str) -> None:
        store = await self.rank.open_store(port, site)
        if store is not None:
            self.stores[store.port] = store
        self._answer(None if store is None else store.port)

    async def on_join(self, port: int, ns: int, site: str) -> None:
        if ns >= 0 and port not in self.stores:
            store = await self.rank.join_store(0, port, f"{site}.join", timeout_ns=ns)
            if store is None:
                self._answer(None)
                return
            self.stores[port] = store
        self._answer((await self._store(port, site)).port)

    async def on_set(self, port: int, key: str, value: str, site: str) -> None:
        self.times.comes("store", port, key)
        (await self._store(port, site)).set(key, value, site)

    async def on_store(self, port: int, how: str, key: str, value: Any, more: Any, site: str) -> None:
        times = self.times
        store = await self._store(port, site)
        if how != "get":
            times.comes("store", port, key)
        if how == "get":
            answer: Any = await store.get(key, site, timeout_ns=value)
            if answer is None and value and await store.delete(f".left.{self.rank.rank}", f"{site}.left") is None:
                answer = LEFT  # `get` returns None for a time-out, too; `delete` does not
        elif how == "add":
            answer = await store.add(key, value, site)
        elif how == "compare_set":
            answer = await store.compare_set(key, value, more, site)
        else:
            answer = await store.delete(key, site)
        times.meets("store", port, key)
        self._answer(answer)

    async def on_close(self, port: int, site: str) -> None:
        store = self.stores.pop(port, None)
        if store is not None and port != PORT:
            store.close(site)

    def _services(self) -> tuple[str, ...]:
        try:
            self.rank.service(AGENT)
        except KeyError:
            return ()
        return (AGENT,)

    async def _store(self, port: int, site: str) -> Store:
        """Returns the store at a port, and joins it at its first use. Waits until another rank listens there."""
        store = self.stores.get(port)
        if store is None:
            if port == PORT and AGENT not in self._services():
                raise NewGroup(AGENT, ())
            store = await self.rank.join_store(0, port, f"{site}.join")
            assert store is not None  # a join without a time-out returns only when it has a store
            self.stores[port] = store
        return store
