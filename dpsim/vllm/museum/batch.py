"""Variants of the data-parallel batch agreement: each class is the healthy program with one mistake in one method.

The mutants are those of sections 1.12 and 3.10 of the engine's specification. M-UB-2 is another name of M-DP-5. M-DP-17
and M-DP-18 break invariant I-DP-6: all ranks agree and all sizes match, but ranks lose tokens. No report of such a bug
is known, and no engine checks for it.
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

    Its peers wait in the all-reduce of the agreement. When the rank has tokens again, it joins the all-reduce in which
    the peers still wait. So the ranks agree on batches of different steps.
    """

    async def step(self, batch: Batch) -> None:
        if batch.num_tokens:
            await super().step(batch)


@register_variant("M-DP-2", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:PLAN")
class PadsByOwnMode(DataParallelStep):
    """Each rank pads by its own graph mode, before it knows the smallest mode of the group.

    If the modes differ, ranks with a graph pad to the largest token count, and ranks without a graph do not pad. Then
    the ranks bring different sizes to the collectives of the experts.
    """

    def plan(self, table: HostArray, local: LocalBatch) -> StepPlan:
        plan = super().plan(table, local)
        pad = local.mode != RuntimeMode.NONE or plan.microbatched
        return plan._replace(num_tokens=self.form.padded_tokens(table[1].tolist(), pad))


@register_variant("M-DP-3", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class LargestMode(Source000):
    """The ranks agree on the largest graph mode of the group, not on the smallest.

    A rank that has no graph for its batch must then run one, and its second dispatch finds none. The rank raises an
    assertion. Without this assertion it would capture a graph while it serves, and its peers would wait for it in the
    collective of the experts.
    """

    def agreed_mode(self, modes: Sequence[int]) -> RuntimeMode:
        return RuntimeMode(max(modes))


@register_variant(
    "M-DP-4",
    protocol="dp_batch",
    form="source-000",
    expected=None,
    reason=PERFORMANCE_ONLY
    + "invariant I-DP-7 holds too, since the check for an empty last microbatch reads the unpadded counts",
)
class WishesOnPaddedCount(Flow017):
    """A rank compares its padded token count with the threshold of microbatching, not its unpadded count.

    So the ranks split steps that are too small for a gain.
    """

    def local_batch(self, batch: Batch, mode: RuntimeMode, descriptor: Descriptor) -> LocalBatch:
        wish = wants_microbatching(descriptor.num_tokens, self.uniform(batch), self.config)
        return super().local_batch(batch, mode, descriptor)._replace(wants_microbatching=wish)


@register_variant("M-DP-5", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:PLAN")
class OwnLastMicrobatch(DataParallelStep):
    """Each rank checks for an empty last microbatch with its own counts, not with the counts of all ranks.

    The correct check reads the smallest unpadded and the largest padded count. With this mistake one rank splits its
    step and another rank does not. The first rank issues one expert collective per microbatch and layer, the second one
    per layer.
    """

    def plan(self, table: HostArray, local: LocalBatch) -> StepPlan:
        _, padded, wishes, modes = table.tolist()
        parts, mode = self.config.num_ubatches, self.form.agreed_mode(modes)
        split = set(wishes) == {1} and not last_microbatch_empty(local.num_tokens, local.num_tokens_padded, parts)
        return StepPlan(split, self.form.padded_tokens(padded, mode != RuntimeMode.NONE or split), mode)


@register_variant("M-DP-6", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:PLAN")
class KeepsOwnMode(DataParallelStep):
    """The ranks use the smallest mode only for padding, and each rank runs its own mode (vllm 30173, dp-mode-split).

    The token counts are equal, so NCCL completes and no rank reports an error. A hang follows only if one rank captures
    a collective that another rank synchronizes on the host. Only a check that compares the modes finds the mistake
    early.
    """

    def plan(self, table: HostArray, local: LocalBatch) -> StepPlan:
        return super().plan(table, local)._replace(mode=local.mode)


@register_variant("M-DP-7", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:MODE")
class OnlyForbidsFull(Source000):
    """The second dispatch excludes only mode FULL, and may select another mode than the agreed one (as in release
    0.14).

    If one rank has to run eagerly, the ranks agree on NONE, but the other ranks still find a PIECEWISE graph and run
    it.
    """

    def allowed_modes(self, agreed: RuntimeMode) -> Set[RuntimeMode]:
        return Release014().allowed_modes(agreed)


@register_variant("M-DP-8", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class SendsPaddedCountTwice(Source000):
    """A rank writes its padded token count into the table row of unpadded counts.

    So no rank notices a last microbatch that contains only padding (invariant I-DP-7). The slice of one rank is empty,
    and this rank raises. The other ranks wait for it.
    """

    def column(self, local: LocalBatch) -> tuple[int, ...]:
        return super().column(local._replace(num_tokens=local.num_tokens_padded))


@register_variant("M-DP-9", protocol="dp_batch", form="source-000", expected="HANG:COLLECTIVE:ORDER_ACROSS_GROUPS")
class OneRankOnTheOtherGroup(DataParallelStep):
    """One rank agrees over NCCL while the others agree over gloo, or the other way round.

    Each side waits in a group that the other side never joins. In production the engine compares a hash of the
    configuration at start and refuses such a rank (specification chapter 8).
    """

    def syncs_on_host(self) -> bool:
        return super().syncs_on_host() != is_last(self)


@register_variant(
    "M-DP-10",
    protocol="dp_batch",
    form="source-000",
    expected=None,
    reason=PERFORMANCE_ONLY + "an idle rank lowers the graph mode of the others (invariant I-DP-12)",
)
class OneTokenDummy(Flow017):
    """A dummy batch always has one token, and the rank does not mark it as a uniform decode.

    The dispatcher has a FULL graph for uniform decodes only, so the dummy batch gets a lower mode. While one rank
    idles, all ranks therefore fall back to mode PIECEWISE or NONE.
    """

    def dummy_batch(self) -> Batch:
        return Batch((), 1, 1, is_dummy=True)


@register_variant("M-DP-11", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class DummyForgetsAgreement(Flow017):
    """After the agreement, a rank dispatches its dummy batch with its own count again (dp-dummy-graph-size).

    Release 0.11 did this (vllm pull request 25906). The idle rank ran a smaller graph than its peers, and the group
    hung. Here the rank checks the result of its second dispatch (specification 1.6 e), so it raises instead.
    """

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return super().second_dispatch(batch, batch.num_tokens if batch.is_dummy else agreed, plan)


@register_variant("M-DP-15", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class RoomForAdapters(Flow017):
    """A rank adds one row for each LoRA adapter in its batch to the agreed token count.

    Ranks do not agree on adapters, so their counts differ. The assertion after the second dispatch (specification 1.6
    e) catches this. Without it the ranks would hang in the collectives of the experts.
    """

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return super().second_dispatch(batch, agreed + batch.num_loras, plan)


@register_variant("M-DP-16", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class SwapsRows(DataParallelStep):
    """One rank swaps two rows of its column in the table: its graph mode and its wish to split.

    In most steps all ranks only run slower, in mode NONE or PIECEWISE. But if this rank wishes to split, the others
    read that it has a PIECEWISE graph. If it has none, the ranks agree on a graph that the rank cannot run.
    """

    async def gather(self, column: tuple[int, ...]) -> HostArray:
        tokens, padded, wish, mode = column
        return await super().gather((tokens, padded, mode, wish) if is_last(self) else column)


@register_variant("M-DP-17", protocol="dp_batch", form="source-000", expected="CRASH:DROPPEDTOKENS")
class PadsToSmallest(Source000):
    """All ranks pad to the smallest graph size of the group, not to the largest.

    A rank with more tokens than this size runs only its first tokens, and loses the others.
    """

    def padded_tokens(self, padded: Sequence[int], pad: bool) -> tuple[int, ...]:
        return (min(padded),) * len(padded) if pad else super().padded_tokens(padded, pad)


@register_variant("M-DP-18", protocol="dp_batch", form="source-000", expected="CRASH:DROPPEDTOKENS")
class TakesNeighboursColumn(DataParallelStep):
    """Each rank reads the next rank's column of the reduced table as its own.

    All ranks read one column too far in the same way. If all ranks pad to one count, this has no effect. Otherwise a
    rank that has more tokens than the next rank loses its last tokens.
    """

    def plan(self, table: HostArray, local: LocalBatch) -> StepPlan:
        return super().plan(np.roll(table, -1, axis=1), local)


@register_variant(
    "M-UB-1",
    protocol="dp_batch",
    form="source-000",
    expected=None,
    reason=PERFORMANCE_ONLY + "a rank only sends its wish to split, and no rank splits unless all wish to",
)
class WishesAboveThreshold(Flow017):
    """A rank wishes to split its step only above the threshold, as the engine's documentation of the thresholds says.

    The engine's code also splits at the threshold. With this mistake, a rank with exactly that number of tokens keeps
    all ranks from splitting.
    """

    def local_batch(self, batch: Batch, mode: RuntimeMode, descriptor: Descriptor) -> LocalBatch:
        sent_batch = super().local_batch(batch, mode, descriptor)
        above = wants_microbatching(sent_batch.num_tokens - 1, self.uniform(batch), self.config)
        return sent_batch._replace(wants_microbatching=sent_batch.wants_microbatching and above)


@register_variant("M-UB-3", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class OneTokenTooLate(Source000):
    """The ranks add one token to the smallest count before they check for an empty last microbatch.

    So they miss a rank whose tokens fill exactly all microbatches before the last. Its last slice is empty, and it
    raises. The other ranks wait for it.
    """

    def agreed_microbatching(
        self, wishes: Sequence[int], tokens: Sequence[int], padded: Sequence[int], config: Microbatching
    ) -> bool:
        return super().agreed_microbatching(wishes, [count + 1 for count in tokens], padded, config)


@register_variant("M-UB-4", protocol="dp_batch", form="source-000", expected="MISMATCH:COLLECTIVE:COUNT")
class CutsRealTokens(DataParallelStep):
    """A rank cuts its own tokens into equal parts, instead of the agreed token count.

    Ranks with different counts then bring different sizes to the collectives of the experts.
    """

    def part_sizes(self, num_tokens: int, batch: Batch) -> tuple[int, ...]:
        *parts, _ = slice_sizes(batch.num_tokens, self.config.num_ubatches)
        return (*parts, num_tokens - sum(parts))


def is_last(step: DataParallelStep) -> bool:
    """Returns whether this rank is the last one of its data-parallel group."""
    return step.host.index == step.host.size - 1
