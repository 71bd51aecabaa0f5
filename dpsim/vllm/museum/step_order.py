"""Variants of the order of phases in a data-parallel step, and of their inputs: each class has one planted mistake.

The mistakes are mutants of the engine's specification, section 10.8 (keys such as M-ES-1; see docs/keys.md).
"""

from __future__ import annotations

from dpsim.contract.registry import register_variant
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.batch import StepPlan
from dpsim.vllm.data_parallel.captured import CapturedForward, Metadata
from dpsim.vllm.data_parallel.drafter import Drafter
from dpsim.vllm.data_parallel.flow import Flow017
from dpsim.vllm.data_parallel.forward import Execution
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.museum.batch import is_last


@register_variant("M-ES-1", protocol="dp_batch", form="source-000", expected="CRASH:DROPPEDTOKENS")
class AgreesOnOldBatch(DataParallelStep):
    """Ranks agree before they read the scheduler's new batch, and so agree on the batch of the previous step.

    If the new batch is larger than the previous one, the forward has no room for all of its tokens.
    """

    old: Batch | None = None

    async def coordinate(self, batch: Batch) -> Execution:
        old, self.old = self.old or batch, batch
        return (await super().coordinate(old))._replace(batch=batch)


@register_variant("M-ES-2", protocol="dp_batch", form="source-000", expected="CRASH:WRONG*")
class PreparesTooEarly(CapturedForward):
    """A rank prepares inputs and cache slots before the agreement, only for its own number of requests.

    The padded graph reads more requests. For the additional ones it finds cache slots of an earlier step, and
    overwrites cache rows that are in use.
    """

    def metadata_of(self, batch: Batch, num_tokens: int, mode: RuntimeMode) -> Metadata:
        return super().metadata_of(batch, batch.num_tokens, RuntimeMode.NONE)


@register_variant("M-ES-5", protocol="dp_batch", form="source-000", expected="CRASH:WRONGCACHE")
class DummiesWrite(CapturedForward):
    """The metadata of a dummy batch contains the cache slot of the rank's first request.

    So the dummy batch overwrites that slot.
    """

    def metadata_of(self, batch: Batch, num_tokens: int, mode: RuntimeMode) -> Metadata:
        metadata = super().metadata_of(batch, num_tokens, mode)
        return metadata._replace(slots=(self.index, *metadata.slots[1:])) if batch.is_dummy else metadata


@register_variant("M-ES-7", protocol="dp_batch", form="source-000", expected="MISMATCH:COLLECTIVE:COUNT")
class ReusesTheAgreement(Drafter):
    """The later forwards of the drafter reuse the token counts that the ranks agreed on for its first forward.

    Each rank corrects only its own count. The first forward has all tokens, a later one has one token for each request.
    So no two ranks have the same list.
    """

    kept: tuple[int, ...] | None = None

    async def agree(self, num_tokens: int) -> tuple[int, ...] | None:
        if self.kept is None:
            self.kept = await super().agree(num_tokens)
            return self.kept
        counts, self.kept, own = self.kept, None, self.step.host.index
        return (*counts[:own], num_tokens, *counts[own + 1 :])


@register_variant(
    "M-ES-12",
    protocol="dp_batch",
    form="source-000",
    expected=None,
    reason="performance only: all ranks wait for their own device in each step, and scheduling ahead gains nothing",
)
class ReadsAtOnce(DataParallelStep):
    """Despite asynchronous scheduling, the host reads the results of a forward before it schedules the next step."""

    async def execute(self, execution: Execution) -> None:
        await super().execute(execution)
        while self.in_flight:
            await self.retire()


@register_variant("M-ES-13", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:MODE")
class OneRankEagerly(DataParallelStep):
    """One rank runs eagerly while the others replay a graph.

    The token counts are equal, so NCCL completes. An all-to-all in which the host takes part hangs, because a replay
    runs no host code.
    """

    async def coordinate(self, batch: Batch) -> Execution:
        if is_last(self):
            self.flow = EagerAfterwards(self.config, self.form, self.flow.graphs, self.flow.parts)
        return await super().coordinate(batch)


class EagerAfterwards(Flow017):
    """Decisions in which the second dispatch always selects no graph."""

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return RuntimeMode.NONE, Descriptor(agreed)
