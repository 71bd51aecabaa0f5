"""A custom all-reduce whose kernel reads its peers' buffers: ranks exchange their addresses after the capture (5.6).

An eager call uses a buffer that all peers know from the start. In a graph the kernel reads the peers' own buffers. A
capture does not know their addresses, so each rank notes the buffers that it captured. At the end of the session all
ranks exchange their numbers and addresses. A table on the device has the addresses. A graph that is replayed earlier
finds nothing in it.

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
"""The number of buffers that a rank can register."""


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
        """Note a buffer. Returns its place in the table. Every captured call has one, whatever memory it uses."""
        self.noted.append(buffer)
        return len(self.noted) - 1

    async def register(self) -> None:
        """Exchange addresses with the peers. Each rank uses its own count, so the counts have to be equal."""
        new = len(self.noted) - self.registered
        self.rank.decide("registered", new, self.host)
        counts = await self.rank.host(self.host).all_gather(np.array([new], np.int64), site="peers.counts")
        if new:
            places = self.table.view(self.registered, len(self.noted))
            self.main.launch("peers.write", addresses, writes=[places], args=(int(counts.sum()),), cost=0)
        self.registered = len(self.noted)


def look(places: Any, buffer: Any) -> None:
    """Kernel: find the peers' buffers. The collective that follows adds their values."""


def addresses(places: Any, number: int) -> None:
    """Kernel: write the peers' addresses, by a stand-in."""
    places[:] = number
