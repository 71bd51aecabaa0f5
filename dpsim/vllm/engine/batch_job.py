"""The loop of a batch job: on each rank, a program steps its own engine, without front ends (specification 2.8).

    while await has_unfinished_requests():     # all ranks ask the group, equally often
        await step()                           # a batch, or a dummy if only others have work

The job distributes its requests over the ranks in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.vllm.engine.finish_sync import Numbers, Op
from dpsim.vllm.engine.forward import EngineForward
from dpsim.vllm.engine.scheduler import Scheduler
from dpsim.vllm.engine.waves import PauseState
from dpsim.vllm.params.arguments import Request

UNPAUSED = PauseState.UNPAUSED


class OfflineEngine:
    """The rules of one rank's engine in a batch job: it has no coordinator and no loop (specification 2.8).

        >>> engine = OfflineEngine()
        >>> engine.contribution(unfinished=False)
        (0,)
        >>> engine.reduced((1,), unfinished=False)  # another rank has work
        True
        >>> engine.step(), engine.step()
        ('dummy', 'model')

    There are no waves, and the ranks reduce before every step. All ranks have to call both functions equally often: the
    engine does not notice a rank that calls once more or less.
    """

    op: ClassVar[Op] = "max"

    def __init__(self) -> None:
        self.should_execute_dummy_batch = False

    def contribution(self, unfinished: bool) -> Numbers:
        """The numbers that the rank passes to the reduction of `has_unfinished_requests`, as int32."""
        return (int(unfinished),)

    def reduced(self, total: Numbers, unfinished: bool) -> bool:
        """`total`: the reduced numbers. `unfinished`: whether this rank has work."""
        (anybody,) = total
        if anybody and not unfinished:
            self.should_execute_dummy_batch = True
        return bool(anybody)

    def step(self) -> Literal["dummy", "model"]:
        """A dummy yields no outputs; a request that arrives before it waits for the next step."""
        dummy, self.should_execute_dummy_batch = self.should_execute_dummy_batch, False
        return "dummy" if dummy else "model"


class OfflineLoop:
    """The batch job of one rank."""

    def __init__(self, rank: Rank, scheduler: Scheduler, forward: EngineForward) -> None:
        self.rank = rank
        self.scheduler = scheduler
        self.forward = forward
        self.engine = OfflineEngine()
        self.group = rank.host("dp_engine")

    async def run(self, requests: Sequence[Request]) -> None:
        """Step until no rank has work."""
        for number, request in enumerate(requests):
            if number % self.group.size == self.group.index:
                self.scheduler.add(f"r{number}", request.length, 0)
        self.rank.step = 0
        while await self.has_unfinished_requests():
            await self.step()
            self.rank.step += 1
        await self.forward.synchronize()
        self.forward.call("stop")

    async def has_unfinished_requests(self) -> bool:
        """Whether any rank has work, by a reduction over all ranks."""
        local = self.scheduler.has_unfinished(UNPAUSED)
        own_numbers = np.array(self.engine.contribution(local), np.int32)
        total = await self.group.all_reduce(own_numbers, op=self.engine.op, site="engine.has_unfinished")
        anybody = self.engine.reduced(tuple(map(int, total)), local)
        self.rank.decide("unfinished", anybody, "dp_engine")
        return anybody

    async def step(self) -> None:
        if self.engine.step() == "dummy":
            await self.forward.dummy()
        else:
            batch = self.scheduler.schedule(UNPAUSED)
            await self.forward.execute(len(batch))
            self.scheduler.update(batch)
