"""A program that shows how ranks survive a peer's death: a host thread of each rank gets the notice, and aborts.

    main        watch peers   start monitor   all_reduce ... Aborted          raises PeerGone: rank 1 is gone
    monitor     waits idle ............................ ("gone", 1)   abort dp_cpu   abort dp

After the abort, every peer of the dead rank ends with an error that names the dead rank. In each faulty twin, a rank
omits its watch or one of its aborts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpsim.contract.interface import Aborted, Rank
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol


class PeerGone(RuntimeError):
    """A peer has died, so the ranks can call no further collective together."""


def put(x: Any, value: int) -> None:
    """A kernel that fills a buffer."""
    x[:] = value


@register_protocol("survivors")
class Survivors(Program[Mapping[str, Any]]):
    """Ranks that sum numbers in each of `rounds`, on the host, and also on the device if `device` is set."""

    threaded = True
    aborts = True
    ordered_by_flags = True

    def watches(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        for peer in rank.host("dp_cpu").ranks:
            if peer != rank.rank:
                rank.watch(peer, "deaths", "watch")

    def abort(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.host("dp_cpu").abort(site="give_up")
        if prepared.get("device"):
            rank.device("dp").abort(site="give_up.device")

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        gone: list[Any] = []

        async def monitor(own: Rank) -> None:
            gone.append(await own.mailbox("deaths").get("told", idle=True))
            self.abort(own, prepared)

        self.watches(rank, prepared)
        rank.start("monitor", monitor)
        try:
            for rank.step in range(prepared.get("rounds", 1)):
                await self.round(rank, prepared)
        except Aborted:
            raise PeerGone(f"rank {gone[0][1]} is gone") from None

    async def round(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        await rank.host("dp_cpu").all_reduce(np.ones(1, np.int32), site="agree")
        if prepared.get("device"):
            main = rank.stream("main")
            x = main.alloc(1, "int32", "x")
            main.launch("put", put, writes=[x], args=(rank.step,))
            rank.device("dp").all_reduce(x, main, site="sum")
            await x.read("read")


@register_protocol("survivors_blind")
class Blind(Survivors):
    """The faulty twin: rank 0 watches no peer."""

    def watches(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        if rank.rank:
            super().watches(rank, prepared)


@register_protocol("survivors_forgetful")
class Forgetful(Survivors):
    """The faulty twin: rank 0 aborts only one of its two communicators."""

    def abort(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        if rank.rank:
            super().abort(rank, prepared)
        else:
            rank.host("dp_cpu").abort(site="give_up")
