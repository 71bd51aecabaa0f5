"""A program whose root may call one broadcast more than its peer. The root does not wait, so the run finishes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol

SURPLUS, TOLD = 7, 42


def fill(buffer: Any, value: int) -> None:
    buffer[:] = value


@register_protocol("real_surplus")
class Surplus(Program[Any]):
    """Rank 1 broadcasts a number to rank 0. `surplus`: it calls a second broadcast, which rank 0 does not call."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        group, main = rank.device("dp"), rank.stream("main")
        rank.step = 0
        buffer = main.alloc(4, "int32", "told")
        main.launch("fill", fill, writes=[buffer], args=(TOLD * rank.rank,))
        group.broadcast(buffer, 1, main, site="tell")
        rank.decide("told", int((await buffer.read("read")).sum()), "dp")
        if prepared.get("surplus") and rank.rank:
            main.launch("fill", fill, writes=[buffer], args=(SURPLUS,))
            group.broadcast(buffer, 1, main, site="surplus")
            await buffer.read("read.surplus")
