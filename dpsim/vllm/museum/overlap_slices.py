"""Variants of how a rank cuts a batch into microbatches, run: mutants of specification 3.10, and bugs of engines.

Variants of the decision to cut a batch are in `dpsim.vllm.museum.batch` and `dpsim.vllm.museum.flow`.

    protocol: {name: dbo, form: "0.33", variant: M-UB-7}       config: {enable_dbo: true}
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsim.contract.interface import HostArray
from dpsim.vllm.capture.wrapper import ForwardContext
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.batch import LocalBatch, StepPlan
from dpsim.vllm.data_parallel.microbatch import Slice, Slices, Slicing033
from dpsim.vllm.data_parallel.microbatch_inputs import AttentionMetadata, InputsCut, MetadataCut
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.museum.overlap import mutant
from dpsim.vllm.overlap.forms import Forward033, OverlapStep


class AmbiguousTruth(RuntimeError):
    """The error of a tensor library if a program asks for the truth value of several numbers."""


@mutant("M-UB-5", "CRASH:ASSERTIONERROR")
class DoesNotStretch(Forward033):
    """The last microbatch ends with the last real token."""

    class Cut(Slicing033):
        def stretched(
            self, own: list[Slice], num_reqs: int, num_tokens_padded: int, num_reqs_padded: int
        ) -> list[Slice]:
            return own

    slicing = Cut


@mutant("M-UB-6", "CRASH:ASSERTIONERROR")
class SidesSwapped(Forward033):
    """A request that ends at a boundary goes on behind it, and one that begins there begins before it."""

    class Cut(Slicing033):
        def first_request(self, starts: Sequence[int], token: int) -> int:
            return max(bisect_left(starts, token) - 1, 0)

        def stop_request(self, starts: Sequence[int], token: int) -> int:
            return min(bisect_right(starts, token), len(starts) - 1)

    slicing = Cut


@mutant("M-UB-7", "CRASH:WRONG*")
class ShortensInPlace(Forward033):
    """A cut makes a request shorter for all microbatches: the next one sees the length meant for this one."""

    class Cut(MetadataCut):
        def own_lengths(self, whole: AttentionMetadata, one: Slice) -> HostArray:
            return whole.seq_lens[one.requests.start : one.requests.stop]

    metadata_cut = Cut


@mutant("M-UB-8", "CRASH:WRONG*")
class ForgetsEarlier(Forward033):
    """The cut also subtracts tokens of earlier microbatches from a request's length."""

    class Cut(MetadataCut):
        def own_lengths(self, whole: AttentionMetadata, one: Slice) -> HostArray:
            lengths = super().own_lengths(whole, one)
            lengths[0] -= one.tokens.start - int(whole.query_start_loc[one.requests.start])
            return lengths

    metadata_cut = Cut


@mutant("M-UB-9", "CRASH:WRONG*")
class OwnSlicesInGraph(Forward033):
    """A graph gets metadata cut by the unpadded slices, with fewer requests than it was captured for."""

    class Cut(Slicing033):
        class Own(Slices):
            def for_attention(self, mode: RuntimeMode) -> list[Slice]:
                return self.own

        def slices(self, *args: object) -> Slices:
            return self.Own(*super().slices(*args))  # type: ignore[arg-type]

    slicing = Cut


@mutant("M-UB-11", "CRASH:KERNELERROR")
class CountsOfBatch(Forward033):
    """A microbatch gets the counts of the whole batch: its all-to-all has twice the rows that exist."""

    def counts(self, padded: Slice, context: ForwardContext) -> tuple[int, ...]:
        return context.counts


@mutant("dbo-shared-metadata", "CRASH:VALUEERROR")
class SharesMetadata(Forward033):
    """All microbatches share one object of counts, that of the first (source page 001, which pads to even totals).

    With an odd total the last microbatch has a token more than its all-to-all sends.
    """

    def counts(self, padded: Slice, context: ForwardContext) -> tuple[int, ...]:
        first = context.counts[self.index] // self.config.num_ubatches
        return (first,) * len(context.counts)


@mutant("dbo-embeds-truth", "CRASH:AMBIGUOUSTRUTH")
class AsksForTruth(Forward033):
    """A step checks for embeddings by their truth value, which a tensor of several numbers does not have.

    Source page 001 and releases up to 0.17 (4.12).
    """

    class Cut(InputsCut):
        def embeds(self, inputs_embeds: Any | None, rows: slice) -> Any | None:
            if inputs_embeds is not None and inputs_embeds.shape[0] > 1:
                raise AmbiguousTruth("the truth value of a tensor of several numbers is ambiguous")
            return super().embeds(inputs_embeds, rows)

    inputs_cut = Cut


@mutant("dbo-slice-metadata", "CRASH:WRONG*")
class CacheWithoutNumber(Forward033):
    """The cache of metadata has a key without the number of the microbatch: the second gets that of the first.

    Vllm pull request 48659; the others of this entry are M-UB-8 (56031) and the refusals of `MetadataCut` (29933).
    """

    class Cut(MetadataCut):
        def cut(self, whole: AttentionMetadata, one: Slice) -> AttentionMetadata:
            first = Slice(range(0, len(one.requests)), range(0, len(one.tokens)))
            return super().cut(whole, first)

    metadata_cut = Cut


@mutant("dbo-dummy-optout", "DISAGREEMENT:PLAN")
class DummyOptsOut(OverlapStep):
    """Ranks deduce the wishes of others from their tokens, and one with a dummy batch does not split.

    Found in the review of vllm pull request 50945.
    """

    idle = False

    async def step(self, batch: Batch) -> None:
        self.idle = not batch.num_tokens
        await super().step(batch)

    def plan(self, table: HostArray, local: LocalBatch) -> StepPlan:
        deduced = table.copy()
        deduced[2] = np.where(table[0] >= self.config.dbo_decode_token_threshold, 1, 0)
        plan = super().plan(deduced, local)
        return plan._replace(microbatched=plan.microbatched and not self.idle)
