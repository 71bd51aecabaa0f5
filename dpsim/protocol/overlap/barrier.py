"""The ready barrier: microbatches and the main thread meet before the first microbatch runs (specification 4.1).

Without it a microbatch could run before its successor has registered, and in a capture a late thread would initialise
its library while the capture is under way (M-BT-1). Python's `threading.Barrier`, made of flags, one for each
*generation*: the parties that come next after so many others. Whoever comes last sets it, the others wait for it, and
the barrier can be used again at once (I-BT-10). Two flags in turn are enough, as nobody comes to a generation before
all have left the one before the last.

Source 001 has literally three parties, which are two microbatches and the main thread; later releases count.
"""

from __future__ import annotations

from itertools import count

from dpsim.interface import Rank


class ReadyBarrier:
    """A barrier of a rank's threads."""

    def __init__(self, rank: Rank, parties: int) -> None:
        self.rank, self.parties = rank, parties
        self._tickets = count()
        self._now = 0

    async def wait(self) -> None:
        """Stand until as many as there are parties have come."""
        self.rank.flag("ready.tickets").set("ready.come")  # all that come here are tried in every order
        ticket = next(self._tickets)  # one operation, whatever threads there are
        generation, place = divmod(ticket, self.parties)
        if place == self.parties - 1:
            self._now = generation + 1
            self.rank.flag(f"ready.{(generation + 1) % 2}").clear("ready.renew")
            self.rank.flag(f"ready.{generation % 2}").set("ready.all")
        else:
            await self.rank.flag(f"ready.{generation % 2}").wait("ready.wait")

    def abort(self) -> None:
        """Let go on who waits, since somebody will not come."""
        self.rank.flag(f"ready.{self._now % 2}").set("ready.abort")

    def reset(self) -> None:
        """After an abort, when nobody waits any more: the barrier is as new."""
        self._tickets, self._now = count(), 0
        for number in range(2):
            self.rank.flag(f"ready.{number}").clear("ready.reset")


__all__ = ["ReadyBarrier"]
