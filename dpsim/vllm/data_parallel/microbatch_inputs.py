"""The inputs of a microbatch, cut from its batch: attention metadata and inputs of the model (specification 3.6, 4.8).

To cut metadata for a microbatch, it does not suffice to take rows. Query starts begin at zero in each microbatch and
end at its number of tokens. If a request continues in the next microbatch, its sequence is shorter here by the tokens
that follow. Tokens of an earlier microbatch are computed before, and count:

    >>> from dpsim.vllm.data_parallel.microbatch import Slicing
    >>> whole = attention_metadata([3, 5], [10, 0])  # a request of 10 tokens so far, and a new one
    >>> own, _ = Slicing().slices([3, 5], 8, 2, num_ubatches=2)
    >>> [MetadataCut().cut(whole, one).query_start_loc.tolist() for one in own]
    [[0, 3, 4], [0, 4]]
    >>> [MetadataCut().cut(whole, one).seq_lens.tolist() for one in own]
    [[13, 1], [5]]

All counts are tokens and requests, and all arrays int32. Releases 0.14 and 0.33 cut metadata alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpsim.contract.interface import Buffer, HostArray
from dpsim.vllm.data_parallel.microbatch import Slice


class AttentionMetadata(NamedTuple):
    """The metadata of a batch or of a microbatch. `query_start_loc`: where the tokens of each request begin, and their
    end, shape (num_reqs + 1,). `seq_lens`: computed and scheduled tokens of each request, shape (num_reqs,). A padded
    request has none.
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
    """The metadata of a whole batch. Without `num_reqs_padded` there is no padding."""
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
    """The cuts of metadata in the V1 runner. A mistake overrides a method."""

    def cut(self, whole: AttentionMetadata, one: Slice) -> AttentionMetadata:
        """The metadata of a microbatch. The metadata of the batch does not change.

        Raises AssertionError for an empty slice, and for one whose first token is not one of its first request.
        Raises IndexError for a slice that names a request beyond the last.
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
        """Starts relative to the first token of the slice, and clipped at both of its ends (I-UB-9)."""
        starts = whole.query_start_loc[one.requests.start : one.requests.stop + 1]
        return np.clip(starts, one.tokens.start, one.tokens.stop) - np.int32(one.tokens.start)

    def seq_lens(self, whole: AttentionMetadata, one: Slice) -> HostArray:
        """A copy of the lengths. The last request is shorter by its tokens in later microbatches."""
        lengths = self.own_lengths(whole, one)
        lengths[-1] -= max(int(whole.query_start_loc[one.requests.stop]) - one.tokens.stop, 0)
        return lengths

    def own_lengths(self, whole: AttentionMetadata, one: Slice) -> HostArray:
        return whole.seq_lens[one.requests.start : one.requests.stop].copy()


class MetadataCutV2(MetadataCut):
    """The V2 runner of 0.33. A microbatch may be empty: its queries have no tokens, its requests are whole."""

    def refuse(self, whole: AttentionMetadata, one: Slice) -> None:
        return


class ModelInputs(NamedTuple):
    """The inputs of the model. Rows are tokens. Positions may have several rows, and then a column is a token. They are
    None if the metadata of attention has them. `inputs_embeds` replace `input_ids` if a batch has them.
    `intermediate_tensors` come from the stage before. Arrays of any library, or buffers.
    """

    input_ids: Any
    positions: Any | None
    inputs_embeds: Any | None = None
    intermediate_tensors: Mapping[str, Any] | None = None


class InputsCut:
    """The cuts of a batch's inputs, always by padded slices (3.6). A mistake overrides a method."""

    def cut(self, whole: ModelInputs, tokens: range) -> ModelInputs:
        """Views of the tokens' rows or columns."""
        rows, between = slice(tokens.start, tokens.stop), whole.intermediate_tensors
        return ModelInputs(
            self.rows(whole.input_ids, rows),
            None if whole.positions is None else self.positions(whole.positions, rows),
            self.embeds(whole.inputs_embeds, rows),
            None if between is None else {name: self.rows(tensor, rows) for name, tensor in between.items()},
        )

    def rows(self, tensor: Any, rows: slice) -> Any:
        """The rows of an array, or of a buffer of the contract."""
        return tensor.view(rows.start, rows.stop) if isinstance(tensor, Buffer) else tensor[rows]

    def positions(self, positions: Any, rows: slice) -> Any:
        """The tokens along the last axis, which is the only one of a buffer here."""
        return self.rows(positions, rows) if isinstance(positions, Buffer) else positions[..., rows]

    def embeds(self, inputs_embeds: Any | None, rows: slice) -> Any | None:
        """The rows, or None. The check is for None, because a tensor of several numbers has no truth value."""
        return None if inputs_embeds is None else self.rows(inputs_embeds, rows)
