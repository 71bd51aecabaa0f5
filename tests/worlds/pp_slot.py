"""A program whose scheduler runs one batch ahead of two pipeline stages, and assigns a slot to a new request.

The stages communicate by mailboxes. The first stage polls for updates of its slot before each batch. The scheduler has
two batches of request A in flight when it learns that the first one ended. In the faulty variant it then assigns A's
slot to request B at once. If the update arrives early, A's second batch reads B's slot. The healthy scheduler first
waits for all batches in flight.
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
    """The ranks are the scheduler, the first stage and the last stage."""

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
        """Returns the number of batches that must be done before the scheduler assigns the slot to B."""
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
