"""Microbatching: which rank may split its batch, and which requests and tokens each microbatch gets (specification
chapter 3).

If the ranks split the batch of a step into U microbatches, one microbatch computes while another one communicates. So
either every rank splits or none does, and the sizes of the microbatches have to be equal on all ranks. Therefore sizes
depend on the padded token count and on U only, and the boundary between two microbatches may cut a request:

    >>> config = Microbatching(enable_dbo=True)
    >>> wants_microbatching(40, True, config), wants_microbatching(40, False, config)  # 40 decodes; a prefill of 40
    (True, False)
    >>> last_microbatch_empty(32, 64, 2)  # 32 real tokens padded to 64: the second half would hold padding only
    True
    >>> slice_sizes(101, 2)
    (50, 51)
    >>> own, padded = Slicing().slices([300, 300], 1000, 2, num_ubatches=2)  # two requests, 600 tokens of 1000
    >>> own
    [Slice(requests=range(0, 2), tokens=range(0, 500)), Slice(requests=range(1, 2), tokens=range(500, 600))]
    >>> padded[1].tokens
    range(500, 1000)

Release 0.33 also accepts a list of the tokens at which to split. If the last microbatch has no real token, the V1
runner does not split. The V2 runner of 0.33 splits all the same, and its last microbatch keeps a request without
tokens.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

from dpsim.vllm.config import Microbatching, RuntimeMode


def wants_microbatching(num_tokens: int, uniform_decode: bool, config: Microbatching) -> bool:
    """Whether this rank wishes to split: by its unpadded count, with a threshold for decodes (specification 3.2)."""
    threshold = config.dbo_decode_token_threshold if uniform_decode else config.dbo_prefill_token_threshold
    return config.use_ubatching and num_tokens >= threshold


def last_microbatch_empty(num_tokens: int, num_tokens_padded: int, num_ubatches: int) -> bool:
    """Whether the last of `num_ubatches` equal parts has no real token (specification 1.5, step 4)."""
    return num_tokens_padded // num_ubatches * (num_ubatches - 1) >= num_tokens


def slice_sizes(num_tokens_padded: int, num_ubatches: int) -> tuple[int, ...]:
    """Equal parts; the last also has the remainder. A function of the arguments alone (invariant I-UB-2)."""
    part = num_tokens_padded // num_ubatches
    return (*[part] * (num_ubatches - 1), num_tokens_padded - part * (num_ubatches - 1))


class Slice(NamedTuple):
    """One microbatch. If a boundary cuts a request, both neighbours contain it (invariant I-UB-8)."""

    requests: range
    tokens: range

    @property
    def empty(self) -> bool:
        """As the engine checks: not for a range that ends before its start, which a too large `split` yields."""
        return any(part.start == part.stop for part in self)

    def counts(self, ranks: int) -> tuple[int, ...]:
        """All ranks run equally many tokens, so this rank's own count stands for all (specification 3.6)."""
        return (len(self.tokens),) * ranks


class Slices(NamedTuple):
    """The last slice of `own` ends with the last real token; in `padded`, it ends with the padding."""

    own: list[Slice]
    padded: list[Slice]

    def for_attention(self, mode: RuntimeMode) -> list[Slice]:
        """In mode FULL padded, as the capture was (specification 3.6). Inputs and slot mappings are always padded."""
        return self.padded if mode is RuntimeMode.FULL else self.own


class PaddedSlices(Slices):
    """The V2 runner cuts attention metadata by the padded slices in every mode (specification 3.5)."""

    def for_attention(self, mode: RuntimeMode) -> list[Slice]:
        return self.padded


SplitPoint: TypeAlias = int | Sequence[int] | None
"""Where to cut a batch. A number: the tokens of each microbatch except for the last. A sequence: the first token of
each microbatch except for the first. None: equal parts.
"""


