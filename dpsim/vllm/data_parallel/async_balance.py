"""Expert load balancing while steps run: a host thread moves the experts on its own CUDA stream.

    main thread   step 2: new placement, start | step 3: all moved? no | step 4: all moved? yes, swap
    thread eplb                  send and receive, wait for the stream, set a flag

All ranks have to swap to the new experts in the same step, but a rank cannot see when the threads of other ranks
finish. So in each step of a move, the ranks sum their flags on the host group `eplb_cpu`, and swap if all are set.

Simplified: the engine starts one thread for each rank and moves layer by layer; this model starts one thread for each
move. Sources: specification 10.1 (row 17 of the iteration) and 9.2 (start-up order).
"""

from __future__ import annotations

import numpy as np

from dpsim.contract.interface import Buffer, Event, Rank, Thread
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance, Placement
from dpsim.vllm.data_parallel.forward import Forwards
from dpsim.vllm.data_parallel.timeline import Batch


class AsyncBalance(ExpertBalance):
    """The balancing of one rank. `moving`: the placement to which the thread moves the experts; None without a move."""

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
        """Start a move in a thread. Until the swap, only this thread touches the weights."""
        self.moving = placement
        self.begun = self.main.record()
        self.there.clear("eplb.begin")
        self.thread = self.rank.start("eplb", self.move)

    async def move(self, rank: Rank) -> None:
        """The thread's program: exchange the experts, wait for the stream, set the flag."""
        assert self.moving is not None
        self.stream.wait(self.begun)
        self.incoming = self.exchange(self.moving, self.stream)
        await self.stream.record().synchronize("eplb.moved")
        self.there.set("eplb.there")

    async def all_there(self) -> bool:
        """Returns whether the threads of all ranks have finished the move, by an all-reduce of their flags."""
        mine = np.array([await self.there.query("eplb.query")], np.int32)
        ready = int((await self.peers.all_reduce(mine, site="eplb.ready"))[0])
        if ready < self.peers.size:
            self.rank.probe("eplb.waits")
        return ready == self.peers.size

    async def finish(self, placement: Placement) -> None:
        """Join the thread and swap the weights, so that the next step uses the new experts."""
        await self.thread.join("eplb.join")
        self.incoming.record_stream(self.main)
        self.take_over(placement, self.incoming)
        self.moving = None
        self.rank.decide("moved", placement, "ep")

    async def end(self) -> None:
        if self.moving is not None:
            await self.finish(self.moving)
        await super().end()
