"""One rank of a pipeline stage: it makes the engine's calls in order, and checks the result of each step.

Every stage has the same history of calls (`dpsim.vllm.pipeline.history`), computed before the run. In one call, the
engine executes a batch and samples it. If the batch queue is full, the engine then takes the oldest result, that is, it
waits for the result and reads it (specification 7.5). With a grammar, the masks of the batch depend on this result, so
the engine takes it before it samples:

    a batch              execute, sample, take
    with a grammar       execute, take, sample        the masks depend on the result just taken
    without tokens       execute, take

When the engine takes a result, each stage reads the inputs of that step from its device. A witness compares them with
the expected inputs. An error names the request, the step and the op that wrote the token. The host waits for its device
nowhere else. Each tensor-parallel rank is compared with the expected inputs, not with the others (I-ES-10).
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
    """A worker had nothing to sample, because it had not executed a batch since its last sample."""


class Stage(PipelineWorker):
    """One rank, with the calls of its engine. A run calls the methods in the order of this file."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.results: deque[StepResult | None] = deque()  # the batch queue: the result of each batch
        self.taken = 0  # batches whose results were taken
        self.witness = Witness(self.history.oracles, self.history.ends if self.is_last else {})

    async def run(self) -> None:
        """Capture graphs, if the stage has any. Then make all calls, and check the end."""
        await self.model.capture(("ep", "pp") if self.stages > 1 else ("ep",))
        for number, call in enumerate(self.history.calls):
            self.rank.step = number
            await self.call(call)
        await self.drain()

    async def call(self, call: Call) -> None:
        """Make one call of the engine. A worker executes and then samples each batch with tokens, both once
        (invariant I-PS-7).

        Raises ExecuteFailed if the result that the engine takes does not exist.
        """
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
        """Whether the batch has tokens, so that there is something to sample."""
        return batch.num_tokens > 0

    def next_result(self) -> StepResult | None:
        """The oldest result, because the engine takes results in the order of the batches (invariant I-PS-6)."""
        return self.results.popleft()

    async def take(self, result: StepResult) -> None:
        """Wait for a result, and compare it. AssertionError unless it is that of the oldest batch."""
        number, oldest = result.batch.number, self.taken
        assert number == oldest, f"the result of batch {number} is reported as that of batch {oldest}"
        self.taken += 1
        self.output.wait(result.done)
        if result.inputs is None:
            return
        inputs = (await result.inputs.read("inputs.read", self.output)).tolist()
        result.inputs.free()
        self.witness.inputs(result.step, result.batch.rows, inputs, result.delivered, self.rank.step)
        self.rank.decide("inputs", (number, tuple(inputs[0]), tuple(inputs[1]), tuple(inputs[2])), self.mirrors)
        if result.tokens is not None and result.counts is not None:
            tokens = (await result.tokens.read("tokens.read", self.output)).tolist()
            counts = (await result.counts.read("counts.read", self.output)).tolist()
            result.tokens.free()
            result.counts.free()
            self.rank.decide("sampled", (number, tuple(map(tuple, tokens)), tuple(counts)), self.mirrors, local=True)
            self.witness.sampled(result.step, result.batch.rows, tokens, counts, self.delivered_tokens(result.batch))

    def delivered_tokens(self, batch: Batch) -> Sequence[int]:
        """The number of tokens that the client of each row receives, by the scheduler."""
        return self.history.delivered_tokens[batch.number]

    async def drain(self) -> None:
        """End the run: await the sends, check that no result is left, and compare the outputs.

        Raises LostTokens if the queue still contains tokens that a request needs.
        """
        if self.transfer is not None:
            await self.transfer.begin()
        assert not self.results, f"{len(self.results)} results were never taken"
        if self.tokens is not None:
            missed = self.tokens.drain()
            if missed:
                raise LostTokens(f"a request needs the tokens of the steps {missed}, which were never taken over")
        self.witness.end(self.rank.step)
        await self.table.last.read("state.read")
