"""A program in which data-parallel ranks agree on a number of tokens, and then call the collective of their experts.

The agreement is a collective on the host or on the device. No rank polls, so all schedules are equivalent. In the
faulty variant a rank without tokens skips the step, and this shows in every schedule.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from tests.programs import set_to, world_of
from tests.worlds.case import Case


def mine(table: Any, index: int, value: int) -> None:
    table[:] = 0
    table[index] = value


class Agreement(Program[Any]):
    """`prepared` is the domain of the agreement ("host" or "device") and, for each step, the number of tokens of each
    rank.
    """

    async def run(self, rank: Rank, prepared: Any) -> None:
        domain, tokens = prepared
        main = rank.stream("main")
        for step, row in enumerate(tokens):
            rank.step = step
            if self.skips(row[rank.rank]):
                continue
            agreed = await self.agree(rank, domain, max(1, row[rank.rank]))
            rank.decide("tokens", agreed, "dp")
            hidden = main.alloc(agreed, "int32", "hidden")
            main.launch("attention", set_to, writes=[hidden], args=(1,))
            rank.device("ep").all_reduce(hidden, main, site="experts")
            main.launch("mlp", set_to, writes=[hidden], args=(2,))
            hidden.free()

    async def agree(self, rank: Rank, domain: str, tokens: int) -> int:
        if domain == "host":
            group = rank.host("dp")
            table = np.zeros(group.size, np.int32)
            table[group.index] = tokens
            return int((await group.all_reduce(table, site="agree")).max())
        on, main = rank.device("dp"), rank.stream("main")
        buffer = main.alloc(on.size, "int32", "table")
        main.launch("mine", mine, writes=[buffer], args=(on.index, tokens))
        on.all_reduce(buffer, main, site="agree")
        agreed = int((await buffer.read("agreed")).max())
        buffer.free()
        return agreed

    def skips(self, tokens: int) -> bool:
        """Returns whether a rank with this number of tokens skips the step."""
        return False


class SkipIdle(Agreement):
    def skips(self, tokens: int) -> bool:
        return tokens == 0


def case(ranks: int = 2, steps: int = 3, domain: str = "host", bug: bool = False, memory: bool = False) -> Case:
    tokens = tuple(tuple((5 * step + 3 * rank) % 4 for rank in range(ranks)) for step in range(steps))
    return Case(
        name=f"agreement {domain} {ranks}x{steps}{' memory' * memory}{' bug' * bug}",
        world=world_of(ranks, ["dp"], ["ep"]) if domain == "host" else world_of(ranks, devices=["dp", "ep"]),
        program=SkipIdle() if bug else Agreement(),
        args=(domain, tokens),
        bug="*:COLLECTIVE:*" if bug else None,
        always=True,
        memory=memory,
    )
