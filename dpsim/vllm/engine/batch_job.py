"""The loop of a batch job: a program that steps its own engine, one a rank, without front ends (2.8).

    while await has_unfinished_requests():     # all ranks ask the group, equally often
        await step()                           # a batch, or a dummy if only others have work

Requests are dealt to the ranks in turn. Variants override methods of `OfflineLoop`, as of `EngineLoop`.

Source: specification chapter 2.8.
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
    """One rank's engine, in lockstep without a coordinator and without a loop: a program steps each of them (2.8).

    Each rank runs `while has_unfinished_requests(): step()`, as a batch job with an external launcher does. The
    condition is itself the reduction: a MAX over the ranks with work. So a rank without work goes on asking and
    stepping while any rank has work, and its step is a dummy batch.

        >>> engine = OfflineEngine()
        >>> engine.contribution(unfinished=False)
        (0,)
        >>> engine.reduced((1,), unfinished=False)  # another rank has work
        True
        >>> engine.step(), engine.step()
        ('dummy', 'model')

    There are no waves and no sync points: every step is one. Nothing here notices a rank that asks once more, or once
    less, than its peers: all have to call both functions equally often.
    """

    op: ClassVar[Op] = "max"

    def __init__(self) -> None:
        self.should_execute_dummy_batch = False

    def contribution(self, unfinished: bool) -> Numbers:
        """The numbers that the rank brings to the reduction of `has_unfinished_requests`, as int32."""
        return (int(unfinished),)

    def reduced(self, total: Numbers, unfinished: bool) -> bool:
        """The result of `has_unfinished_requests`."""
        (anybody,) = total
        if anybody and not unfinished:
            self.should_execute_dummy_batch = True
        return bool(anybody)

    def step(self) -> Literal["dummy", "model"]:
        """The kind of the next step. A dummy batch returns no outputs, and a new request waits for it."""
        dummy, self.should_execute_dummy_batch = self.should_execute_dummy_batch, False
        return "dummy" if dummy else "model"


class OfflineLoop:
    """One rank's job."""

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
        """Whether any rank has work."""
        local = self.scheduler.has_unfinished(UNPAUSED)
        told = np.array(self.engine.contribution(local), np.int32)
        total = await self.group.all_reduce(told, op=self.engine.op, site="engine.has_unfinished")
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
