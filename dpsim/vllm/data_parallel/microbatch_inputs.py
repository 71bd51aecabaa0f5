"""The inputs of a microbatch, cut out of the inputs of its batch (specification 3.6 and 4.8).

For a microbatch, its rows of the attention metadata have to change. The query starts (the first token of each request)
begin at zero in each microbatch. If a request continues in the next microbatch, its sequence here is shorter by the
tokens that follow. Tokens in earlier microbatches still count for its length, because the device computes them before:

    >>> from dpsim.vllm.data_parallel.microbatch import Slicing
    >>> whole = attention_metadata([3, 5], [10, 0])  # a request of 10 tokens so far, and a new one
    >>> own, _ = Slicing().slices([3, 5], 8, 2, num_ubatches=2)
    >>> [MetadataCut().cut(whole, one).query_start_loc.tolist() for one in own]
    [[0, 3, 4], [0, 4]]
    >>> [MetadataCut().cut(whole, one).seq_lens.tolist() for one in own]
    [[13, 1], [5]]

All arrays of the metadata are int32, and count tokens or requests. Releases 0.14 and 0.33 cut metadata in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpsim.contract.interface import Buffer, HostArray
from dpsim.vllm.data_parallel.microbatch import Slice


class AttentionMetadata(NamedTuple):
    """`query_start_loc`: the first token of each request, and the number of all, (num_reqs + 1,).

    `seq_lens`: the computed and the scheduled tokens of each request, (num_reqs,); 0 for padding.
    """

    query_start_loc: HostArray
    seq_lens: HostArray
    num_reqs: int
    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int


def attention_metadata(
    num_scheduled_tokens: Sequence[int], num_computed_tokens: Sequence[int], num_reqs_padded: int | None = None
) -> AttentionMetadata:
    """Returns the metadata of a whole batch. `num_reqs_padded`: the requests with padding; None for none."""
    scheduled = np.array(num_scheduled_tokens, np.int32)
    tail = (num_reqs_padded or len(scheduled)) - len(scheduled)
    ends = np.cumsum(scheduled, dtype=np.int32)
    seq_lens = np.pad(scheduled + np.array(num_computed_tokens, np.int32), (0, tail))
    return AttentionMetadata(
        np.concatenate([np.zeros(1, np.int32), ends, np.repeat(ends[-1:], tail)]),
        seq_lens,
        len(seq_lens),
        int(ends[-1]),
        int(scheduled.max()),
        int(seq_lens.max()),
    )


class MetadataCut:
    """How the V1 runner cuts metadata. A variant overrides a method."""

    def cut(self, whole: AttentionMetadata, one: Slice) -> AttentionMetadata:
        """Returns the metadata of microbatch `one`, and leaves `whole` unchanged.

        AssertionError: `one` is empty, or begins outside of its first request. IndexError: a request beyond the last.
        """
        self.refuse(whole, one)
        starts = self.query_starts(whole, one)
        seq_lens = self.seq_lens(whole, one)
        return AttentionMetadata(
            starts,
            seq_lens,
            len(one.requests),
            len(one.tokens),
            int(np.diff(starts).max()) or whole.max_query_len,  # all zero in a dummy run: then the batch's
            int(seq_lens.max()),
        )

    def refuse(self, whole: AttentionMetadata, one: Slice) -> None:
        assert not one.empty, f"empty slice: requests {one.requests} and tokens {one.tokens}"
        first, token = one.requests.start, one.tokens.start
        assert whole.query_start_loc[first] <= token < whole.query_start_loc[first + 1], (
            f"token {token} begins a slice whose first request is {first}, but that request does not have it"
        )

    def query_starts(self, whole: AttentionMetadata, one: Slice) -> HostArray:
        """Relative to the slice's first token, and clipped at both its ends (invariant I-UB-9)."""
        starts = whole.query_start_loc[one.requests.start : one.requests.stop + 1]
        return np.clip(starts, one.tokens.start, one.tokens.stop) - np.int32(one.tokens.start)

    def seq_lens(self, whole: AttentionMetadata, one: Slice) -> HostArray:
        """A copy of the lengths. The length of the last request does not include its tokens in later microbatches."""
        lengths = self.own_lengths(whole, one)
        lengths[-1] -= max(int(whole.query_start_loc[one.requests.stop]) - one.tokens.stop, 0)
        return lengths

    def own_lengths(self, whole: AttentionMetadata, one: Slice) -> HostArray:
        return whole.seq_lens[one.requests.start : one.requests.stop].copy()


class MetadataCutV2(MetadataCut):
    """The V2 runner of 0.33 accepts a microbatch without tokens; its lengths are then those of the batch."""

    def refuse(self, whole: AttentionMetadata, one: Slice) -> None:
        return


class ModelInputs(NamedTuple):
    """The inputs of the model, as arrays of any library or as buffers; a row is a token.

    `positions`: may have several rows, whose columns are tokens; None if the metadata has them. `inputs_embeds` replace
    `input_ids` if not None. `intermediate_tensors`: hidden states from the stage before.
    """

    input_ids: Any
    positions: Any | None
    inputs_embeds: Any | None = None
    intermediate_tensors: Mapping[str, Any] | None = None


class InputsCut:
    """How a runner cuts the inputs of the model, always by padded slices (specification 3.6)."""

    def cut(self, whole: ModelInputs, tokens: range) -> ModelInputs:
        """Returns views of the rows or columns of the tokens."""
        rows, between = slice(tokens.start, tokens.stop), whole.intermediate_tensors
        return ModelInputs(
            self.rows(whole.input_ids, rows),
            None if whole.positions is None else self.positions(whole.positions, rows),
            self.embeds(whole.inputs_embeds, rows),
            None if between is None else {name: self.rows(tensor, rows) for name, tensor in between.items()},
        )

    def rows(self, tensor: Any, rows: slice) -> Any:
        """A view of the rows of an array or a buffer."""
        return tensor.view(rows.start, rows.stop) if isinstance(tensor, Buffer) else tensor[rows]

    def positions(self, positions: Any, rows: slice) -> Any:
        """A view of the tokens along the last axis. Positions in a buffer have one axis."""
        return self.rows(positions, rows) if isinstance(positions, Buffer) else positions[..., rows]

    def embeds(self, inputs_embeds: Any | None, rows: slice) -> Any | None:
        """Compares with None, because Python cannot convert a larger tensor to a bool."""
        return None if inputs_embeds is None else self.rows(inputs_embeds, rows)
