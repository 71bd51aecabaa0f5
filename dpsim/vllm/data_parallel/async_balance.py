"""Experts that move while steps run, in a host thread and on a stream of their own.

    main thread   step 2: new placement, start | step 3: all there? no | step 4: all there? yes, take over
    thread eplb                  send and receive, wait for the stream, say that it is there

Which step is the first with the new experts has to be the same on all ranks, and how far its own thread is no rank
knows of another one. So while experts move, every step asks all (`eplb_cpu`), and all take over together, or none does.

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
    """What one rank has to do with it. `moving`: the placement that is on its way; None: none is."""

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
        """From here on nobody else touches the weights."""
        self.moving = placement
        self.begun = self.main.record()
        self.there.clear("eplb.begin")
        self.thread = self.rank.start("eplb", self.move)

    async def move(self, rank: Rank) -> None:
        """The thread."""
        assert self.moving is not None
        self.stream.wait(self.begun)
        self.incoming = self.exchange(self.moving, self.stream)
        await self.stream.record().synchronize("eplb.moved")
        self.there.set("eplb.there")

    async def all_there(self) -> bool:
        """Whether all ranks have their new experts: they tell one another."""
        mine = np.array([await self.there.query("eplb.query")], np.int32)
        ready = int((await self.peers.all_reduce(mine, site="eplb.ready"))[0])
        if ready < self.peers.size:
            self.rank.probe("eplb.waits")
        return ready == self.peers.size

    async def finish(self, placement: Placement) -> None:
        """Use them from the next step on."""
        await self.thread.join("eplb.join")
        self.incoming.record_stream(self.main)
        self.take_over(placement, self.incoming)
        self.moving = None
        self.rank.decide("moved", placement, "ep")

    async def end(self) -> None:
        if self.moving is not None:
            await self.finish(self.moving)
        await super().end()
