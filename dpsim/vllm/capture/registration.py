"""A custom all-reduce whose kernel reads the buffers of its peers, and the exchange of their addresses (specification
5.6).

An eager call of the all-reduce uses a buffer whose address all peers have from the start. In a CUDA graph, the kernel
reads the peers' own buffers, and a capture does not yet have their addresses. So the kernel reads the addresses from a
table on the device, whose places are empty until the session ends:

    capture 1    the graph reads place 0 of the table, and reduces
    capture 2    the graph reads place 1 of the table, and reduces
    session end  the ranks exchange addresses, and write places 0 and 1
    replay       the kernel reads place 0 or 1
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import Buffer, Rank, Stream

ROOM = 1024
"""The number of buffers that a rank can register."""


class RegisteredAllReduce:
    """The all-reduce of one rank. `host` and `device`: the names of two communicators with the same members."""

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
        """Record a buffer, and return its place in the table: a new one for each captured call."""
        self.noted.append(buffer)
        return len(self.noted) - 1

    async def register(self) -> None:
        """Exchange addresses with the peers, and write the table. All ranks need the same number of new places."""
        new = len(self.noted) - self.registered
        self.rank.decide("registered", new, self.host)
        counts = await self.rank.host(self.host).all_gather(np.array([new], np.int64), site="peers.counts")
        if new:
            places = self.table.view(self.registered, len(self.noted))
            self.main.launch("peers.write", addresses, writes=[places], args=(int(counts.sum()),), cost=0)
        self.registered = len(self.noted)


def look(places: Any, buffer: Any) -> None:
    """Kernel: read the peers' addresses from the table. The collective behind it adds the values."""


def addresses(places: Any, number: int) -> None:
    """Kernel: write the peers' addresses into the table; here a number takes the place of each address."""
    places[:] = number
