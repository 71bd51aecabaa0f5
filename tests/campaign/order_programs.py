"""A protocol with a known number of classes of schedules: all ranks but one post to one mailbox, in any order."""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.registry import register_protocol
from tests.sized import SizedProgram


@register_protocol("t_fills")
class Fills(SizedProgram):
    """Has as many classes of schedules as the factorial of the number of senders."""

    async def run(self, rank: Rank, args: Any) -> None:
        if rank.rank:
            rank.send(0, "box", rank.rank, "post")
            return
        for _ in range(args.params.ranks - 1):
            await rank.mailbox("box").get("take")
