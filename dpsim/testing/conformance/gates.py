"""Looks into a mailbox into which all actors post, at the gates of a run of the simulation.

Which look takes whose message is a race, so two runs seldom agree. A run whose looks have the gates of another one
(`World.gates`) takes the messages that the other one took.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Frozen, Rank
from dpsim.contract.program import Program

EACH = 2
"""Each actor has this number of messages for the first rank."""

POLLS = 4
MOMENT_NS = 20_000_000


class GatesConformance(Program[Any]):
    """The program `conformance_gates`. All ranks and the service post to one mailbox of the first rank. That rank polls
    a few times, waits once for a moment, and then takes what is left.
    """

    def services(self, prepared: Any) -> tuple[str, ...]:
        return ("desk",)

    async def run(self, rank: Rank, prepared: Any) -> None:
        await self._tell(rank)
        if rank.rank:
            return
        box, came = rank.mailbox("in"), list[Frozen]()
        for _ in range(POLLS):
            came.append(await box.poll("conformance.poll"))
        came.append(await box.get("conformance.moment", timeout_ns=MOMENT_NS))
        left = EACH * (rank.service("desk") + 1) - sum(one is not None for one in came)
        for _ in range(left):
            came.append(await box.get("conformance.get"))
        rank.probe("conformance.all")

    async def serve(self, rank: Rank, prepared: Any) -> None:
        await self._tell(rank)

    async def _tell(self, rank: Rank) -> None:
        rank.step = 0
        for number in range(EACH):
            rank.send(0, "in", ("told", number), "conformance.tell")
