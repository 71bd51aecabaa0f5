"""Tests of the inputs of microbatches: attention metadata, and inputs of the model.

The tests compare the metadata with vLLM's stored answers. They also check the position of each token, and invariants
I-UB-9 and I-UB-10.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import HostArray
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.microbatch import Slice, Slices, Slicing, Slicing033, SlicingV2
from dpsim.vllm.data_parallel.microbatch_inputs import (
    AttentionMetadata,
    InputsCut,
    MetadataCut,
    MetadataCutV2,
    ModelInputs,
    attention_metadata,
)
from dpsim_engine import comparison
from dpsim_engine.comparison import Difference
from dpsim_engine.slices import METADATA, Split, metadata_row
from dpsim_engine.stored import answers
from tests.properties import breaks, examples, holds
from tests.vllm.data_parallel.split_batches import splits

# ---- faulty twins: cuts with one mistake


class ShortensInPlace(MetadataCut):
    """Mutant M-UB-7: the cut shortens a length in the batch's own metadata, so the next microbatch reads the short
    length.
    """

    def own_lengths(self, whole: AttentionMetadata, one: Slice) -> HostArray:
        return whole.seq_lens[one.requests.start : one.requests.stop]


class ForgetsEarlierTokens(MetadataCut):
    """Mutant M-UB-8: the cut also subtracts tokens of earlier microbatches."""

    def own_lengths(self, whole: AttentionMetadata, one: Slice) -> HostArray:
        lengths = super().own_lengths(whole, one)
        lengths[0] -= one.tokens.start - whole.query_start_loc[one.requests.start]
        return lengths


class WholeLengths(MetadataCut):
    """The cut does not subtract the tokens of later microbatches."""

    def seq_lens(self, whole: AttentionMetadata, one: Slice) -> HostArray:
        return self.own_lengths(whole, one)


class NotRebased(MetadataCut):
    """The query starts do not begin at zero."""

    def query_starts(self, whole: AttentionMetadata, one: Slice) -> HostArray:
        return super().query_starts(whole, one) + np.int32(one.tokens.start)


class NotClipped(MetadataCut):
    """The query starts are not clipped to the slice."""

    def query_starts(self, whole: AttentionMetadata, one: Slice) -> HostArray:
        starts = whole.query_start_loc[one.requests.start : one.requests.stop + 1]
        rebased: HostArray = starts - starts[0]
        return rebased


MISTAKES = [ShortensInPlace(), ForgetsEarlierTokens(), WholeLengths(), NotRebased(), NotClipped(), MetadataCutV2()]

# ---- the engine's answers


def differing(version: str, cut: MetadataCut) -> list[Difference]:
    """Returns the stored splits whose metadata are cut differently. Two errors are equal if their types are."""
    slicing = {"0.14.0": Slicing(), "0.33.0": Slicing033()}[version]
    return comparison.differing(METADATA, answers("slices", version), (slicing, cut))


@pytest.mark.parametrize("version", ["0.14.0", "0.33.0"])
def test_all_metadata_of_the_engine(version: str) -> None:
    """The metadata of all stored splits equal those of vLLM."""
    assert differing(version, MetadataCut()) == []


@pytest.mark.parametrize("wrong", MISTAKES, ids=lambda wrong: type(wrong).__name__)
def test_a_wrong_cut_is_found_among_the_rows(wrong: MetadataCut) -> None:
    assert differing("0.33.0", wrong)


def test_a_cut_refuses_an_empty_or_misplaced_slice() -> None:
    """A cut refuses an empty slice, and a slice whose first token is not in its first request."""
    whole = attention_metadata([3, 5], [0, 0])
    for one in (Slice(range(1, 1), range(4, 6)), Slice(range(2), range(4, 4))):
        with pytest.raises(AssertionError, match="empty slice"):
            MetadataCut().cut(whole, one)
    with pytest.raises(AssertionError, match="token 3 begins a slice whose first request is 0, but that request does"):
        MetadataCut().cut(whole, Slice(range(2), range(3, 8)))


def test_a_dummy_run_has_the_query_length_of_the_batch() -> None:
    """A microbatch with padding only has queries without tokens; its longest query counts as that of the batch."""
    whole = attention_metadata([4], [0], num_reqs_padded=3)
    cut = MetadataCutV2().cut(whole, Slice(range(1, 3), range(4, 8)))
    assert metadata_row(cut) == {
        "query_start_loc": [0, 0, 0],
        "seq_lens": [0, 0],
        "num_reqs": 2,
        "num_actual_tokens": 4,
        "max_query_len": 4,
        "max_seq_len": 0,
    }


# ---- the positions that an attention kernel computes

Property = Callable[[MetadataCut, Split], None]


def positions(split: Split, whole: AttentionMetadata, cut: MetadataCut) -> list[tuple[int, int]]:
    """Returns (request, position) of every token, as attention computes them: a sequence ends with its query."""
    found = []
    for one in split.slices(Slicing()).own:
        metadata = cut.cut(whole, one)
        for place, request in enumerate(one.requests):
            queries = int(metadata.query_start_loc[place + 1] - metadata.query_start_loc[place])
            stop = int(metadata.seq_lens[place])
            found += [(request, position) for position in range(stop - queries, stop)]
    return found


def same_positions(cut: MetadataCut, split: Split) -> None:
    """Every token has the same position as in the whole batch, so it attends to the same context."""
    assert positions(split, split.metadata(), cut) == split.positions, "I-UB-4: a token has another position"


def whole_is_unchanged(cut: MetadataCut, split: Split) -> None:
    """The cut does not change the metadata of the whole batch, which the next microbatch reads."""
    whole = split.metadata()
    before = metadata_row(whole)
    positions(split, whole, cut)
    assert metadata_row(whole) == before, "the cut changes the metadata of the batch"


def query_starts(cut: MetadataCut, split: Split) -> None:
    """The query starts of a microbatch begin at zero, never decrease, and end at its real tokens (invariant I-UB-9)."""
    whole = split.metadata()
    for one in split.slices(Slicing()).own:
        starts = cut.cut(whole, one).query_start_loc.tolist()
        assert starts[0] == 0, "I-UB-9: queries begin at zero"
        assert starts == sorted(starts), "I-UB-9: and never decrease"
        assert starts[-1] == len(one.tokens), "I-UB-9: and end with the real tokens"


@examples(150, 500, 2_000)
def test_tokens_keep_their_places(examples: int) -> None:
    def both(split: Split) -> None:
        same_positions(MetadataCut(), split)
        whole_is_unchanged(MetadataCut(), split)
        query_starts(MetadataCut(), split)

    holds(both, splits(last_empty=False), examples)


@pytest.mark.parametrize(
    ("property_", "wrong", "says"),
    [
        (same_positions, ShortensInPlace(), "another position"),
        (same_positions, ForgetsEarlierTokens(), "another position"),
        (same_positions, WholeLengths(), "another position"),
        (whole_is_unchanged, ShortensInPlace(), "changes the metadata"),
        (query_starts, NotRebased(), "I-UB-9: queries begin"),
        (query_starts, NotClipped(), "I-UB-9: and end"),
    ],
)
def test_a_wrong_cut_is_found(property_: Property, wrong: MetadataCut, says: str) -> None:
    breaks(lambda split: property_(wrong, split), splits(last_empty=False), says)


@examples(100, 1000)
def test_empty_microbatches_of_the_v2_runner(examples: int) -> None:
    """In the V2 runner, a microbatch of padding has queries without tokens, and the others are unchanged."""

    def finds_wrong_starts(split: Split) -> None:
        whole = split.metadata()
        for one in split.slices(SlicingV2()).padded:
            starts = MetadataCutV2().cut(whole, one).query_start_loc.tolist()
            real = [token for token in one.tokens if token < split.num_tokens]
            assert (starts[0], starts[-1]) == (0, len(real))
            assert starts == sorted(starts)

    holds(finds_wrong_starts, splits(), examples)
    breaks(lambda split: cut_v1(split), splits(), "empty slice|does not have it")


def cut_v1(split: Split) -> None:
    """Cuts the slices of the V2 runner as the V1 runner does."""
    for one in split.slices(SlicingV2()).padded:
        MetadataCut().cut(split.metadata(), one)


def test_a_full_graph_reads_padding() -> None:
    """In a FULL graph, attention uses the padded slices; by the unpadded ones there are fewer rows than captured.

    Source: specification 3.6; mutant M-UB-9 uses the unpadded slices.
    """

    class OwnSlices(Slices):
        def for_attention(self, mode: RuntimeMode) -> list[Slice]:
            return self.own

    def captured(slices: Slices) -> tuple[int, int]:
        whole = attention_metadata([1] * 40, [9] * 40, num_reqs_padded=64)
        parts = [MetadataCut().cut(whole, one) for one in slices.for_attention(RuntimeMode.FULL)]
        return sum(part.num_reqs for part in parts), sum(part.num_actual_tokens for part in parts)

    slices = Slicing().slices([1] * 40, 64, 64, 2)
    assert captured(slices) == (64, 64)
    assert captured(OwnSlices(*slices)) == (40, 40)


# ---- inputs of the model


class FirstAxis(InputsCut):
    """The cut takes positions along the first axis, as all other inputs."""

    def positions(self, positions: Any, rows: slice) -> Any:
        return positions[rows]


class TruthOfTheTensor(InputsCut):
    """The cut converts the embeddings to a bool, as source page 001 and releases up to 0.17 do (specification 4.12)."""

    def embeds(self, inputs_embeds: Any | None, rows: slice) -> Any | None:
        return inputs_embeds[rows] if inputs_embeds else None


def inputs_of(split: Split, xp: Any) -> ModelInputs:
    """Returns inputs of all kinds whose rows differ."""
    tokens = split.num_tokens_padded
    rows = xp.arange(tokens * 3)
    return ModelInputs(
        rows[:tokens],
        rows.reshape(3, tokens),
        rows.reshape(tokens, 3),
        {"hidden_states": rows.reshape(tokens, 3), "residual": rows[:tokens]},
    )


def joined(parts: list[ModelInputs]) -> ModelInputs:
    """Returns the inputs of all microbatches, joined in order."""

    def rows(pieces: list[Any]) -> HostArray:
        return np.concatenate([np.asarray(piece) for piece in pieces])

    between = [part.intermediate_tensors or {} for part in parts]
    return ModelInputs(
        rows([part.input_ids for part in parts]),
        np.concatenate([np.asarray(part.positions) for part in parts], axis=-1),
        rows([part.inputs_embeds for part in parts]),
        {name: rows([one[name] for one in between]) for name in between[0]},
    )


def as_lists(inputs: ModelInputs) -> list[Any]:
    between = inputs.intermediate_tensors or {}
    tensors = [inputs.input_ids, inputs.positions, inputs.inputs_embeds, *between.values()]
    return [None if tensor is None else tensor.tolist() for tensor in tensors]


def cut_inputs(split: Split, cut: InputsCut, inputs: ModelInputs) -> list[ModelInputs]:
    return [cut.cut(inputs, one.tokens) for one in split.slices(Slicing()).padded]


@pytest.mark.parametrize("library", ["numpy", "torch"])
@examples(60, 500)
def test_rows_of_all_microbatches_are_those_of_the_batch(library: str, examples: int) -> None:
    """The rows of all microbatches, joined, are those of the batch (invariant I-UB-10), for inputs of all kinds."""
    xp = pytest.importorskip(library)

    def whole(split: Split, cut: InputsCut) -> None:
        inputs = inputs_of(split, xp)
        assert as_lists(joined(cut_inputs(split, cut, inputs))) == as_lists(inputs), "I-UB-10: row t is token t"

    holds(lambda split: whole(split, InputsCut()), splits(), examples)
    breaks(lambda split: whole(split, FirstAxis()), splits(), "I-UB-10")


def test_positions_of_one_axis() -> None:
    """Positions with a single axis are cut like other inputs."""
    inputs = ModelInputs(np.arange(4), np.arange(4) + 10)
    assert as_lists(InputsCut().cut(inputs, range(1, 3))) == [[1, 2], [11, 12], None]


def test_the_truth_of_embeddings() -> None:
    """The cut compares embeddings with None, because a tensor with several numbers has no truth value.

    A tensor of a single zero is false, so the faulty twin drops it.
    """
    several = ModelInputs(np.arange(4), np.arange(4), np.zeros((4, 2)))
    zero = ModelInputs(np.arange(2), np.arange(2), np.zeros((1, 1)))
    assert as_lists(InputsCut().cut(several, range(2)))[2] == [[0, 0], [0, 0]]
    assert as_lists(InputsCut().cut(zero, range(1)))[2] == [[0]]
    with pytest.raises(ValueError, match="truth value of an array with more than one element is ambiguous"):
        TruthOfTheTensor().cut(several, range(2))
    assert TruthOfTheTensor().cut(zero, range(1)).inputs_embeds is None
    assert TruthOfTheTensor().cut(several._replace(inputs_embeds=None), range(2)).inputs_embeds is None


def test_counts_are_the_microbatchs_own() -> None:
    """Each microbatch counts its own rows; with the batch's counts (mutant M-UB-11), collectives would be too large."""
    parts = Slicing().slices([1] * 40, 64, 64, 2).padded
    inputs = ModelInputs(np.arange(64), np.arange(64))
    rows = [len(InputsCut().cut(inputs, one.tokens).input_ids) for one in parts]
    assert [one.counts(3) for one in parts] == [(count,) * 3 for count in rows]
    assert sum(rows) == 64
    assert (64,) * 3 not in [one.counts(3) for one in parts]