class Slicing:
    """How the V1 runner cuts a batch (specification 3.5). A release or a variant overrides a method."""

    def slices(
        self,
        num_scheduled_tokens: Sequence[int],
        num_tokens_padded: int,
        num_reqs_padded: int,
        num_ubatches: int,
        split: SplitPoint = None,
    ) -> Slices:
        """`num_scheduled_tokens`: the tokens of each request.

        ValueError: this release takes no list `split`. AssertionError: the sum is not `num_tokens_padded`.
        """
        starts = [0, *accumulate(num_scheduled_tokens)]
        edges = [0, *self.points(num_tokens_padded, num_ubatches, split), starts[-1]]
        own = [self.slice(starts, first, stop) for first, stop in pairwise(edges)]
        padded = self.stretched(own, len(num_scheduled_tokens), num_tokens_padded, num_reqs_padded)
        assert sum(one.tokens.stop - one.tokens.start for one in padded) == num_tokens_padded, (
            f"microbatches do not add up to {num_tokens_padded} tokens: {padded}"
        )
        return Slices(own, padded)

    def points(self, num_tokens_padded: int, num_ubatches: int, split: SplitPoint) -> list[int]:
        """The first tokens of all but the first, by the padded count: real counts differ between ranks (I-UB-2)."""
        if split is None:
            return list(accumulate(slice_sizes(num_tokens_padded, num_ubatches)[:-1]))
        if not isinstance(split, int):
            raise ValueError(f"split: expected a number of tokens, got {split}; lists of boundaries came with 0.33")
        return [split * part for part in range(1, num_ubatches)]

    def slice(self, starts: Sequence[int], first: int, stop: int) -> Slice:
        """The tokens from `first` to `stop`. `starts`: the first token of each request, and the number of all."""
        return Slice(range(self.first_request(starts, first), self.stop_request(starts, stop)), range(first, stop))

    def first_request(self, starts: Sequence[int], token: int) -> int:
        """The request that contains `token`. A request that ends just before `token` does not count."""
        return bisect_right(starts, token) - 1

    def stop_request(self, starts: Sequence[int], token: int) -> int:
        """The number after that of the last request which has a token before `token`."""
        return bisect_left(starts, token)

    def stretched(self, own: list[Slice], num_reqs: int, num_tokens_padded: int, num_reqs_padded: int) -> list[Slice]:
        """The slices with padding: the last microbatch contains all padded tokens and requests."""
        requests, tokens = own[-1]
        last = Slice(range(requests.start, num_reqs_padded), range(tokens.start, num_tokens_padded))
        return [*own[:-1], last]


class Slicing033(Slicing):
    """Release 0.33: the caller may pass each boundary."""

    def points(self, num_tokens_padded: int, num_ubatches: int, split: SplitPoint) -> list[int]:
        if split is None or isinstance(split, int):
            return super().points(num_tokens_padded, num_ubatches, split)
        if len(split) != num_ubatches - 1:
            raise ValueError(f"split: expected {num_ubatches - 1} boundaries for {num_ubatches} parts, got {split}")
        return list(split)


class SlicingV2(Slicing033):
    """The V2 runner of 0.33: a microbatch without a real token keeps the last request, with no tokens."""

    def slices(
        self,
        num_scheduled_tokens: Sequence[int],
        num_tokens_padded: int,
        num_reqs_padded: int,
        num_ubatches: int,
        split: SplitPoint = None,
    ) -> Slices:
        return PaddedSlices(
            *super().slices(num_scheduled_tokens, num_tokens_padded, num_reqs_padded, num_ubatches, split)
        )

    def stretched(self, own: list[Slice], num_reqs: int, num_tokens_padded: int, num_reqs_padded: int) -> list[Slice]:
        padded = super().stretched(own, num_reqs, num_tokens_padded, num_reqs_padded)
        return [self.within(one, num_reqs - 1, num_reqs_padded) for one in padded]

    def within(self, one: Slice, last: int, stop: int) -> Slice:
        """Limits the requests of a slice: its first one is at most `last`, and its stop is at most `stop`."""
        return one._replace(requests=range(min(one.requests.start, last), min(one.requests.stop, stop)))
