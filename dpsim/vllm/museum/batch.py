"""Variants of the data-parallel batch agreement: mutants of specification 1.12, 1.10 and 3.10, one changed method each.

A check that has never caught anything proves nothing. Each class below is the healthy protocol with one thing done
wrong, in about ten lines, and says which class of finding has to catch it; `scenarios/museum/` holds the smallest world
that shows it, and `dpsim museum` explores that with and without it. Three of them harm nothing but speed and say why.
Not here: M-DP-12 to M-DP-14, which are of the V2 runner (`dpsim.vllm.museum.batch_v2`), and most M-UB, which are of
microbatches that are run (`dpsim.vllm.museum.overlap_slices`). M-UB-2 is M-DP-5. M-DP-17 and M-DP-18 break I-DP-6 of
1.10: all ranks agree and every size matches, and tokens are lost. No report of such a bug is known, and no engine looks
for one.

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

    Its peers wait in the reduction. If it has tokens again later, that call pairs up with the one that the peers wait
    in, and batches of different steps are agreed with one another.
    """

    async def step(self, batch: Batch) -> None:
        if batch.num_tokens:
            await super().step(batch)


@register_variant("M-DP-2", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:PLAN")
class PadsByOwnMode(DataParallelStep):
    """Padding is decided from the rank's own mode, before the smallest mode is known.

    Where modes differ, ranks with a graph pad to the largest count and the others do not: expert collectives of
    different sizes.
    """

    def plan(self, table: HostArray, local: LocalBatch) -> StepPlan:
        plan = super().plan(table, local)
        pad = local.mode != RuntimeMode.NONE or plan.microbatched
        return plan._replace(num_tokens=self.form.padded_tokens(table[1].tolist(), pad))


@register_variant("M-DP-3", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class LargestMode(Source000):
    """The largest mode wins, not the smallest.

    A rank without a graph for its batch is told to run one: its second dispatch finds nothing (a capture in the middle
    of serving, if nobody asserted), and its peers wait for it in the expert collective.
    """

    def agreed_mode(self, modes: Sequence[int]) -> RuntimeMode:
        return RuntimeMode(max(modes))


@register_variant(
    "M-DP-4",
    protocol="dp_batch",
    form="source-000",
    expected=None,
    reason=PERFORMANCE_ONLY + "I-DP-7 holds too, since empty last microbatches are looked for in the unpadded counts",
)
class WishesOnPaddedCount(Flow017):
    """The threshold of microbatching is held against the padded count.

    Steps are split that are too small to be worth it.
    """

    def local_batch(self, batch: Batch, mode: RuntimeMode, descriptor: Descriptor) -> LocalBatch:
        wish = wants_microbatching(descriptor.num_tokens, self.uniform(batch), self.config)
        return super().local_batch(batch, mode, descriptor)._replace(wants_microbatching=wish)


@register_variant("M-DP-5", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:PLAN")
class OwnLastMicrobatch(DataParallelStep):
    """Each rank asks about an empty last microbatch with its own counts, not with the smallest and the largest of all.

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

    Counts are equal, so NCCL runs through and nothing is seen, until collectives are captured or synchronised on the
    host: only a check of the modes themselves finds it in time.
    """

    def plan(self, table: HostArray, local: LocalBatch) -> StepPlan:
        return super().plan(table, local)._replace(mode=local.mode)


@register_variant("M-DP-7", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:MODE")
class OnlyForbidsFull(Source000):
    """The second dispatch may not choose FULL, but is not held to the agreed mode. Release 0.14 does this.

    With one rank forced to run eagerly the others still find a PIECEWISE graph.
    """

    def allowed_modes(self, agreed: RuntimeMode) -> Set[RuntimeMode]:
        return Release014().allowed_modes(agreed)


@register_variant("M-DP-8", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class SendsPaddedCountTwice(Source000):
    """The row of unpadded counts holds padded ones.

    A last microbatch of padding only goes unnoticed (I-DP-7): on that rank the slice is empty, and the others wait.
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
    """A dummy batch has one token, whatever the query length of decodes, and nobody says that it is a uniform decode.

    So it has no decode graph: everybody falls back to PIECEWISE or NONE while a rank idles.
    """

    def dummy_batch(self) -> Batch:
        return Batch((), 1, 1, is_dummy=True)


@register_variant("M-DP-11", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class DummyForgetsAgreement(Flow017):
    """After the agreement a dummy batch is dispatched with its own count once more (0.11 did this, pull request 25906,
    dp-dummy-graph-size).

    It runs a smaller graph than its peers. 0.11 hung; the check of the second dispatch (1.6 e) makes it a crash.
    """

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return super().second_dispatch(batch, batch.num_tokens if batch.is_dummy else agreed, plan)


@register_variant("M-DP-15", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class RoomForAdapters(Flow017):
    """The padded count leaves room for a row per LoRA adapter of the rank's own batch.

    Ranks do not agree on adapters, so their counts differ: a hang in the expert collectives, were it not for 1.6 e.
    """

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return super().second_dispatch(batch, agreed + batch.num_loras, plan)


@register_variant("M-DP-16", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class SwapsRows(DataParallelStep):
    """One rank writes its mode where its wish belongs, and its wish where its mode belongs.

    Mostly everybody just runs slower, in NONE or PIECEWISE. But a rank that wishes to microbatch seems to have a
    PIECEWISE graph: where it has none, all are told to run what is not there.
    """

    async def gather(self, column: tuple[int, ...]) -> HostArray:
        tokens, padded, wish, mode = column
        return await super().gather((tokens, padded, mode, wish) if is_last(self) else column)


@register_variant("M-DP-17", protocol="dp_batch", form="source-000", expected="CRASH:DROPPEDTOKENS")
class PadsToSmallest(Source000):
    """All ranks are padded to the smallest count of their graphs, not to the largest.

    A rank with more tokens runs the first of them only.
    """

    def padded_tokens(self, padded: Sequence[int], pad: bool) -> tuple[int, ...]:
        return (min(padded),) * len(padded) if pad else super().padded_tokens(padded, pad)


@register_variant("M-DP-18", protocol="dp_batch", form="source-000", expected="CRASH:DROPPEDTOKENS")
class TakesNeighboursColumn(DataParallelStep):
    """Each rank takes the next rank's column of the table for its own.

    All are off by one alike. Where everybody is padded nothing comes of it, else whoever has more tokens than the next
    rank loses the last.
    """

    def plan(self, table: HostArray, local: LocalBatch) -> StepPlan:
        return super().plan(np.roll(table, -1, axis=1), local)


@register_variant(
    "M-UB-1",
    protocol="dp_batch",
    form="source-000",
    expected=None,
    reason=PERFORMANCE_ONLY + "a wish is only told, and one that is missing keeps everybody from splitting",
)
class WishesAboveThreshold(Flow017):
    """A rank wishes to split from one token more than the threshold on, as the documentation of the thresholds says.

    Where it has exactly as many, nobody splits.
    """

    def local_batch(self, batch: Batch, mode: RuntimeMode, descriptor: Descriptor) -> LocalBatch:
        told = super().local_batch(batch, mode, descriptor)
        above = wants_microbatching(told.num_tokens - 1, self.uniform(batch), self.config)
        return told._replace(wants_microbatching=told.wants_microbatching and above)


@register_variant("M-UB-3", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class OneTokenTooLate(Source000):
    """Whether the last microbatch is empty is asked of one token more than the smallest rank has.

    A rank whose tokens end where that microbatch begins has none for it: its slice is empty, and the others wait.
    """

    def agreed_microbatching(
        self, wishes: Sequence[int], tokens: Sequence[int], padded: Sequence[int], config: Microbatching
    ) -> bool:
        return super().agreed_microbatching(wishes, [count + 1 for count in tokens], padded, config)


@register_variant("M-UB-4", protocol="dp_batch", form="source-000", expected="MISMATCH:COLLECTIVE:COUNT")
class CutsRealTokens(DataParallelStep):
    """Equal parts are made of the tokens that a rank has, not of those that were agreed on.

    Ranks that have different counts bring different sizes into the experts' collectives.
    """

    def part_sizes(self, num_tokens: int, batch: Batch) -> tuple[int, ...]:
        *parts, _ = slice_sizes(batch.num_tokens, self.config.num_ubatches)
        return (*parts, num_tokens - sum(parts))


def is_last(step: DataParallelStep) -> bool:
    """Whether this is the last rank of its data-parallel group."""
    return step.host.index == step.host.size - 1
