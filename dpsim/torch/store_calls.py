"""What a conversation hears of stores: each message becomes a call of a store of the contract.

The rank joins a store at its first use. The store of the launcher is a service (`dpsim.torch.ports`).
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Rank, Store
from dpsim.torch.found import NewGroup
from dpsim.torch.ports import AGENT, PORT

LEFT = ["left"]
"""The answer to a get with a time-out, where the listener has left."""


class StoreMessages:
    """Messages of stores. `stores`: those that the rank has opened or joined, by port."""

    rank: Rank
    stores: dict[int, Store]

    def _answer(self, value: Any, blocks: list[bytes] | None = None) -> None:
        """Of the conversation that has these messages."""
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
        (await self._store(port, site)).set(key, value, site)

    async def on_store(self, port: int, how: str, key: str, value: Any, more: Any, site: str) -> None:
        store = await self._store(port, site)
        if how == "get":
            answer: Any = await store.get(key, site, timeout_ns=value)
            if answer is None and value and await store.delete(f".left.{self.rank.rank}", f"{site}.left") is None:
                answer = LEFT  # a get alone does not tell that from a time that is up
        elif how == "add":
            answer = await store.add(key, value, site)
        elif how == "compare_set":
            answer = await store.compare_set(key, value, more, site)
        else:
            answer = await store.delete(key, site)
        self._answer(answer)

    async def on_close(self, port: int, site: str) -> None:
        store = self.stores.pop(port, None)
        if store is not None and port != PORT:
            store.close(site)

    def _services(self) -> tuple[str, ...]:
        """The services that the world has."""
        try:
            self.rank.service(AGENT)
        except KeyError:
            return ()
        return (AGENT,)

    async def _store(self, port: int, site: str) -> Store:
        """The store at a port; the rank joins it at its first use. Waits until somebody listens."""
        store = self.stores.get(port)
        if store is None:
            if port == PORT and AGENT not in self._services():
                raise NewGroup(AGENT, ())
            store = await self.rank.join_store(0, port, f"{site}.join")
            assert store is not None  # a join without a time-out ends with a store
            self.stores[port] = store
        return store
