"""Variants of hidden states and of the queue of batches: the mutants of specification 7.8, area 3.

`dpsim.vllm.museum.tokens` explains more. M-PS-7 and the second half of M-PS-8 are in `dpsim.vllm.museum.steps`,
M-PS-2 and -14 in `dpsim.vllm.museum.tensor_parallel`, M-PS-10 and -11 in `dpsim.vllm.museum.remote_calls`.

    protocol: {name: pp_tokens, form: source-002, variant: M-PS-3}
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
    """The next forward overwrites buffers that a send still reads."""

    def wait_sent(self, sent: Event) -> None:
        pass


@mutant("M-PS-3", WRONG)
class AnotherOrder(WaitsForDescription):
    """The sender sends its tensors in another order than the one that it described: hidden and residual swapped."""

    def in_order(self, tensors: Mapping[str, Buffer]) -> Iterable[tuple[str, Buffer]]:
        return reversed(list(super().in_order(tensors)))


@mutant("M-PS-4", "RACE:BUFFER")
class LooksAtOnce(WaitsForDescription):
    """The main stream reads tensors before they arrive."""

    def wait_received(self, ready: Event) -> None:
        pass


@mutant("M-PS-5", "CRASH:RUNTIMEERROR")
class WaitsTwice(Transfer):
    """The host awaits a handle of a send over host memory twice: gloo then blocks without end."""

    async def wait_handle(self, handle: Awaitable[HostArray]) -> None:
        await handle
        await handle


@mutant("M-PS-6", "[CH]*")
class SendsEmptySteps(Stage):
    """A stage describes a step without tokens to the next stage, which takes that for its next step's description."""

    async def execute(self, batch: Batch) -> StepResult | None:
        result = await super().execute(batch)
        if not batch.rows and self.transfer is not None and not self.is_last:
            await self.transfer.send({})
        return result


@mutant("M-PS-8", None, "performance only: the queue holds one batch fewer than there are stages, and one stage idles")
class ShallowQueue(PipelineScheduler):
    """The queue of batches is one too short."""

    def depth(self) -> int:
        return max(1, super().depth() - 1)


@mutant("M-PS-9", "CRASH:ASSERTIONERROR")
class NewestFirst(Stage):
    """The engine takes the newest result out of the queue and reports it as that of the oldest batch."""

    def next_result(self) -> StepResult | None:
        return self.results.pop()


@mutant(
    "M-PS-12",
    None,
    "not fatal: what the aborted request samples once more is its next token, and no client receives it",
)
class AbortsLate(PipelineScheduler):
    """Aborts wait until the scheduler has a result: the aborted request runs once more."""

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
    """A stage sends a tensor from separate memory and frees it when it has posted the send: the next tensor gets it.

    No rank keeps the tensor until it is sent, and the allocator does not know the stream that reads it.
    """

    def in_order(self, tensors: Mapping[str, Buffer]) -> Iterator[tuple[str, Buffer]]:
        for name, buffer in super().in_order(tensors):
            own = self.main.alloc(buffer.shape, buffer.dtype, f"{name}.own")
            self.main.launch(f"{name}.copy", kernels.copy, reads=[buffer], writes=[own])
            self.sending().wait_stream(self.main)
            yield name, own
            own.free()


@mutant("M-PS-15", None, "performance only: batches run one after the other, and tokens arrive earlier than needed")
class WaitsAtOnce(PipelineScheduler):
    """The engine waits for each batch instead of filling the queue."""

    def returns_early(self, batch: Batch, queued: int) -> bool:
        return False
