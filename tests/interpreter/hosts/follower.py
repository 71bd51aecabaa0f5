"""Runs the instructions of a script of hosts on dpsim, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from dpsim.contract.interface import Aborted, Rank, Store
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from tests.interpreter.follower import Follower
from tests.interpreter.hosts.language import ABORTED
from tests.interpreter.language import Script, Shape

NS = 1_000_000


class HostFollower(Follower):
    """Runs one thread of a rank. `stores`: the stores of the rank, which its threads share."""

    def __init__(self, rank: Rank, script: Script, number: int, stores: dict[str, Store], first: int = 0) -> None:
        super().__init__(rank, script, number, [], first)
        self.stores = stores

    async def do_start(self, handle: str, kind: str, op: str, shape: Shape) -> None:
        try:
            await super().do_start(handle, kind, op, shape)
        except Aborted:
            self.learn(ABORTED)

    async def do_await(self, handle: str) -> None:
        if handle in self.works:
            await self._aborted(super().do_await, handle)

    async def do_asks(self, handle: str) -> None:
        if handle in self.works:
            await self._aborted(super().do_asks, handle)

    async def do_until(self, handle: str, ms: int) -> None:
        async def call(handle: str) -> None:
            self.learn(await self.works[handle].within(ms * NS, self.site))

        if handle in self.works:
            await self._aborted(call, handle)

    async def _aborted(self, call: Callable[[str], Coroutine[Any, Any, None]], handle: str) -> None:
        """Makes the call, and notes it if it raises Aborted."""
        try:
            await call(handle)
        except Aborted:
            self.learn(ABORTED)

    async def do_abort(self, kind: str) -> None:
        self.rank.host(kind).abort(site=self.site)

    async def do_spawn(self, name: str) -> None:
        first = self.script.ranks[self.rank.rank].index(("thread", name)) + 1
        script, number, stores = self.script, self.number, self.stores

        async def run(rank: Rank) -> None:
            await HostFollower(rank, script, number, stores, first).follow()

        self.threads[name] = self.rank.start(name, run, site=self.site)

    # ---- stores

    def keep(self, name: str, store: Store | None) -> None:
        if store is not None:
            self.stores[name] = store
        self.learn(store is not None)

    async def do_open(self, name: str, port: int) -> None:
        self.keep(name, await self.rank.open_store(port, self.site))

    async def do_enter(self, name: str, port: int, ms: int | None) -> None:
        self.keep(name, await self.rank.join_store(0, port, self.site, timeout_ns=_ns(ms)))

    async def do_put(self, name: str, key: str = "") -> None:
        if name in self.stores:
            self.stores[name].set(key, self.number, self.site)

    async def do_fetch(self, name: str, key: str, ms: int | None) -> None:
        if name in self.stores:
            self.learn(await self.stores[name].get(key, self.site, timeout_ns=_ns(ms)))

    async def do_add(self, name: str, key: str, amount: int) -> None:
        if name in self.stores:
            self.learn(await self.stores[name].add(key, amount, self.site))

    async def do_swap(self, name: str, key: str, expected: int | str, desired: int) -> None:
        if name in self.stores:
            self.learn(await self.stores[name].compare_set(key, expected, desired, self.site))

    async def do_drop(self, name: str, key: str) -> None:
        if name in self.stores:
            self.learn(await self.stores[name].delete(key, self.site))

    async def do_close(self, name: str) -> None:
        if name in self.stores:
            self.stores.pop(name).close(self.site)


def _ns(ms: int | None) -> int | None:
    return None if ms is None else ms * NS


@register_protocol("interpreted_hosts")
class Hosts(Program[Script]):
    """The program that runs a script of hosts."""

    async def run(self, rank: Rank, prepared: Script) -> None:
        rank.step = 0
        await HostFollower(rank, prepared, rank.rank + 1, {}).follow()


@register_protocol("interpreted_hosts_threads")
class Threads(Hosts):
    threaded = True


@register_protocol("interpreted_hosts_aborts")
class Aborts(Hosts):
    aborts = True


@register_protocol("interpreted_hosts_all")
class All(Aborts):
    threaded = True
