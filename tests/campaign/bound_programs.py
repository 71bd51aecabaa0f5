"""Protocols that hold while few messages are late, or few ranks die. With one late message or one death more, each of
them raises or hangs. So the verdict depends on the bounds of the search.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.registry import register_protocol
from tests.sized import SizedProgram


@register_protocol("t_misses")
class Misses(SizedProgram):
    """Rank 0 polls twice, after all messages have arrived in a timed run. It raises if both polls find nothing."""

    async def run(self, rank: Rank, args: Any) -> None:
        box = rank.mailbox("box")
        if rank.rank:
            rank.send(0, "box", rank.rank, "post")
            return
        await rank.sleep(1_000_000, "doze")
        if await box.poll("first") is None and await box.poll("second") is None:
            raise AssertionError("nothing came")


@register_protocol("t_mourns")
class WaitsForAnyRank(SizedProgram):
    """Rank 0 waits for a message from any other rank. The others may die before they post; it holds if one of
    two dies.
    """

    async def run(self, rank: Rank, args: Any) -> None:
        if rank.rank:
            rank.send(0, "box", rank.rank, "post")
        else:
            await rank.mailbox("box").get("any")


@register_protocol("t_mourns_one")
class WaitsForRank1(SizedProgram):
    """Rank 0 waits for a message of rank 1 only."""

    async def run(self, rank: Rank, args: Any) -> None:
        if rank.rank == 0:
            await rank.mailbox("box").get("one")
        elif rank.rank == 1:
            rank.send(0, "box", rank.rank, "post")
        else:
            rank.send(0, "other", rank.rank, "post")
