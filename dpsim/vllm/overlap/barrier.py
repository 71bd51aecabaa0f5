"""The ready barrier: microbatches and the main thread meet before the first microbatch runs (specification 4.1).

Without it a microbatch could run before its successor has registered, and in a capture a late thread would initialise
its library while the capture is under way (M-BT-1). Two forms:

    ReadyBarrier     one party for each microbatch, and the main thread: each says that it is there, main lets all go
    LiteralBarrier   source 001: literally three parties, whoever they are, as Python's `threading.Barrier(3)`. The
                     fourth that comes stands, until two more have come

They are the same for two microbatches.
"""

from __future__ import annotations

from itertools import count

from dpsim.contract.interface import Rank


class ReadyBarrier:
    """The barrier of a rank. `begin` and `main` are called by the main thread, before and after the threads start."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.expected = 0

    def begin(self, num_ubatches: int) -> None:
        """Nobody is there yet: the barrier is used once more (I-BT-10)."""
        self.expected = num_ubatches
        for number in range(num_ubatches):
            self.rank.flag(f"ready.{number}").clear("ready.renew")
        self.rank.flag("ready.all").clear("ready.renew")

    async def meet(self, number: int) -> None:
        """A microbatch is there, and stands until all are."""
        self.rank.flag(f"ready.{number}").set("ready.here")
        await self.rank.flag("ready.all").wait("ready.meet")

    async def main(self) -> None:
        """So does the main thread."""
        for number in range(self.expected):
            await self.rank.flag(f"ready.{number}").wait("ready.main")
        self.rank.flag("ready.all").set("ready.go")

    def abort(self) -> None:
        """Let go on who stands here, since somebody will not come."""
        for number in range(self.expected):
            self.rank.flag(f"ready.{number}").set("ready.abort")
        self.rank.flag("ready.all").set("ready.abort")


class LiteralBarrier(ReadyBarrier):
    """Three parties. Whoever comes last of three lets the other two go on; the next three begin anew."""

    parties = 3

    def __init__(self, rank: Rank) -> None:
        super().__init__(rank)
        self._tickets = count()
        self._broken = False

    def begin(self, num_ubatches: int) -> None:
        """As `threading.Barrier.reset`, where somebody did not come the last time."""
        if self._broken:
            self._tickets, self._broken = count(), False
            for generation in range(2):
                self.rank.flag(f"ready.{generation}").clear("ready.renew")

    async def meet(self, number: int) -> None:
        await self._wait()

    async def main(self) -> None:
        await self._wait()

    def abort(self) -> None:
        """As `threading.Barrier.abort`, but whoever comes goes on: it is told where it asks for the baton."""
        self._broken = True
        for generation in range(2):
            self.rank.flag(f"ready.{generation}").set("ready.abort")

    async def _wait(self) -> None:
        self.rank.flag("ready.tickets").set("ready.come")  # so that all who come here are tried in every order
        if self._broken:
            return
        generation, place = divmod(next(self._tickets), self.parties)
        if place == self.parties - 1:
            self.rank.flag(f"ready.{(generation + 1) % 2}").clear("ready.renew")
            self.rank.flag(f"ready.{generation % 2}").set("ready.go")
        else:
            await self.rank.flag(f"ready.{generation % 2}").wait("ready.wait")
