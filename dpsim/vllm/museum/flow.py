"""Variants of the decisions that a data-parallel rank makes alone, and of its drafter: one planted mistake each.

M-ES-4 and M-ES-6 are mutants of the engine's specification, section 10.8, and M-UB-10 is one of section 3.10 (see
docs/keys.md). The other variants apply a correct rule at the wrong point of the step. These are rules of sequence
parallelism, FULL graphs, vetoes of microbatching, padding, and the implicit agreement of a forward (sections 1.5, 1.6,
1.8 and 3.3). No report of such bugs is known.
"""

from __future__ import annotations

from dpsim.contract.registry import register_variant
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.batch import LocalBatch, StepPlan
from dpsim.vllm.data_parallel.drafter import Drafter
from dpsim.vllm.data_parallel.flow import Flow017
from dpsim.vllm.data_parallel.forward import Execution, Microbatch
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.dispatcher import ALL_MODES, Descriptor
from dpsim.vllm.museum.batch import is_last


@register_variant("M-ES-4", protocol="dp_batch", form="source-000", expected="HANG:COLLECTIVE:MISSING_RANK")
class IdlesWithoutDrafter(Drafter):
    """A rank runs only the target model in a dummy step, and not the drafter.

    Busy ranks wait in the drafter's agreement for a rank that has already ended its step.
    """

    async def propose(self, batch: Batch) -> list[Microbatch]:
        return [] if batch.is_dummy else await super().propose(batch)


@register_variant("M-ES-6", protocol="dp_batch", form="source-000", expected="HANG:COLLECTIVE:MISSING_RANK")
class LeavesOutLongSequences(Drafter):
    """A rank with a sequence that is too long for the drafter skips the drafter.

    It should run the drafter on a dummy batch. Vllm pull request 40589 and issue 44185 report this mistake (the museum
    entry dp-drafter-gate).
    """

    async def propose(self, batch: Batch) -> list[Microbatch]:
        return await super().propose(batch) if self.fits(batch) else []


@register_variant(
    "dp-implicit-agreement",
    protocol="dp_batch",
    form="source-000",
    expected=None,
    reason="performance only: each forward makes an implicit agreement on every rank, and no rank pads for a graph",
)
class AgreesInTheForward(Drafter):
    """The drafter starts its forwards without the agreed list of token counts, so each forward agrees on a list itself.

    Releases before 0.14 do this. It works only because every rank does it, in dummy steps too.
    """

    async def agree(self, num_tokens: int) -> tuple[int, ...] | None:
        return None


@register_variant(
    "dp-implicit-on-dummies",
    protocol="dp_batch",
    form="source-000",
    expected="*:COLLECTIVE:*",
)
class DummiesForgetTheirList(Drafter):
    """A dummy step of the drafter agrees on token counts, but starts its forward without them.

    So the forward agrees again, and no other rank joins this second agreement.
    """

    async def propose(self, batch: Batch) -> list[Microbatch]:
        self.forgets = batch.is_dummy
        return await super().propose(batch)

    async def agree(self, num_tokens: int) -> tuple[int, ...] | None:
        counts = await super().agree(num_tokens)
        return None if self.forgets else counts


@register_variant("dp-full-forbidden-late", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:MODE")
class ForbidsFullLate(Flow017):
    """A rank checks only after the agreement on mode FULL whether its batch may run in a FULL graph."""

    def first_dispatch(self, batch: Batch) -> tuple[RuntimeMode, Descriptor]:
        return self.dispatch(batch, self.padded(batch.num_tokens), ALL_MODES)

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        if self.forbids_full(batch):
            return self.dispatch(batch, agreed, ALL_MODES - {RuntimeMode.FULL})
        return super().second_dispatch(batch, agreed, plan)


@register_variant("dp-veto-late", protocol="dp_batch", form="source-000", expected="*:COLLECTIVE:*")
class VetoesLate(DataParallelStep):
    """A rank vetoes microbatching after the agreement, because its requests read blocks that are not written yet.

    So this rank issues one expert collective, and its peers issue two.
    """

    async def coordinate(self, batch: Batch) -> Execution:
        execution = await super().coordinate(batch)
        plan = execution.plan._replace(microbatched=execution.plan.microbatched and not self.stays_whole(batch))
        return execution._replace(plan=plan)

    def stays_whole(self, batch: Batch) -> bool:
        return batch.reads_unwritten


@register_variant("M-UB-10", protocol="dp_batch", form="0.33", expected="*:COLLECTIVE:*")
class IdleRanksStayWhole(VetoesLate):
    """A rank without work does not split its dummy batch, although all ranks agreed to split.

    So this rank issues one expert collective, and its peers issue two. Vllm pull request 50945 discusses this mistake.
    In release 0.17 it has no effect, because no dummy batch is large enough for a split.
    """

    def stays_whole(self, batch: Batch) -> bool:
        return batch.is_dummy


@register_variant("dp-sequence-parallel-late", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class CutsLate(Flow017):
    """A rank pads for sequence parallelism after the agreement, so its count differs from the agreed list of counts."""

    def first_dispatch(self, batch: Batch) -> tuple[RuntimeMode, Descriptor]:
        return self.dispatch(batch, batch.num_tokens, ALL_MODES)

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return super().second_dispatch(batch, self.padded(agreed), plan)


@register_variant("dp-padding-wish", protocol="dp_batch", form="0.14", expected="CRASH:ASSERTIONERROR")
class OneRankWithoutPadding(DataParallelStep):
    """One rank does not want padding: in release 0.14 the others raise, and this one continues into its forward."""

    async def agree(self, local: LocalBatch) -> StepPlan:
        return await super().agree(local._replace(wants_padding=local.wants_padding and not is_last(self)))
