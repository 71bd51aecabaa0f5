"""Calls in gloo's order: each is made on the host, and awaited when the rank waits."""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import HostCommunicator, Rank, Received
from dpsim.torch.found import NewGroup
from dpsim.torch.lowered import Lowered, TorchCall, lower


class HostCalls:
    """The calls of one rank that were started."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.works: dict[int, tuple[Any, Lowered, str]] = {}
        self.begun_by: dict[int, tuple[str, str]] = {}
        """Of those that no thread waits for: the thread that made the call, and the kind of group."""
        self.waiting: dict[str, str] = {}
        """By thread: the kind of group in whose call it stands."""
        self.made: dict[str, HostCommunicator] = {}
        """The groups that the rank has made."""
        self.used: set[str] = set()
        """Kinds of communicators on which it made calls."""

    def start(self, number: int, group: str, call: TorchCall, block: bytes) -> None:
        """Start a call on a group."""
        kind = f"{group}#{call.tag}" if call.tag else group
        try:
            communicator = self._group(kind)
        except KeyError:
            raise NewGroup(kind, self._group(group).ranks) from None
        self.used.add(kind)
        self.begun_by[number] = self.rank.thread, kind
        if call.name == "recv_any":
            lowered = lower(call._replace(name="recv"), block, communicator.ranks, self.rank.rank)
            self.works[number] = communicator.recv_any(lowered.elements, lowered.dtype, site=call.site), lowered, kind
            return
        lowered = lower(call, block, communicator.ranks, self.rank.rank)
        self.works[number] = self._made(communicator, lowered, call.site), lowered, kind

    def _made(self, communicator: HostCommunicator, lowered: Lowered, site: str) -> Any:
        if lowered.name == "barrier":
            return communicator.barrier(site=site)
        if lowered.name == "recv":
            return communicator.recv(lowered.elements, lowered.dtype, lowered.more["source"], site=site)
        return getattr(communicator, lowered.name)(lowered.array, **lowered.more, site=site)

    async def wait(self, number: int, site: str) -> tuple[int | bool, list[bytes]]:
        """The blocks of a call's result; before these the rank that sent, if the call did not name it."""
        thread = self.rank.thread
        work, lowered, self.waiting[thread] = self.works.pop(number)
        del self.begun_by[number]
        result = await work
        del self.waiting[thread]
        if isinstance(result, Received):
            return result.source, lowered.blocks(result.array)
        return True, lowered.blocks(result)

    async def query(self, number: int, site: str) -> bool:
        """Whether a call is over."""
        over: bool = await self.works[number][0].query(site)
        return over

    async def within(self, number: int, ns: int, site: str) -> bool:
        """Whether a call is over before the time is up."""
        over: bool = await self.works[number][0].within(ns, site)
        return over

    def batch(self, group: str) -> None:
        """gloo batches nothing."""

    async def make(self, kind: str, ranks: tuple[int, ...], site: str) -> None:
        """Make a group: its members meet, as gloo's do."""
        self.made[kind] = await self.rank.group(name_of(kind), ranks, site=site)

    def abort(self, kind: str, site: str) -> None:
        """Abort a group, and those of its tags."""
        for one in [kind, *sorted(one for one in self.used if one.startswith(f"{kind}#"))]:
            self._group(one).abort(site=site)

    def _group(self, kind: str) -> HostCommunicator:
        made = self.made.get(kind)
        return self.rank.host(kind) if made is None else made


def name_of(kind: str) -> str:
    """The name of a group that ranks made: its word, without the members.

    >>> name_of("g1[0,1]"), name_of("world")
    ('g1', 'world')
    """
    return kind.rpartition("[")[0] or kind
