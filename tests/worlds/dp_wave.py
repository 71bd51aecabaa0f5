"""A program whose data-parallel ranks poll a mailbox for work, and then call a collective in every step.

The faulty variant has a bug of vLLM: a rank without work skips the collective. Its peers then match a later collective
of this rank, or never return. The bug shows unless all ranks find their work in the same step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from tests.programs import world_of
from tests.worlds.case import Case


class Wave(Program[Any]):
    """`prepared` is the number of ranks and of steps. One further rank, the front end, sends one piece of work to each
    rank.
    """

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
        """Returns whether a rank with this amount of work left skips the step."""
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
