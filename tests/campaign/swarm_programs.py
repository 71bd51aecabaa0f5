"""Protocols for swarms: rank 0 asks for what rank 1 sets, and gives up after three time-outs, or never."""

from __future__ import annotations

from typing import Any, ClassVar

from dpsim.contract.interface import Rank
from dpsim.contract.registry import register_protocol, register_variant
from tests.protocols import SizedProgram

SECOND = 1_000_000_000


@register_protocol("t_asks")
class Asks(SizedProgram):
    """Gives up."""

    patience: ClassVar[int] = 3

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank == 1:
            store = await rank.join_store(0, 5, "join", timeout_ns=3 * SECOND)
            if store is not None:
                for number in range(3):
                    store.set(f"k{number}", number, "set")
            return
        store = await rank.open_store(5, "open")
        assert store is not None
        for number in range(3):
            tries = 0
            while await store.get(f"k{number}", "get", timeout_ns=SECOND + tries) is None:
                tries += 1
                if tries == self.patience:
                    return


@register_variant("T-ASKS-FOR-EVER", protocol="t_asks", expected="PROGRESS:BOUND")
class ForEver(Asks):
    """Never gives up: the faulty twin."""

    patience = -1
