"""Makes the calls of a rank as gloo does: on the host. The conversation awaits a call when the rank waits for it."""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import HostCommunicator, Rank, Received
from dpsim.torch.found import NewGroup
from dpsim.torch.lowered import Lowered, TorchCall, lower


class HostCalls:
    """The calls that one rank has started on the host. `DeviceCalls` has the same methods."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.works: dict[int, tuple[Any, Lowered, str]] = {}
        self.begun_by: dict[int, tuple[str, str]] = {}
        """Maps each call for which no thread waits to the thread that made it and its communicator."""
        self.waiting: dict[str, str] = {}
        """Maps a thread to the communicator in whose call it waits."""
        self.made: dict[str, HostCommunicator] = {}
        """The process groups that the program made during the run."""
        self.used: set[str] = set()
        """The names of the communicators that the rank has used."""

    def start(self, number: int, group: str, call: TorchCall, block: bytes) -> None:
        """Starts a call on the communicator of `group` and its tag. Raises NewGroup if the world lacks it."""
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
        """Blocks until the call is over. Returns the sender, or True if the call named it, and the result's blocks."""
        thread = self.rank.thread
        work, lowered, self.waiting[thread] = self.works.pop(number)
        del self.begun_by[number]
        result = await work
        del self.waiting[thread]
        if isinstance(result, Received):
            return result.source, lowered.blocks(result.array)
        return True, lowered.blocks(result)

    async def query(self, number: int, site: str) -> bool:
        """Returns whether a call is over."""
        over: bool = await self.works[number][0].query(site)
        return over

    async def within(self, number: int, ns: int, site: str) -> bool:
        """Blocks until the call is over or `ns` nanoseconds have passed. Returns whether the call is over."""
        over: bool = await self.works[number][0].within(ns, site)
        return over

    def batch(self, group: str) -> None:
        """Does nothing, because gloo has no batches."""

    async def make(self, kind: str, ranks: tuple[int, ...], site: str) -> None:
        """Makes a process group. All its members wait for each other, as they do in gloo."""
        self.made[kind] = await self.rank.group(name_of(kind), ranks, site=site)

    def abort(self, kind: str, site: str) -> None:
        """Aborts a group and the communicators of its tags."""
        for one in [kind, *sorted(one for one in self.used if one.startswith(f"{kind}#"))]:
            self._group(one).abort(site=site)

    def _group(self, kind: str) -> HostCommunicator:
        made = self.made.get(kind)
        return self.rank.host(kind) if made is None else made


def name_of(kind: str) -> str:
    """Returns the name of a group that the program made, without its members.

    >>> name_of("g1[0,1]"), name_of("world")
    ('g1', 'world')
    """
    return kind.rpartition("[")[0] or kind
