"""The program `conformance_gates`: polls of a mailbox to which all actors send, with the gates of another run.

Which poll takes which message is a race, so two runs usually differ. A *gate* (`World.gates`) fixes what a poll takes.
With the gates of another run, the polls take the same messages as there.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Frozen, Rank
from dpsim.contract.program import Program

EACH = 2
"""The number of messages that each actor sends to the first rank."""

POLLS = 4
MOMENT_NS = 20_000_000


class GatesConformance(Program[Any]):
    """All ranks and the service send to one mailbox of the first rank. That rank polls a few times, waits once with a
    time-out, and then receives the remaining messages.
    """

    def services(self, prepared: Any) -> tuple[str, ...]:
        return ("desk",)

    async def run(self, rank: Rank, prepared: Any) -> None:
        await self._tell(rank)
        if rank.rank:
            return
        box, taken = rank.mailbox("in"), list[Frozen]()
        for _ in range(POLLS):
            taken.append(await box.poll("conformance.poll"))
        taken.append(await box.get("conformance.moment", timeout_ns=MOMENT_NS))
        left = EACH * (rank.service("desk") + 1) - sum(one is not None for one in taken)
        for _ in range(left):
            taken.append(await box.get("conformance.get"))
        rank.probe("conformance.all")

    async def serve(self, rank: Rank, prepared: Any) -> None:
        await self._tell(rank)

    async def _tell(self, rank: Rank) -> None:
        rank.step = 0
        for number in range(EACH):
            rank.send(0, "in", ("told", number), "conformance.tell")
