"""Programs that hold within bounds and not beyond: each raises for one late message, death or preemption too many."""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.registry import register_protocol
from tests.sized import SizedProgram


@register_protocol("t_misses")
class Misses(SizedProgram):
    """Rank 0 looks twice, later than messages come in time. It raises if it has seen nothing."""

    async def run(self, rank: Rank, args: Any) -> None:
        box = rank.mailbox("box")
        if rank.rank:
            rank.send(0, "box", rank.rank, "post")
            return
        await rank.sleep(1_000_000, "doze")
        if await box.poll("first") is None and await box.poll("second") is None:
            raise AssertionError("nothing came")


@register_protocol("t_mourns")
class Mourns(SizedProgram):
    """Rank 0 waits for each of the others, which may die before they post. It holds where one of two does."""

    async def run(self, rank: Rank, args: Any) -> None:
        if rank.rank:
            rank.send(0, "box", rank.rank, "post")
        else:
            await rank.mailbox("box").get("any")


@register_protocol("t_mourns_one")
class MournsOne(SizedProgram):
    """Rank 0 waits for rank 1 alone."""

    async def run(self, rank: Rank, args: Any) -> None:
        if rank.rank == 0:
            await rank.mailbox("box").get("one")
        elif rank.rank == 1:
            rank.send(0, "box", rank.rank, "post")
        else:
            rank.send(0, "other", rank.rank, "post")
