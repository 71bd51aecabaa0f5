"""Calls in gloo's order: each is made on the host, and awaited when the rank waits."""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import HostCommunicator, Rank
from dpsim.torch.found import NewGroup
from dpsim.torch.lowered import Lowered, TorchCall, lower


class HostCalls:
    """The calls of one rank that were started."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.works: dict[int, tuple[Any, Lowered]] = {}

    def start(self, number: int, group: str, call: TorchCall, block: bytes) -> None:
        """Start a call on a group."""
        kind = f"{group}#{call.tag}" if call.tag else group
        try:
            communicator = self.rank.host(kind)
        except KeyError:
            raise NewGroup(kind, self._members(group)) from None
        lowered = lower(call, block, communicator.ranks, self.rank.rank)
        self.works[number] = self._made(communicator, lowered, call.site), lowered

    def _made(self, communicator: HostCommunicator, lowered: Lowered, site: str) -> Any:
        if lowered.name == "barrier":
            return communicator.barrier(site=site)
        if lowered.name == "recv":
            return communicator.recv(lowered.elements, lowered.dtype, lowered.more["source"], site=site)
        return getattr(communicator, lowered.name)(lowered.array, **lowered.more, site=site)

    async def wait(self, number: int, site: str) -> list[bytes]:
        """The blocks of a call's result."""
        work, lowered = self.works.pop(number)
        return lowered.blocks(await work)

    def batch(self, group: str) -> None:
        """gloo batches nothing."""

    async def make(self, kind: str, ranks: tuple[int, ...], site: str) -> None:
        """Make a group: its members meet, as gloo's do."""
        try:
            communicator = self.rank.host(kind)
        except KeyError:
            raise NewGroup(kind, ranks) from None
        await communicator.barrier(site=site)

    def _members(self, group: str) -> tuple[int, ...]:
        return self.rank.host(group).ranks
