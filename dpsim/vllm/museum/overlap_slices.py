"""Variants of the cut of a batch into microbatches: mutants of the engine's specification, and bugs of engines.

The mutants are those of section 3.10 (keys such as M-UB-7; see docs/keys.md). Variants of the decision whether ranks
split a batch are in `dpsim.vllm.museum.batch` and `dpsim.vllm.museum.flow`.
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
    """The error of a tensor library if code evaluates a tensor of several numbers as True or False."""


@mutant("M-UB-5", "CRASH:ASSERTIONERROR")
class DoesNotStretch(Forward033):
    """The slice of the last microbatch ends with the last real token, without the padding rows behind it."""

    class Cut(Slicing033):
        def stretched(
            self, own: list[Slice], num_reqs: int, num_tokens_padded: int, num_reqs_padded: int
        ) -> list[Slice]:
            return own

    slicing = Cut


@mutant("M-UB-6", "CRASH:ASSERTIONERROR")
class SidesSwapped(Forward033):
    """A request that ends at the cut also appears in the second slice, and one that begins there in the first."""

    class Cut(Slicing033):
        def first_request(self, starts: Sequence[int], token: int) -> int:
            return max(bisect_left(starts, token) - 1, 0)

        def stop_request(self, starts: Sequence[int], token: int) -> int:
            return min(bisect_right(starts, token), len(starts) - 1)

    slicing = Cut


@mutant("M-UB-7", "CRASH:WRONG*")
class ShortensInPlace(Forward033):
    """A rank shortens a request's length in the shared array, so the next microbatch reads the shortened length.

    The correct cut shortens a copy that only one microbatch reads.
    """

    class Cut(MetadataCut):
        def own_lengths(self, whole: AttentionMetadata, one: Slice) -> HostArray:
            return whole.seq_lens[one.requests.start : one.requests.stop]

    metadata_cut = Cut


@mutant("M-UB-8", "CRASH:WRONG*")
class ForgetsEarlier(Forward033):
    """A rank subtracts the tokens of earlier microbatches from the length of a request.

    The attention of this microbatch still reads those tokens, so the length is too small.
    """

    class Cut(MetadataCut):
        def own_lengths(self, whole: AttentionMetadata, one: Slice) -> HostArray:
            lengths = super().own_lengths(whole, one)
            lengths[0] -= one.tokens.start - int(whole.query_start_loc[one.requests.start])
            return lengths

    metadata_cut = Cut


@mutant("M-UB-9", "CRASH:WRONG*")
class OwnSlicesInGraph(Forward033):
    """A graph receives metadata of the unpadded slices, with fewer requests than at its capture."""

    class Cut(Slicing033):
        class Own(Slices):
            def for_attention(self, mode: RuntimeMode) -> list[Slice]:
                return self.own

        def slices(self, *args: object) -> Slices:
            return self.Own(*super().slices(*args))  # type: ignore[arg-type]

    slicing = Cut


@mutant("M-UB-11", "CRASH:KERNELERROR")
class CountsOfBatch(Forward033):
    """A microbatch receives the token counts of the whole batch: its all-to-all expects twice the existing rows."""

    def counts(self, padded: Slice, context: ForwardContext) -> tuple[int, ...]:
        return context.counts


@mutant("dbo-shared-metadata", "CRASH:VALUEERROR")
class SharesMetadata(Forward033):
    """All microbatches share one object with token counts, those of the first microbatch.

    Source page 001 (`gpu_ubatch_wrapper.py`) does this, and pads to even totals. With an odd total, the last microbatch
    has one token more than its all-to-all sends.
    """

    def counts(self, padded: Slice, context: ForwardContext) -> tuple[int, ...]:
        first = context.counts[self.index] // self.config.num_ubatches
        return (first,) * len(context.counts)


@mutant("dbo-embeds-truth", "CRASH:AMBIGUOUSTRUTH")
class AsksForTruth(Forward033):
    """A step tests whether embeddings exist by their truth value, which a tensor of several numbers does not have.

    Source page 001 and releases up to 0.17 do this (specification 4.12).
    """

    class Cut(InputsCut):
        def embeds(self, inputs_embeds: Any | None, rows: slice) -> Any | None:
            if inputs_embeds is not None and inputs_embeds.shape[0] > 1:
                raise AmbiguousTruth("the truth value of a tensor of several numbers is ambiguous")
            return super().embeds(inputs_embeds, rows)

    inputs_cut = Cut


@mutant("dbo-slice-metadata", "CRASH:WRONG*")
class CacheWithoutNumber(Forward033):
    """The metadata cache has a key without the microbatch number, so the second microbatch reads metadata of the first.

    Vllm pull request 48659 reports this. The other mistakes of this museum entry are M-UB-8 (pull request 56031) and
    metadata that `MetadataCut` refuses (29933).
    """

    class Cut(MetadataCut):
        def cut(self, whole: AttentionMetadata, one: Slice) -> AttentionMetadata:
            first = Slice(range(0, len(one.requests)), range(0, len(one.tokens)))
            return super().cut(whole, first)

    metadata_cut = Cut


@mutant("dbo-dummy-optout", "DISAGREEMENT:PLAN")
class DummyOptsOut(OverlapStep):
    """Each rank deduces the split wishes of its peers from their token counts, and a dummy batch never splits.

    So the peers of an idle rank split the step, and the idle rank does not. The review of vllm pull request 50945 found
    this mistake.
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
