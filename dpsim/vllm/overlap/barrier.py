"""The ready barrier: microbatches and the main thread meet before the first microbatch runs (specification 4.1).

Without it a microbatch could run before its successor has registered. In a capture a late thread would initialise its
library while the capture is under way (M-BT-1). Two forms:

    ReadyBarrier     one party for each microbatch, and the main thread: each signals its arrival, main releases all
    LiteralBarrier   source 001: exactly three parties, in any order, as in Python's `threading.Barrier(3)`. The
                     fourth that arrives waits until two more have arrived

They are the same for two microbatches.
"""

from __future__ import annotations

from itertools import count

from dpsim.contract.interface import Rank


class ReadyBarrier:
    """The barrier of a rank. The main thread calls `begin` before the threads start, and `main` afterwards."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.expected = 0

    def begin(self, num_ubatches: int) -> None:
        """Reset the barrier for another use: no party has arrived (I-BT-10)."""
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
        """Release all that wait here, since one of them will not arrive."""
        for number in range(self.expected):
            self.rank.flag(f"ready.{number}").set("ready.abort")
        self.rank.flag("ready.all").set("ready.abort")


class LiteralBarrier(ReadyBarrier):
    """Three parties. The last of three releases the other two; the next three form another round."""

    parties = 3

    def __init__(self, rank: Rank) -> None:
        super().__init__(rank)
        self._tickets = count()
        self._broken = False

    def begin(self, num_ubatches: int) -> None:
        """Reset as `threading.Barrier.reset` does, if a party was missing in the last round."""
        if self._broken:
            self._tickets, self._broken = count(), False
            for generation in range(2):
                self.rank.flag(f"ready.{generation}").clear("ready.renew")

    async def meet(self, number: int) -> None:
        await self._wait()

    async def main(self) -> None:
        await self._wait()

    def abort(self) -> None:
        """Break as `threading.Barrier.abort` does, but raise nothing here: a party raises where it takes the baton."""
        self._broken = True
        for generation in range(2):
            self.rank.flag(f"ready.{generation}").set("ready.abort")

    async def _wait(self) -> None:
        self.rank.flag("ready.tickets").set("ready.come")  # so that a search tries all orders of arrival
        if self._broken:
            return
        generation, place = divmod(next(self._tickets), self.parties)
        if place == self.parties - 1:
            self.rank.flag(f"ready.{(generation + 1) % 2}").clear("ready.renew")
            self.rank.flag(f"ready.{generation % 2}").set("ready.go")
        else:
            await self.rank.flag(f"ready.{generation % 2}").wait("ready.wait")
