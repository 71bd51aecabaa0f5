"""Data parallel ranks that look for work in a mailbox, then take part in a collective of every step.

The bug is one of vLLM's: a rank with nothing to do leaves the collective out. Its peers pair up with a later one of
it, or never return. It shows unless all ranks see their work in the same step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from tests.programs import world_of
from tests.worlds.case import Case


class Wave(Program[Any]):
    """`prepared`: (ranks, steps). The rank after the last is the front end, which sends each one piece of work."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        ranks, steps = prepared
        if rank.rank == ranks:
            for to in range(ranks):
                rank.send(to, "work", 2, "front.send")
            return
        left = 0
        for step in range(steps):
            rank.step = step
            found = await rank.mailbox("work").poll("poll")
            left += found if isinstance(found, int) else 0
            if not self.skips(left):
                await rank.host("dp").all_reduce(np.array([left], np.int32), site="dp.step")
                left = max(0, left - 1)

    def skips(self, left: int) -> bool:
        """Whether a rank with so much work leaves out the step."""
        return False


class SkipIdle(Wave):
    def skips(self, left: int) -> bool:
        return left == 0


def case(ranks: int = 2, steps: int = 2, bug: bool = False) -> Case:
    return Case(
        name=f"dp_wave_skip {ranks}x{steps}{' bug' * bug}",
        world=world_of(ranks + 1, hosts=["dp"], among=ranks),
        program=SkipIdle() if bug else Wave(),
        args=(ranks, steps),
        bug="*:COLLECTIVE:*" if bug else None,
    )
