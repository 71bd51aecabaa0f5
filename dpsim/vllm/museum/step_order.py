"""Variants of the order and the inputs of one step: mutants of specification 10.8 that a data-parallel step shows.

M-ES-4 and M-ES-6 are in `dpsim.vllm.museum.flow`, M-ES-9 in `dpsim.vllm.museum.experts`. M-ES-3 and M-ES-15, of the
engine's loop, are in `dpsim.vllm.museum.engine`. Of those with sampled tokens M-ES-8, M-ES-14 and M-ES-16 are in
`dpsim.vllm.museum.steps`, M-ES-10 and M-ES-11 in `dpsim.vllm.museum.remote_calls`.

    protocol: {name: dp_batch, form: source-000, variant: M-ES-1}
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
    """Ranks agree before they take over the scheduler's batch, so on the batch of the step before.

    If a batch is larger than the last one, the forward has no room for all of its tokens.
    """

    old: Batch | None = None

    async def coordinate(self, batch: Batch) -> Execution:
        old, self.old = self.old or batch, batch
        return (await super().coordinate(old))._replace(batch=batch)


@register_variant("M-ES-2", protocol="dp_batch", form="source-000", expected="CRASH:WRONG*")
class PreparesTooEarly(CapturedForward):
    """A rank prepares inputs and slots before the agreement, for its own number of requests.

    Behind them the padded graph finds the slots of an earlier step, and writes into rows that are in use.
    """

    def metadata_of(self, batch: Batch, num_tokens: int, mode: RuntimeMode) -> Metadata:
        return super().metadata_of(batch, batch.num_tokens, RuntimeMode.NONE)


@register_variant("M-ES-5", protocol="dp_batch", form="source-000", expected="CRASH:WRONGCACHE")
class DummiesWrite(CapturedForward):
    """A dummy batch has the slot of the rank's first request, and writes there."""

    def metadata_of(self, batch: Batch, num_tokens: int, mode: RuntimeMode) -> Metadata:
        metadata = super().metadata_of(batch, num_tokens, mode)
        return metadata._replace(slots=(self.index, *metadata.slots[1:])) if batch.is_dummy else metadata


@register_variant("M-ES-7", protocol="dp_batch", form="source-000", expected="MISMATCH:COLLECTIVE:COUNT")
class ReusesTheAgreement(Drafter):
    """The later forwards of the drafter reuse the list of its first one, each rank with its own new count in it.

    They have a token for each request, and the first had all tokens: no two ranks have the same list.
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
    """The host reads the results of a forward before it goes on, although scheduling is asynchronous."""

    async def execute(self, execution: Execution) -> None:
        await super().execute(execution)
        while self.in_flight:
            await self.retire()


@register_variant("M-ES-13", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:MODE")
class OneRankEagerly(DataParallelStep):
    """One rank runs eagerly while the others replay.

    Sizes are equal, and NCCL completes. An all-to-all that waits on the host, which no replay does, hangs.
    """

    async def coordinate(self, batch: Batch) -> Execution:
        if is_last(self):
            self.flow = EagerAfterwards(self.config, self.form, self.flow.graphs, self.flow.parts)
        return await super().coordinate(batch)


class EagerAfterwards(Flow017):
    """The second dispatch finds no graph."""

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return RuntimeMode.NONE, Descriptor(agreed)
