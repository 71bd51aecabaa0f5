"""Variants of a data-parallel rank's own decisions, and of its drafter.

`dpsim.vllm.museum.batch` explains more. M-ES-4 and M-ES-6 are mutants of specification 10.8, M-UB-10 of 3.10. The
others move a rule of 1.5, 1.6, 1.8 or 3.3 to another place. These are the rules of sequence parallelism, FULL graphs,
vetoes of microbatching, wishes for padding, and the implicit agreement of a forward. No report of such bugs is known.

    protocol: {name: dp_batch, form: source-000, variant: M-ES-4}
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
    """A dummy step runs the target model only.

    Busy ranks wait in the drafter's agreement for a rank that has ended the step.
    """

    async def propose(self, batch: Batch) -> list[Microbatch]:
        return [] if batch.is_dummy else await super().propose(batch)


@register_variant("M-ES-6", protocol="dp_batch", form="source-000", expected="HANG:COLLECTIVE:MISSING_RANK")
class LeavesOutLongSequences(Drafter):
    """A rank with a sequence that is too long for the drafter does not run it, although it should run a dummy.

    Pull request 40589 and issue 44185 of vllm: dp-drafter-gate.
    """

    async def propose(self, batch: Batch) -> list[Microbatch]:
        return await super().propose(batch) if self.fits(batch) else []


@register_variant(
    "dp-implicit-agreement",
    protocol="dp_batch",
    form="source-000",
    expected=None,
    reason="performance only: each forward has an implicit agreement on every rank, and no rank pads for a graph",
)
class AgreesInTheForward(Drafter):
    """The drafter opens its forwards without a list of counts, and each agrees on one by itself.

    Releases before 0.14 do this. It holds only because every rank does so, also in dummy steps.
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
    """A dummy step of the drafter agrees, and then opens its forward without the list: it agrees once more.

    Its code has no call for that, and no other rank joins.
    """

    async def propose(self, batch: Batch) -> list[Microbatch]:
        self.forgets = batch.is_dummy
        return await super().propose(batch)

    async def agree(self, num_tokens: int) -> tuple[int, ...] | None:
        counts = await super().agree(num_tokens)
        return None if self.forgets else counts


@register_variant("dp-full-forbidden-late", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:MODE")
class ForbidsFullLate(Flow017):
    """A rank checks what may not run in a FULL graph in the second dispatch only, after all agreed on FULL."""

    def first_dispatch(self, batch: Batch) -> tuple[RuntimeMode, Descriptor]:
        return self.dispatch(batch, self.padded(batch.num_tokens), ALL_MODES)

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        if self.forbids_full(batch):
            return self.dispatch(batch, agreed, ALL_MODES - {RuntimeMode.FULL})
        return super().second_dispatch(batch, agreed, plan)


@register_variant("dp-veto-late", protocol="dp_batch", form="source-000", expected="*:COLLECTIVE:*")
class VetoesLate(DataParallelStep):
    """A rank whose requests read blocks that another one still writes does not split its step, despite the agreement.

    It issues one expert collective, and its peers two.
    """

    async def coordinate(self, batch: Batch) -> Execution:
        execution = await super().coordinate(batch)
        plan = execution.plan._replace(microbatched=execution.plan.microbatched and not self.stays_whole(batch))
        return execution._replace(plan=plan)

    def stays_whole(self, batch: Batch) -> bool:
        return batch.reads_unwritten


@register_variant("M-UB-10", protocol="dp_batch", form="0.33", expected="*:COLLECTIVE:*")
class IdleRanksStayWhole(VetoesLate):
    """A rank without work does not split its dummy batch, although all agreed to. Pull request 50945 discusses it.

    Again it issues one expert collective, and its peers two. In 0.17 no dummy batch is large enough for a split.
    """

    def stays_whole(self, batch: Batch) -> bool:
        return batch.is_dummy


@register_variant("dp-sequence-parallel-late", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class CutsLate(Flow017):
    """A rank pads for sequence parallelism after the agreement: the agreed list is no longer true."""

    def first_dispatch(self, batch: Batch) -> tuple[RuntimeMode, Descriptor]:
        return self.dispatch(batch, batch.num_tokens, ALL_MODES)

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return super().second_dispatch(batch, self.padded(agreed), plan)


@register_variant("dp-padding-wish", protocol="dp_batch", form="0.14", expected="CRASH:ASSERTIONERROR")
class OneRankWithoutPadding(DataParallelStep):
    """One rank does not want padding. In 0.14 the others raise, and this one goes on into its forward."""

    async def agree(self, local: LocalBatch) -> StepPlan:
        return await super().agree(local._replace(wants_padding=local.wants_padding and not is_last(self)))
