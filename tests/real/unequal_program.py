"""A program whose rank 0 sends, and whose rank 1 receives, the numbers of elements in its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol


def fill(buffer: Any) -> None:
    buffer[:] = 1


@register_protocol("real_unequal")
class Unequal(Program[Any]):
    """`sent`, `received`: the elements on either side. `meets`: both ranks then call a barrier."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 0
        group, main = rank.device("dp"), rank.stream("main")
        buffer = main.alloc(prepared["received" if rank.rank else "sent"], "int32", "buffer")
        main.launch("fill", fill, writes=[buffer])
        (group.recv if rank.rank else group.send)(buffer, 1 - rank.rank, main, site="moves")
        await buffer.read("read")
        if prepared.get("meets"):
            await rank.host("dp_cpu").barrier(site="meets")
