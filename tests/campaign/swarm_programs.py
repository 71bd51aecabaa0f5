"""Protocols for swarms of worlds. Rank 0 waits for keys that rank 1 sets, and gives up after three time-outs, or never.
Two more ranks ask and answer with a time-out.
"""

from __future__ import annotations

from typing import Any, ClassVar

from dpsim.contract.interface import Rank
from dpsim.contract.registry import register_protocol, register_variant
from tests.protocols import SizedProgram

SECOND = 1_000_000_000


@register_protocol("t_asks")
class Asks(SizedProgram):
    """Rank 0 gives up after three time-outs."""

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
    """Rank 0 never gives up: the faulty twin."""

    patience = -1


@register_protocol("t_gives_up")
class GivesUp(SizedProgram):
    """Rank 1 asks rank 0, and wrongly raises if the answer takes longer than 50 ms. A late rank 0 makes that happen."""

    timeout_ns: ClassVar[int | None] = SECOND // 20
    shrugs: ClassVar[bool] = False

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank == 0:
            await rank.mailbox("asked").get("want")
            rank.send(1, "answer", 7, "reply")
        else:
            rank.send(0, "asked", 1, "ask")
            answer = await rank.mailbox("answer").get("answer", timeout_ns=self.timeout_ns)
            assert answer == 7 or self.shrugs, "the answer came too late"


@register_variant("T-WAITS", protocol="t_gives_up", expected=None, reason="it waits as long as it takes")
class Waits(GivesUp):
    """Rank 1 waits without a time-out: the healthy twin."""

    timeout_ns = None


@register_variant("T-SHRUGS", protocol="t_gives_up", expected=None, reason="it needs no answer")
class AcceptsNoAnswer(GivesUp):
    """Rank 1 gives up, and accepts a missing answer."""

    shrugs = True
