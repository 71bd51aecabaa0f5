"""Variants of the engine's remote calls: in another order, for nothing, or with an old grammar.

Mutants of specification 7.8 and 10.8. `dpsim.vllm.museum.tokens` explains more.

    protocol: {name: pp_tokens, form: source-002, variant: M-PS-10}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsim.vllm.museum.tokens import WRONG, mutant
from dpsim.vllm.pipeline.batches import Batch, StepResult
from dpsim.vllm.pipeline.scheduler import PipelineScheduler, RowOutput
from dpsim.vllm.pipeline.stage import Stage


@mutant("M-PS-10", "CRASH:EXECUTEFAILED")
class SamplesFirst(Stage):
    """The engine samples a batch before it executes it: there is no record, or that of the batch before."""

    async def execute(self, batch: Batch) -> StepResult | None:
        self.early = super().sample_tokens() if batch.rows else None
        return await super().execute(batch)

    def sample_tokens(self, masks: tuple[tuple[int, ...], ...] = ()) -> StepResult | None:
        return self.early


@mutant("M-PS-10-twice", "CRASH:ASSERTIONERROR")
class ExecutesTwice(Stage):
    """The engine executes two batches, then samples them: a worker has one record, and the second overwrites it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ahead: dict[int, StepResult | None] = {}

    async def execute(self, batch: Batch) -> StepResult | None:
        if batch.number in self.ahead:
            return self.ahead.pop(batch.number)
        answer = await super().execute(batch)
        for other in (call.batch for call in self.history.calls):
            if other is not None and other.number == batch.number + 1 and batch.rows and other.rows:
                self.ahead[other.number] = await super().execute(other)
        return answer


@mutant("M-PS-11", WRONG)
class NeverDefers(PipelineScheduler):
    """The engine defers nothing: it makes masks of the tokens that it knows when it schedules a batch."""

    def defers(self, results: Sequence[RowOutput]) -> bool:
        return False


@mutant("M-ES-10", "CRASH:EXECUTEFAILED")
class SamplesEmptySteps(Stage):
    """The engine also samples a batch without tokens: no batch was executed, and it takes that for a failure."""

    def is_sampled(self, batch: Batch) -> bool:
        return True


@mutant("M-ES-11", "HANG:COLLECTIVE:MISSING_RANK")
class SamplesDummies(Stage):
    """After a dummy step the engine samples its record, which only the last stage has cleared.

    The stages before the last post the receive of its tokens, and the last has none to send.
    """

    async def dummy(self) -> None:
        await super().dummy()
        self.sample_tokens()
