"""The ready barrier: microbatches and the main thread meet before the first microbatch runs (specification 4.1).

Without it, a microbatch could run before the next one has registered. In a capture, a late thread would initialise its
library, which the capture forbids (mutant M-BT-1). There are two forms:

    ReadyBarrier     one party for each microbatch, and the main thread: each signals its arrival, main releases all
    LiteralBarrier   source 001: exactly three parties, in any order, as in Python's `threading.Barrier(3)`. The
                     fourth that arrives waits until two more have arrived. With two microbatches, both do the same
"""

from __future__ import annotations

from itertools import count

from dpsim.contract.interface import Rank


class ReadyBarrier:
    """The barrier of a rank. The main thread calls `begin` before it starts the threads, and `main` afterwards."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.expected = 0

    def begin(self, num_ubatches: int) -> None:
        """Reset the barrier for another use: no party has arrived (invariant I-BT-10)."""
        self.expected = num_ubatches
        for number in range(num_ubatches):
            self.rank.flag(f"ready.{number}").clear("ready.renew")
        self.rank.flag("ready.all").clear("ready.renew")

    async def meet(self, number: int) -> None:
        """Arrive as a microbatch, and wait until all have arrived."""
        self.rank.flag(f"ready.{number}").set("ready.here")
        await self.rank.flag("ready.all").wait("ready.meet")

    async def main(self) -> None:
        """Wait as the main thread until all have arrived, then release them."""
        for number in range(self.expected):
            await self.rank.flag(f"ready.{number}").wait("ready.main")
        self.rank.flag("ready.all").set("ready.go")

    def abort(self) -> None:
        """Release all parties that wait, because one of them will not arrive."""
        for number in range(self.expected):
            self.rank.flag(f"ready.{number}").set("ready.abort")
        self.rank.flag("ready.all").set("ready.abort")


class LiteralBarrier(ReadyBarrier):
    """The barrier of three parties. The last of three releases the other two, and the next three form another round."""

    parties = 3

    def __init__(self, rank: Rank) -> None:
        super().__init__(rank)
        self._tickets = count()
        self._broken = False

    def begin(self, num_ubatches: int) -> None:
        """Reset the barrier as `threading.Barrier.reset` does, if a party was missing in the last round."""
        if self._broken:
            self._tickets, self._broken = count(), False
            for generation in range(2):
                self.rank.flag(f"ready.{generation}").clear("ready.renew")

    async def meet(self, number: int) -> None:
        await self._wait()

    async def main(self) -> None:
        await self._wait()

    def abort(self) -> None:
        """As `threading.Barrier.abort`, but a party raises only when it waits for its turn."""
        self._broken = True
        for generation in range(2):
            self.rank.flag(f"ready.{generation}").set("ready.abort")

    async def _wait(self) -> None:
        self.rank.flag("ready.tickets").set("ready.come")  # so that an exploration tries all orders of arrival
        if self._broken:
            return
        generation, place = divmod(next(self._tickets), self.parties)
        if place == self.parties - 1:
            self.rank.flag(f"ready.{(generation + 1) % 2}").clear("ready.renew")
            self.rank.flag(f"ready.{generation % 2}").set("ready.go")
        else:
            await self.rank.flag(f"ready.{generation % 2}").wait("ready.wait")
