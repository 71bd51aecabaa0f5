"""Experts that move while steps run, in a host thread and on a separate stream.

    main thread   step 2: new placement, start | step 3: all there? no | step 4: all there? yes, take over
    thread eplb                  send and receive, wait for the stream, set a flag

All ranks have to use the new experts from the same step on, and no rank knows how far another rank's thread is. So
while experts move, the ranks ask each other in every step (`eplb_cpu`). All switch to the new experts in one step, or
none does.

XX: the engine's thread lives as long as its rank and moves layer by layer; here there is one for each move.
Sources: specification 10.1, row 17, and 9.2.
"""

from __future__ import annotations

import numpy as np

from dpsim.contract.interface import Buffer, Event, Rank, Thread
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance, Placement
from dpsim.vllm.data_parallel.forward import Forwards
from dpsim.vllm.data_parallel.timeline import Batch


class AsyncBalance(ExpertBalance):
    """The part of one rank. `moving`: the placement that is on its way, or None."""

    def __init__(self, forwards: Forwards) -> None:
        super().__init__(forwards)
        self.peers = self.rank.host(f"{self.group}_cpu")
        self.stream = self.rank.stream("eplb")
        self.there = self.rank.flag("eplb.there")
        self.moving: Placement | None = None
        self.thread: Thread
        self.begun: Event
        self.incoming: Buffer

    async def after_step(self, batch: Batch) -> None:
        self.count(batch)
        self.steps += self.counted_steps(batch)
        if self.moving is not None:
            if await self.all_there():
                await self.finish(self.moving)
        elif self.due():
            self.steps = 0
            self.begin(await self.decide_placement())

    def begin(self, placement: Placement) -> None:
        """Start a move. From here on only its thread touches the weights."""
        self.moving = placement
        self.begun = self.main.record()
        self.there.clear("eplb.begin")
        self.thread = self.rank.start("eplb", self.move)

    async def move(self, rank: Rank) -> None:
        """Move the experts, in the thread."""
        assert self.moving is not None
        self.stream.wait(self.begun)
        self.incoming = self.exchange(self.moving, self.stream)
        await self.stream.record().synchronize("eplb.moved")
        self.there.set("eplb.there")

    async def all_there(self) -> bool:
        """Whether all ranks have their new experts, by an all-reduce."""
        mine = np.array([await self.there.query("eplb.query")], np.int32)
        ready = int((await self.peers.all_reduce(mine, site="eplb.ready"))[0])
        if ready < self.peers.size:
            self.rank.probe("eplb.waits")
        return ready == self.peers.size

    async def finish(self, placement: Placement) -> None:
        """Use the new experts from the next step on."""
        await self.thread.join("eplb.join")
        self.incoming.record_stream(self.main)
        self.take_over(placement, self.incoming)
        self.moving = None
        self.rank.decide("moved", placement, "ep")

    async def end(self) -> None:
        if self.moving is not None:
            await self.finish(self.moving)
        await super().end()
