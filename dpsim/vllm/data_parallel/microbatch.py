"""Microbatching: which rank may split a batch, and which requests and tokens each part gets (specification chapter 3).

If a rank splits a step's batch into U microbatches, one half computes while the other communicates. A layer then has U
expert collectives instead of 1, so either every rank splits or none does. Also, their sizes must be equal on all ranks.
So they depend on the padded count and U alone, and a boundary may cut a request:

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

A slice names what it covers and holds no data; `dpsim.vllm.data_parallel.microbatch_inputs` cuts by it. Releases
differ in two methods. 0.33 also takes a list of boundaries. Its V2 runner does not abort a split whose last microbatch
has no real token, and that microbatch keeps a request.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

from dpsim.vllm.config import Microbatching, RuntimeMode


def wants_microbatching(num_tokens: int, uniform_decode: bool, config: Microbatching) -> bool:
    """One rank's wish, from its unpadded token count: at least the threshold of its kind of batch (3.2)."""
    threshold = config.dbo_decode_token_threshold if uniform_decode else config.dbo_prefill_token_threshold
    return config.use_ubatching and num_tokens >= threshold


def last_microbatch_empty(num_tokens: int, num_tokens_padded: int, num_ubatches: int) -> bool:
    """Whether cutting `num_tokens_padded` into equal parts leaves no real token for the last one (1.5, step 4)."""
    return num_tokens_padded // num_ubatches * (num_ubatches - 1) >= num_tokens


def slice_sizes(num_tokens_padded: int, num_ubatches: int) -> tuple[int, ...]:
    """Tokens of each microbatch: equal parts, the remainder in the last. A function of its arguments only, so equal
    on all ranks (I-UB-2).
    """
    part = num_tokens_padded // num_ubatches
    return (*[part] * (num_ubatches - 1), num_tokens_padded - part * (num_ubatches - 1))


class Slice(NamedTuple):
    """One microbatch of a rank's batch. A request that a boundary cuts is in both neighbours (I-UB-8)."""

    requests: range
    tokens: range

    @property
    def empty(self) -> bool:
        """Whether the engine's check finds it empty. A slice that runs backwards, from a `split` too large, is not."""
        return any(part.start == part.stop for part in self)

    def counts(self, ranks: int) -> tuple[int, ...]:
        """Tokens that each rank runs in this microbatch: its own count, for all run equally many (3.6)."""
        return (len(self.tokens),) * ranks


class Slices(NamedTuple):
    """The microbatches of a batch, in order. `own` ends with the last real token, `padded` with the padding."""

    own: list[Slice]
    padded: list[Slice]

    def for_attention(self, mode: RuntimeMode) -> list[Slice]:
        """The slices of attention metadata: a FULL graph was captured with padding, and reads it (3.6). Slot
        mappings and inputs of the model always use `padded`.
        """
        return self.padded if mode is RuntimeMode.FULL else self.own


class PaddedSlices(Slices):
    """The slices of the V2 runner, which cuts everything by the padded slices in every mode (3.5)."""

    def for_attention(self, mode: RuntimeMode) -> list[Slice]:
        return self.padded


SplitPoint: TypeAlias = int | Sequence[int] | None
"""Tokens of each microbatch but the last, or where each but the first starts; None for equal parts."""


class Slicing:
    """How the V1 runner cuts a batch (3.5). A release, or a mistake, overrides a method."""

    def slices(
        self,
        num_scheduled_tokens: Sequence[int],
        num_tokens_padded: int,
        num_reqs_padded: int,
        num_ubatches: int,
        split: SplitPoint = None,
    ) -> Slices:
        """The microbatches of a batch, from the tokens of each request. Raises ValueError for a wrong `split`."""
        starts = [0, *accumulate(num_scheduled_tokens)]
        edges = [0, *self.points(num_tokens_padded, num_ubatches, split), starts[-1]]
        own = [self.slice(starts, first, stop) for first, stop in pairwise(edges)]
        padded = self.stretched(own, len(num_scheduled_tokens), num_tokens_padded, num_reqs_padded)
        assert sum(one.tokens.stop - one.tokens.start for one in padded) == num_tokens_padded, (
            f"microbatches do not add up to {num_tokens_padded} tokens: {padded}"
        )
        return Slices(own, padded)

    def points(self, num_tokens_padded: int, num_ubatches: int, split: SplitPoint) -> list[int]:
        """The begins of all microbatches but the first. Real tokens do not count, or ranks would differ (I-UB-2)."""
        if split is None:
            return list(accumulate(slice_sizes(num_tokens_padded, num_ubatches)[:-1]))
        if not isinstance(split, int):
            raise ValueError(f"split: expected a number of tokens, got {split}; lists of boundaries came with 0.33")
        return [split * part for part in range(1, num_ubatches)]

    def slice(self, starts: Sequence[int], first: int, stop: int) -> Slice:
        """The tokens from `first` to `stop`, and their requests. `starts`: the begin of each request, and the end."""
        return Slice(range(self.first_request(starts, first), self.stop_request(starts, stop)), range(first, stop))

    def first_request(self, starts: Sequence[int], token: int) -> int:
        """The request of a token, not one that ends just before it."""
        return bisect_right(starts, token) - 1

    def stop_request(self, starts: Sequence[int], token: int) -> int:
        """The request after the one whose token is the last before `token`."""
        return bisect_left(starts, token)

    def stretched(self, own: list[Slice], num_reqs: int, num_tokens_padded: int, num_reqs_padded: int) -> list[Slice]:
        """The last microbatch takes all padding, tokens and requests."""
        requests, tokens = own[-1]
        last = Slice(range(requests.start, num_reqs_padded), range(tokens.start, num_tokens_padded))
        return [*own[:-1], last]


class Slicing033(Slicing):
    """0.33: a caller may give the boundaries one by one."""

    def points(self, num_tokens_padded: int, num_ubatches: int, split: SplitPoint) -> list[int]:
        if split is None or isinstance(split, int):
            return super().points(num_tokens_padded, num_ubatches, split)
        if len(split) != num_ubatches - 1:
            raise ValueError(f"split: expected {num_ubatches - 1} boundaries for {num_ubatches} parts, got {split}")
        return list(split)


class SlicingV2(Slicing033):
    """The V2 runner of 0.33: a microbatch that is all padding keeps the last request, without a token of it."""

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
        """Limit a slice to real requests: a boundary behind the last real token names none."""
        return one._replace(requests=range(min(one.requests.start, last), min(one.requests.stop, stop)))
