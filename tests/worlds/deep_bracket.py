"""A bug of depth three under decoys: something published in two boxes, seen half.

The reader must look into the first box before the message is there, and look again after it came. Then it must look
into the second box before that message is there. Other ranks make choices that have nothing to do with it; a strategy
that spends its few preemptions on them misses the bug.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from tests.programs import world_of
from tests.worlds.case import Case

WRITER, READER = range(2)


class Bracket(Program[Any]):
    """`prepared`: (local ops between the probes, length of a decoy). Ranks from 2 are decoys."""

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
        """Choices of this rank alone."""
        for _ in range(times):
            await rank.mailbox("nothing").poll("nothing")

    def seen(self, before: bool, after: bool, second: bool) -> None:
        """What the reader makes of its probes: nothing, whatever they are."""


class Torn(Bracket):
    def seen(self, before: bool, after: bool, second: bool) -> None:
        assert (before, after, second) != (False, True, False), "published half"


def case(decoys: int = 0, gap: int = 1, length: int = 6, bug: bool = False) -> Case:
    return Case(
        name=f"deep_bracket {decoys} decoys gap {gap}{' bug' * bug}",
        world=world_of(2 + decoys),
        program=Torn() if bug else Bracket(),
        args=(gap, length),
        bug="CRASH:ASSERTIONERROR" if bug else None,
    )
