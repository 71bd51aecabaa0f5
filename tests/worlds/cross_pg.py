"""A program with two communicators over the same ranks, and one collective on each.

In the faulty variant, a rank polls its mailbox to choose which of the two collectives it calls first. If the ranks get
different results, they wait for each other in different communicators. torchrec and vLLM had this bug.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from tests.programs import set_to, world_of
from tests.worlds.case import Case


class CrossGroups(Program[Any]):
    """`prepared` is the number of ranks and the domain of the collectives. One further rank sends the flags."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        ranks, domain = prepared
        if rank.rank == ranks:
            for to in range(ranks):
                rank.send(to, "flag", True, "flag")
            return
        rank.step = 0
        flag = await rank.mailbox("flag").poll("poll")
        main = rank.stream("main")
        for kind in self.order(flag is not None):
            if domain == "host":
                await rank.host(kind).all_reduce(np.ones(1, np.int32))
            else:
                buffer = main.alloc(1, "int32", kind)
                main.launch("fill", set_to, writes=[buffer], args=(1,))
                rank.device(kind).all_reduce(buffer, main)

    def order(self, flag: bool) -> tuple[str, str]:
        """Returns the names of the communicators in the order of their collectives."""
        return "a", "b"


class ByFlag(CrossGroups):
    def order(self, flag: bool) -> tuple[str, str]:
        return ("b", "a") if flag else ("a", "b")


def case(ranks: int = 2, domain: str = "host", bug: bool = False) -> Case:
    groups = {"hosts" if domain == "host" else "devices": ["a", "b"]}
    return Case(
        name=f"cross_pg_order {domain} {ranks}{' bug' * bug}",
        world=world_of(ranks + 1, among=ranks, **groups),
        program=ByFlag() if bug else CrossGroups(),
        args=(ranks, domain),
        bug="HANG" if bug else None,
    )
