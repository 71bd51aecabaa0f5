"""A scheduler that runs one batch ahead of two pipeline stages, and binds a slot anew.

The stages are joined by mailboxes. The first looks for updates of its slot with a poll before each batch. The
scheduler has two batches of request A in flight when it hears that the first has ended. The bug: it gives A's slot to
request B at once; if the update comes early, A's second batch reads B's slot. The fix: it drains the pipeline first.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from tests.programs import world_of
from tests.worlds.case import Case

SCHEDULER, FIRST, LAST = range(3)
BATCHES = 3


class SlotFree(Program[Any]):
    """Ranks: scheduler, first stage, last stage."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        await (self.schedule, self.first_stage, self.last_stage)[rank.rank](rank)

    async def schedule(self, rank: Rank) -> None:
        done = rank.mailbox("done")
        rank.send(FIRST, "slot", "A", "bind")
        for batch in range(2):
            rank.send(FIRST, "batch", (batch, "A", 1), "issue")
        drained = self.drained()
        for _ in range(drained):
            await done.get("done")
        rank.send(FIRST, "slot", "B", "rebind")
        rank.send(FIRST, "batch", (2, "B", 2), "issue")
        for _ in range(BATCHES - drained):
            await done.get("done")

    def drained(self) -> int:
        """How many batches have to be done before the slot is bound anew."""
        return 2

    async def first_stage(self, rank: Rank) -> None:
        slot = rank.mailbox("slot")
        owner, updates = await slot.get("bound"), 1
        for _ in range(BATCHES):
            issued: Any = await rank.mailbox("batch").get("batch")
            batch, request, needs = issued
            update = await slot.poll("update")
            if update is None and updates < needs:
                update = await slot.get("bound")
            if update is not None:
                owner, updates = update, updates + 1
            assert owner == request, f"batch {batch} of {request} reads the slot of {owner}"
            rank.send(LAST, "hidden", batch, "hidden")

    async def last_stage(self, rank: Rank) -> None:
        for _ in range(BATCHES):
            batch = await rank.mailbox("hidden").get("hidden")
            rank.send(SCHEDULER, "done", batch, "output")


class NoDrain(SlotFree):
    def drained(self) -> int:
        return 1


def case(bug: bool = False) -> Case:
    return Case(
        name=f"pp_slot_free{' bug' * bug}",
        world=world_of(3),
        program=NoDrain() if bug else SlotFree(),
        bug="CRASH:ASSERTIONERROR" if bug else None,
    )
