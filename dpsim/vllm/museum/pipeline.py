"""Variants of hidden states and of the batch queue in a pipeline: each class is the healthy program with one mistake.

The mistakes are mutants of the engine's specification, section 7.8 (keys such as M-PS-3; see docs/keys.md).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dpsim.contract.interface import Buffer, Event, HostArray
from dpsim.vllm.model import kernels
from dpsim.vllm.museum.tokens import WRONG, mutant
from dpsim.vllm.pipeline.batches import Batch, StepResult
from dpsim.vllm.pipeline.scheduler import PipelineScheduler, RowOutput
from dpsim.vllm.pipeline.stage import Stage
from dpsim.vllm.pipeline.transfer import Transfer, WaitsForDescription


@mutant("M-PS-1", "RACE:BUFFER")
class NeverWaitsForSends(WaitsForDescription):
    """A stage does not wait for its sends, so its next forward overwrites buffers that a send still reads."""

    def wait_sent(self, sent: Event) -> None:
        pass


@mutant("M-PS-3", WRONG)
class AnotherOrder(WaitsForDescription):
    """A stage sends its tensors in another order than it described, so hidden and residual change places."""

    def in_order(self, tensors: Mapping[str, Buffer]) -> Iterable[tuple[str, Buffer]]:
        return reversed(list(super().in_order(tensors)))


@mutant("M-PS-4", "RACE:BUFFER")
class LooksAtOnce(WaitsForDescription):
    """The main stream of a stage reads received tensors without a wait for their arrival."""

    def wait_received(self, ready: Event) -> None:
        pass


@mutant("M-PS-5", "CRASH:RUNTIMEERROR")
class WaitsTwice(Transfer):
    """The host awaits the handle of a gloo send twice, and gloo blocks in the second wait without end."""

    async def wait_handle(self, handle: Awaitable[HostArray]) -> None:
        await handle
        await handle


@mutant("M-PS-6", "[CH]*")
class SendsEmptySteps(Stage):
    """A stage sends a description of its hidden states also in a step without tokens.

    The next stage reads it as the description of its next step with tokens.
    """

    async def execute(self, batch: Batch) -> StepResult | None:
        result = await super().execute(batch)
        if not batch.rows and self.transfer is not None and not self.is_last:
            await self.transfer.send({})
        return result


@mutant(
    "M-PS-8", None, "performance only: the queue contains one batch fewer than there are stages, so one stage idles"
)
class ShallowQueue(PipelineScheduler):
    """The engine's batch queue is one batch too short."""

    def depth(self) -> int:
        return max(1, super().depth() - 1)


@mutant("M-PS-9", "CRASH:ASSERTIONERROR")
class NewestFirst(Stage):
    """The engine takes the newest result out of the queue, and reports it as the result of the oldest batch."""

    def next_result(self) -> StepResult | None:
        return self.results.pop()


@mutant(
    "M-PS-12",
    None,
    "not fatal: the aborted request samples its next token once more, and no client receives that token",
)
class AbortsLate(PipelineScheduler):
    """The scheduler applies an abort only after the result of the step, so the aborted request runs once more."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.late: list[int] = []

    def abort(self, number: int) -> None:
        self.late.append(number)

    def update_from_output(self, results: Sequence[RowOutput]) -> None:
        super().update_from_output(results)
        while self.late:
            super().abort(self.late.pop(0))


@mutant("M-PS-13", "RACE:REUSED_IN_FLIGHT")
class FreesSent(WaitsForDescription):
    """A stage sends a tensor from temporary memory and frees it as soon as it has posted the send.

    The allocator does not record the stream that still reads the tensor, so the next tensor gets the same memory.
    """

    def in_order(self, tensors: Mapping[str, Buffer]) -> Iterator[tuple[str, Buffer]]:
        for name, buffer in super().in_order(tensors):
            own = self.main.alloc(buffer.shape, buffer.dtype, f"{name}.own")
            self.main.launch(f"{name}.copy", kernels.copy, reads=[buffer], writes=[own])
            self.sending().wait_stream(self.main)
            yield name, own
            own.free()


@mutant(
    "M-PS-15",
    None,
    "performance only: batches run one after the other, so the tokens arrive earlier than a step needs them",
)
class WaitsAtOnce(PipelineScheduler):
    """The engine waits for each batch instead of filling the batch queue."""

    def returns_early(self, batch: Batch, queued: int) -> bool:
        return False
