"""Variants of the engine's remote calls to its pipeline stages: each class is the healthy program with one mistake.

For each batch the engine calls `execute` on its workers, and then `sample_tokens`. The variants are mutants of the
engine's specification, sections 7.8 and 10.8 (keys such as M-PS-10; see docs/keys.md).
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
    """The engine samples a batch before it executes it.

    A worker then has no execution record, or still that of the previous batch.
    """

    async def execute(self, batch: Batch) -> StepResult | None:
        self.early = super().sample_tokens() if batch.rows else None
        return await super().execute(batch)

    def sample_tokens(self, masks: tuple[tuple[int, ...], ...] = ()) -> StepResult | None:
        return self.early


@mutant("M-PS-10-twice", "CRASH:ASSERTIONERROR")
class ExecutesTwice(Stage):
    """The engine executes two batches and then samples both, but a worker stores only one execution record.

    The second batch overwrites the record of the first.
    """

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
    """The engine never defers sampling until earlier tokens arrive.

    So it computes grammar masks from the tokens that it has when it schedules a batch.
    """

    def defers(self, results: Sequence[RowOutput]) -> bool:
        return False


@mutant("M-ES-10", "CRASH:EXECUTEFAILED")
class SamplesEmptySteps(Stage):
    """The engine also samples a step without tokens, finds no executed batch, and reports a failure."""

    def is_sampled(self, batch: Batch) -> bool:
        return True


@mutant("M-ES-11", "HANG:COLLECTIVE:MISSING_RANK")
class SamplesDummies(Stage):
    """The engine also samples after a dummy step.

    The stages before the last still have a record and receive its tokens. The last stage has cleared its record, and
    sends none.
    """

    async def dummy(self) -> None:
        await super().dummy()
        self.sample_tokens()
