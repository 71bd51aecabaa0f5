"""A program whose bug needs three ordering constraints, beside ranks whose choices have no effect on the bug.

A writer sends to a first and then to a second mailbox. The bug shows if the reader polls the first mailbox before its
message arrives, and polls it again after the arrival. In addition, the reader must poll the second mailbox before the
second message arrives. Other ranks, the decoys, also make choices. A strategy that spends its few preemptions on them
misses the bug.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from tests.programs import world_of
from tests.worlds.case import Case

WRITER, READER = range(2)


class Bracket(Program[Any]):
    """`prepared` is the number of local ops between two polls, and the number of polls of a decoy. Ranks from 2 are
    decoys.
    """

    async def run(self, rank: Rank, prepared: Any) -> None:
        gap, length = prepared
        if rank.rank == WRITER:
            await self.stand(rank, gap)
            rank.send(READER, "first", 1, "publish.first")
            await self.stand(rank, gap)
            rank.send(READER, "second", 1, "publish.second")
        elif rank.rank == READER:
            before = await rank.mailbox("first").poll("probe")
            await self.stand(rank, gap)
            after = before or await rank.mailbox("first").poll("probe")
            second = await rank.mailbox("second").poll("probe.second")
            self.seen(bool(before), bool(after), bool(second))
        else:
            await self.stand(rank, length)

    async def stand(self, rank: Rank, times: int) -> None:
        """Polls an empty mailbox, so that the rank has choices that affect no other rank."""
        for _ in range(times):
            await rank.mailbox("nothing").poll("nothing")

    def seen(self, before: bool, after: bool, second: bool) -> None:
        """Receives the results of the reader's polls. The healthy program accepts all of them."""


class Torn(Bracket):
    def seen(self, before: bool, after: bool, second: bool) -> None:
        assert (before, after, second) != (False, True, False), "the reader saw half of the update"


def case(decoys: int = 0, gap: int = 1, length: int = 6, bug: bool = False) -> Case:
    return Case(
        name=f"deep_bracket {decoys} decoys gap {gap}{' bug' * bug}",
        world=world_of(2 + decoys),
        program=Torn() if bug else Bracket(),
        args=(gap, length),
        bug="CRASH:ASSERTIONERROR" if bug else None,
    )
