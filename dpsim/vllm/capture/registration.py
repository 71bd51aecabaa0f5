"""An all-reduce of one's own, whose kernel reads its peers' buffers: where they are is told after the capture (5.6).

Eagerly it goes through a buffer that all peers know from the start. In a graph it reads the peers' own buffers, and
their addresses are not known while the graph is captured: each rank notes the buffers that it captured, and at the end
of the session all ranks tell each other how many and where they are. A table on the device has the addresses. A graph
that is replayed before finds nothing in it.

    capture 1    keeps: look at place 0 of the table; reduce
    capture 2    keeps: look at place 1 of the table; reduce
    session end  ranks exchange, and write places 0 and 1
    replay       looks at place 0 or 1
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import Buffer, Rank, Stream

ROOM = 1024
"""Buffers that can be registered."""


class RegisteredAllReduce:
    """The all-reduce of one rank. `host`, `device`: kinds of communicators with the same members."""

    def __init__(self, rank: Rank, host: str, device: str) -> None:
        self.rank, self.host, self.device = rank, host, rank.device(device)
        self.main = rank.stream("main")
        self.table = self.main.alloc(ROOM, "int64", "peers.table")
        self.noted: list[Buffer] = []
        self.registered = 0

    def all_reduce(self, buffer: Buffer, stream: Stream, site: str, capturing: bool) -> None:
        if capturing:
            place = self.note(buffer)
            stream.launch("peers.look", look, reads=[self.table.view(place, place + 1)], writes=[buffer], cost=0)
        self.device.all_reduce(buffer, stream, site=site)

    def note(self, buffer: Buffer) -> int:
        """Its place in the table. Every captured call has one, whatever memory its buffer has."""
        self.noted.append(buffer)
        return len(self.noted) - 1

    async def register(self) -> None:
        """Tell the peers, and learn from them. Each goes by its own count, so the counts have to be equal."""
        new = len(self.noted) - self.registered
        self.rank.decide("registered", new, self.host)
        counts = await self.rank.host(self.host).all_gather(np.array([new], np.int64), site="peers.counts")
        if new:
            places = self.table.view(self.registered, len(self.noted))
            self.main.launch("peers.write", addresses, writes=[places], args=(int(counts.sum()),), cost=0)
        self.registered = len(self.noted)


def look(places: Any, buffer: Any) -> None:
    """Kernel: find the peers' buffers. What they hold is added by the collective that follows."""


def addresses(places: Any, number: int) -> None:
    """Kernel: what the peers told. A stand-in for addresses."""
    places[:] = number
