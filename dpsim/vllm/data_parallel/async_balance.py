"""Experts that move while steps run, in a host thread and on a stream of their own: the program `eplb`.

    main thread   step 2: new placement, start | step 3: all there? no | step 4: all there? yes, take over
    thread eplb                  send and receive, wait for the stream, say that it is there

Which step is the first with the new experts has to be the same on all ranks, and how far its own thread is no rank
knows of another one. So while experts move, every step asks all (`eplb_cpu`), and all take over together, or none does.
The steps are those of `dp_batch`, whose ranks have no threads.

    protocol: {name: eplb}
    config: {enable_expert_parallel: true, enable_eplb: true, eplb_config: {step_interval: 2}}

XX: the engine's thread lives as long as its rank and moves layer by layer; here there is one for each move.
Sources: specification 10.1, row 17, and 9.2.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dpsim.contract.interface import Buffer, Event, Rank, Thread
from dpsim.contract.program import Arguments, Unsuitable
from dpsim.contract.registry import register_protocol
from dpsim.vllm.config import EngineConfig
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance, Placement
from dpsim.vllm.data_parallel.forward import Forwards
from dpsim.vllm.data_parallel.program import DataParallelBatch, DataParallelSetup
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


@register_protocol("eplb", forms=("source-000", "0.33"))
class BalancedBatch(DataParallelBatch):
    """Batch agreement of data-parallel ranks whose experts move while steps run."""

    threaded = True
    ordered_by_flags = True
    honours_config_by_rank = True
    probes: tuple[str, ...] = (*DataParallelBatch.probes, "eplb.waits")
    balance: ClassVar[type[ExpertBalance]] = AsyncBalance

    def prepare(self, args: Arguments) -> DataParallelSetup:
        setup = super().prepare(args)
        if setup.balance is None:
            raise Unsuitable("config.enable_eplb: the ranks of eplb have threads to move experts in; expected true")
        return setup

    def balance_of(self, release: str, config: EngineConfig) -> type[ExpertBalance]:
        """Where nobody says how experts move, while steps run."""
        if config.eplb_config.use_async is False:
            raise Unsuitable(
                "config.eplb_config.use_async: False; eplb moves experts while steps run: remove it, "
                "or take the protocol dp_batch"
            )
        return self.balance
