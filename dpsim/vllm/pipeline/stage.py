"""One pipeline stage, put together: the engine's calls, a worker that does them, and what must come of it.

Every stage has the same history of calls (`dpsim.vllm.pipeline.history`) and works through it alone. So each worker
(`dpsim.vllm.pipeline.worker`) receives the same calls in the same order. A call of the engine follows 7.5: it executes
a batch and samples it; if the queue is full, it takes the oldest result.
If a grammar needs that result, the call takes it before it samples:

    a batch              execute, sample, take        the next but one needs what is taken here
    with a grammar       execute, take, sample        the masks are made of the tokens just taken
    without tokens       execute, take

When the engine takes a result, each stage reads the inputs of that step and compares them with the oracle. Inputs are
tokens, positions (which show the computed counts), lengths and histories. An error names the request, the step and
the op that delivered the token. The host waits for nothing else of its device. The run also compares the stages with
each other, as mirrors may drift. It compares each tensor-parallel rank with the oracle, which is stricter (I-ES-10).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from dpsim.vllm.pipeline.batches import Batch, StepResult
from dpsim.vllm.pipeline.history import Call
from dpsim.vllm.pipeline.witness import LostTokens, Witness
from dpsim.vllm.pipeline.worker import PipelineWorker


class ExecuteFailed(RuntimeError):
    """A worker had nothing to sample: it did not execute the batch before, or sampled it already."""


class Stage(PipelineWorker):
    """One rank's part, with the engine's. Methods in the order in which a run calls them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.results: deque[StepResult | None] = deque()  # the queue of batches: what came of each
        self.taken = 0  # batches whose results were taken
        self.witness = Witness(self.history.oracles, self.history.ends if self.is_last else {})

    async def run(self) -> None:
        """Do all calls, then the end. If the stage captures graphs, it captures them before."""
        await self.model.capture(("ep", "pp") if self.stages > 1 else ("ep",))
        for number, call in enumerate(self.history.calls):
            self.rank.step = number
            await self.call(call)
        await self.drain()

    async def call(self, call: Call) -> None:
        """Do one call of the engine. Each batch with tokens is executed once, then sampled once (I-PS-7)."""
        if call.batch is not None:
            self.witness.scheduled(call.batch)
            answer = await self.execute(call.batch)
            if not call.deferred:
                sampled = self.is_sampled(call.batch)
                self.results.append(self.sample_tokens(call.masks) if sampled else answer)
        if call.takes:
            result = self.next_result()
            if result is None:
                raise ExecuteFailed(f"batch {self.taken} has no result: when it was to be sampled, none was executed")
            await self.take(result)
        if call.deferred:
            self.results.append(self.sample_tokens(call.masks))
        if call.dummy:
            await self.dummy()

    def is_sampled(self, batch: Batch) -> bool:
        """Whether there is anything to sample."""
        return batch.num_tokens > 0

    def next_result(self) -> StepResult | None:
        """The oldest result: the engine takes results in the order of the batches (I-PS-6)."""
        return self.results.popleft()

    async def take(self, result: StepResult) -> None:
        """Wait for a step's result, and compare it. The scheduler takes it for the result of the oldest batch."""
        number, oldest = result.batch.number, self.taken
        assert number == oldest, f"the result of batch {number} is reported as that of batch {oldest}"
        self.taken += 1
        self.output.wait(result.done)
        if result.inputs is None:
            return
        inputs = (await result.inputs.read("inputs.read", self.output)).tolist()
        result.inputs.free()
        self.witness.inputs(result.step, result.batch.rows, inputs, result.delivered)
        self.rank.decide("inputs", (number, tuple(inputs[0]), tuple(inputs[1]), tuple(inputs[2])), self.mirrors)
        if result.tokens is not None and result.counts is not None:
            tokens = (await result.tokens.read("tokens.read", self.output)).tolist()
            counts = (await result.counts.read("counts.read", self.output)).tolist()
            result.tokens.free()
            result.counts.free()
            self.rank.decide("sampled", (number, tuple(map(tuple, tokens)), tuple(counts)), self.mirrors, local=True)
            self.witness.sampled(result.step, result.batch.rows, tokens, counts, self.told(result.batch))

    def told(self, batch: Batch) -> Sequence[int]:
        """The number of tokens that clients receive of each row, by the scheduler."""
        return self.history.told[batch.number]

    async def drain(self) -> None:
        """End the run: await the sends, check that the queues hold no needed result, and compare the outputs."""
        if self.transfer is not None:
            await self.transfer.begin()
        assert not self.results, f"{len(self.results)} results were never taken"
        if self.tokens is not None:
            missed = self.tokens.drain()
            if missed:
                raise LostTokens(f"a request needs the tokens of the steps {missed}, which were never taken over")
        self.witness.end()
        await self.table.last.read("state.read")
