"""Variants of the data-parallel batch agreement: mutants of specification 1.12, 1.10 and 3.10, one changed method each.

A check that has never caught anything proves nothing. Each class below is the healthy protocol with one mistake, in
about ten lines. It names the class of finding that has to catch it. `scenarios/museum/` holds the smallest world that
shows it, and `dpsim museum` explores that world with the mistake and without it. Three of them cost only speed, and
say why. Other files have M-DP-12 to M-DP-14 of the V2 runner (`dpsim.vllm.museum.batch_v2`) and most M-UB, which need
microbatches that run (`dpsim.vllm.museum.overlap_slices`). M-UB-2 is M-DP-5. M-DP-17 and M-DP-18 break I-DP-6 of 1.10:
all ranks agree, every size matches, and tokens are lost.
No report of such a bug is known, and no engine checks for it.

"One rank" is the last of its group.

    protocol: {name: dp_batch, form: source-000, variant: M-DP-2}
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from dpsim.contract.interface import HostArray
from dpsim.contract.registry import register_variant
from dpsim.vllm.config import Microbatching, RuntimeMode
from dpsim.vllm.data_parallel.batch import LocalBatch, Release014, Source000, StepPlan
from dpsim.vllm.data_parallel.flow import Flow017
from dpsim.vllm.data_parallel.microbatch import last_microbatch_empty, slice_sizes, wants_microbatching
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.dispatcher import Descriptor

PERFORMANCE_ONLY = (
    "performance only: the ranks still agree, since the decision is the same function of the same table; "
)


@register_variant("M-DP-1", protocol="dp_batch", form="source-000", expected="HANG:COLLECTIVE:MISSING_RANK")
class SkipsWithoutTokens(DataParallelStep):
    """A rank without tokens skips the step instead of running a dummy batch.

    Its peers wait in the reduction. When it has tokens again, its next call joins the reduction in which they wait.
    So the ranks agree on batches of different steps.
    """

    async def step(self, batch: Batch) -> None:
        if batch.num_tokens:
            await super().step(batch)


@register_variant("M-DP-2", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:PLAN")
class PadsByOwnMode(DataParallelStep):
    """Each rank pads by its own mode, before it knows the smallest mode.

    If modes differ, ranks with a graph pad to the largest count and the others do not. Then expert collectives have
    different sizes.
    """

    def plan(self, table: HostArray, local: LocalBatch) -> StepPlan:
        plan = super().plan(table, local)
        pad = local.mode != RuntimeMode.NONE or plan.microbatched
        return plan._replace(num_tokens=self.form.padded_tokens(table[1].tolist(), pad))


@register_variant("M-DP-3", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class LargestMode(Source000):
    """The ranks agree on the largest mode, not the smallest.

    A rank without a graph for its batch has to run one, and its second dispatch finds none. Without the assertion it
    would capture a graph while it serves. Its peers wait for it in the expert collective.
    """

    def agreed_mode(self, modes: Sequence[int]) -> RuntimeMode:
        return RuntimeMode(max(modes))


@register_variant(
    "M-DP-4",
    protocol="dp_batch",
    form="source-000",
    expected=None,
    reason=PERFORMANCE_ONLY + "I-DP-7 holds too, since the check for empty last microbatches reads the unpadded counts",
)
class WishesOnPaddedCount(Flow017):
    """A rank compares its padded count with the threshold of microbatching, not its real count.

    So it splits steps that are too small for a gain.
    """

    def local_batch(self, batch: Batch, mode: RuntimeMode, descriptor: Descriptor) -> LocalBatch:
        wish = wants_microbatching(descriptor.num_tokens, self.uniform(batch), self.config)
        return super().local_batch(batch, mode, descriptor)._replace(wants_microbatching=wish)


@register_variant("M-DP-5", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:PLAN")
class OwnLastMicrobatch(DataParallelStep):
    """Each rank checks for an empty last microbatch with its own counts, not with the smallest and the largest of all.

    One rank splits its step and another does not: U expert collectives a layer against one.
    """

    def plan(self, table: HostArray, local: LocalBatch) -> StepPlan:
        _, padded, wishes, modes = table.tolist()
        parts, mode = self.config.num_ubatches, self.form.agreed_mode(modes)
        split = set(wishes) == {1} and not last_microbatch_empty(local.num_tokens, local.num_tokens_padded, parts)
        return StepPlan(split, self.form.padded_tokens(padded, mode != RuntimeMode.NONE or split), mode)


@register_variant("M-DP-6", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:PLAN")
class KeepsOwnMode(DataParallelStep):
    """The smallest mode decides about padding only; each rank runs its own (vllm 30173, dp-mode-split).

    Counts are equal, so NCCL completes and no error shows, until a rank captures collectives or synchronises them on
    the host. Only a check of the modes finds it in time.
    """

    def plan(self, table: HostArray, local: LocalBatch) -> StepPlan:
        return super().plan(table, local)._replace(mode=local.mode)


@register_variant("M-DP-7", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:MODE")
class OnlyForbidsFull(Source000):
    """The second dispatch may not choose FULL, but may choose another mode than the agreed one. Release 0.14 does this.

    If one rank has to run eagerly, the others still find a PIECEWISE graph.
    """

    def allowed_modes(self, agreed: RuntimeMode) -> Set[RuntimeMode]:
        return Release014().allowed_modes(agreed)


@register_variant("M-DP-8", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class SendsPaddedCountTwice(Source000):
    """The row of unpadded counts holds padded ones.

    So no rank notices a last microbatch that is all padding (I-DP-7). One rank's slice is empty, and the others wait.
    """

    def column(self, local: LocalBatch) -> tuple[int, ...]:
        return super().column(local._replace(num_tokens=local.num_tokens_padded))


@register_variant("M-DP-9", protocol="dp_batch", form="source-000", expected="HANG:COLLECTIVE:ORDER_ACROSS_GROUPS")
class OneRankOnTheOtherGroup(DataParallelStep):
    """One rank agrees over NCCL where the others agree over gloo, or the other way round.

    Both sides wait in different groups. In production the configuration hash stops such a rank at start (chapter 8).
    """

    def syncs_on_host(self) -> bool:
        return super().syncs_on_host() != is_last(self)


@register_variant(
    "M-DP-10",
    protocol="dp_batch",
    form="source-000",
    expected=None,
    reason=PERFORMANCE_ONLY + "an idle rank takes the others' graphs away (I-DP-12)",
)
class OneTokenDummy(Flow017):
    """A dummy batch has one token, whatever the query length of decodes, and is not marked as a uniform decode.

    So it has no decode graph: all ranks fall back to PIECEWISE or NONE while one idles.
    """

    def dummy_batch(self) -> Batch:
        return Batch((), 1, 1, is_dummy=True)


@register_variant("M-DP-11", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class DummyForgetsAgreement(Flow017):
    """After the agreement a rank dispatches its dummy batch with the batch's own count once more (0.11 did this, pull
    request 25906, dp-dummy-graph-size).

    It runs a smaller graph than its peers. 0.11 hung; the check of the second dispatch (1.6 e) makes it a crash.
    """

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return super().second_dispatch(batch, batch.num_tokens if batch.is_dummy else agreed, plan)


@register_variant("M-DP-15", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class RoomForAdapters(Flow017):
    """The padded count leaves room for a row per LoRA adapter of the rank's own batch.

    Ranks do not agree on adapters, so their counts differ. Without 1.6 e they would hang in the expert collectives.
    """

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return super().second_dispatch(batch, agreed + batch.num_loras, plan)


@register_variant("M-DP-16", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class SwapsRows(DataParallelStep):
    """One rank writes its mode where its wish belongs, and its wish where its mode belongs.

    Mostly all ranks just run slower, in NONE or PIECEWISE. But a rank that wishes to microbatch seems to have a
    PIECEWISE graph. If it has none, the ranks agree to run a graph that it does not have.
    """

    async def gather(self, column: tuple[int, ...]) -> HostArray:
        tokens, padded, wish, mode = column
        return await super().gather((tokens, padded, mode, wish) if is_last(self) else column)


@register_variant("M-DP-17", protocol="dp_batch", form="source-000", expected="CRASH:DROPPEDTOKENS")
class PadsToSmallest(Source000):
    """All ranks pad to the smallest count of their graphs, not to the largest.

    A rank with more tokens runs the first of them only.
    """

    def padded_tokens(self, padded: Sequence[int], pad: bool) -> tuple[int, ...]:
        return (min(padded),) * len(padded) if pad else super().padded_tokens(padded, pad)


@register_variant("M-DP-18", protocol="dp_batch", form="source-000", expected="CRASH:DROPPEDTOKENS")
class TakesNeighboursColumn(DataParallelStep):
    """Each rank takes the next rank's column of the table for its own.

    All ranks are off by one in the same way. If all pad, this has no effect. Otherwise a rank that has more tokens than
    the next rank loses the last ones.
    """

    def plan(self, table: HostArray, local: LocalBatch) -> StepPlan:
        return super().plan(np.roll(table, -1, axis=1), local)


@register_variant(
    "M-UB-1",
    protocol="dp_batch",
    form="source-000",
    expected=None,
    reason=PERFORMANCE_ONLY + "a rank only tells its wish, and if one wish is missing, no rank splits",
)
class WishesAboveThreshold(Flow017):
    """A rank wishes to split only above the threshold, as the documentation of the thresholds says.

    If it has exactly that number of tokens, no rank splits.
    """

    def local_batch(self, batch: Batch, mode: RuntimeMode, descriptor: Descriptor) -> LocalBatch:
        told = super().local_batch(batch, mode, descriptor)
        above = wants_microbatching(told.num_tokens - 1, self.uniform(batch), self.config)
        return told._replace(wants_microbatching=told.wants_microbatching and above)


@register_variant("M-UB-3", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class OneTokenTooLate(Source000):
    """The ranks check for an empty last microbatch with one token more than the smallest rank has.

    If a rank's tokens end where that microbatch begins, its slice is empty, and the others wait.
    """

    def agreed_microbatching(
        self, wishes: Sequence[int], tokens: Sequence[int], padded: Sequence[int], config: Microbatching
    ) -> bool:
        return super().agreed_microbatching(wishes, [count + 1 for count in tokens], padded, config)


@register_variant("M-UB-4", protocol="dp_batch", form="source-000", expected="MISMATCH:COLLECTIVE:COUNT")
class CutsRealTokens(DataParallelStep):
    """A rank cuts its own tokens into equal parts, not the agreed count.

    Ranks with different counts bring different sizes into the experts' collectives.
    """

    def part_sizes(self, num_tokens: int, batch: Batch) -> tuple[int, ...]:
        *parts, _ = slice_sizes(batch.num_tokens, self.config.num_ubatches)
        return (*parts, num_tokens - sum(parts))


def is_last(step: DataParallelStep) -> bool:
    """Whether this is the last rank of its data-parallel group."""
    return step.host.index == step.host.size - 1
