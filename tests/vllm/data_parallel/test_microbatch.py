"""Tests of the slices of microbatches, with the mutants of specification 3.10 as faulty twins.

A slice contains the requests and the tokens of one microbatch. The tests compare slices with the stored answers of vLLM
and with the worked examples A-10 and A-11. They also check invariants I-UB-1 to I-UB-5, I-UB-7, I-UB-8 and I-UB-11.
Invariant I-UB-6 (without a wish there are no slices) has no test, because no caller computes slices for a step that is
not split. Mutant M-UB-2 is the same as M-DP-5, which tests/vllm/data_parallel/test_mutants.py runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from dpsim.vllm.config import Microbatching, RuntimeMode
from dpsim.vllm.data_parallel.microbatch import (
    Slice,
    Slices,
    Slicing,
    Slicing033,
    SlicingV2,
    SplitPoint,
    last_microbatch_empty,
    slice_sizes,
    wants_microbatching,
)
from dpsim_engine import comparison
from dpsim_engine.comparison import Difference
from dpsim_engine.slices import LAST_EMPTY, SLICES, SLICES_V2, Split, slice_row
from dpsim_engine.stored import answers
from tests.properties import breaks, examples, holds
from tests.vllm.data_parallel.split_batches import splits

KINDS = [Slicing(), Slicing033(), SlicingV2()]

# ---- faulty twins: slicings with one mistake


class SplitsRealTokens(Slicing):
    """Mutant M-UB-4: it cuts the real tokens into equal parts, instead of the padded tokens."""

    def slices(
        self,
        num_scheduled_tokens: Sequence[int],
        num_tokens_padded: int,
        num_reqs_padded: int,
        num_ubatches: int,
        split: SplitPoint = None,
    ) -> Slices:
        own = sum(num_scheduled_tokens) // num_ubatches
        return super().slices(num_scheduled_tokens, num_tokens_padded, num_reqs_padded, num_ubatches, own)


class NeverStretches(Slicing):
    """Mutant M-UB-5: the last padded slice does not grow to the padded count."""

    def stretched(self, own: list[Slice], num_reqs: int, num_tokens_padded: int, num_reqs_padded: int) -> list[Slice]:
        return list(own)


class StretchesTokensOnly(Slicing):
    """The last padded slice grows to the padded tokens, but not to the padded requests."""

    def stretched(self, own: list[Slice], num_reqs: int, num_tokens_padded: int, num_reqs_padded: int) -> list[Slice]:
        stretched = super().stretched(own, num_reqs, num_tokens_padded, num_reqs_padded)
        return [*stretched[:-1], stretched[-1]._replace(requests=own[-1].requests)]


class SidesSwapped(Slicing):
    """Mutant M-UB-6: a request that ends at a boundary is also in the next slice.

    A request that begins at a boundary is also in the slice before.
    """

    def first_request(self, starts: Sequence[int], token: int) -> int:
        return max(super().stop_request(starts, token) - 1, 0)

    def stop_request(self, starts: Sequence[int], token: int) -> int:
        return super().first_request(starts, token) + 1


class WholeRequests(Slicing):
    """A request that a boundary cuts is in the first of its two slices only."""

    def first_request(self, starts: Sequence[int], token: int) -> int:
        return super().stop_request(starts, token)


class Overlaps(Slicing):
    """The last token of a slice is also the first token of the next slice."""

    def slice(self, starts: Sequence[int], first: int, stop: int) -> Slice:
        return super().slice(starts, max(first - 1, 0), stop)


class KeepsNoRequest(SlicingV2):
    """A microbatch with padding only does not keep the last real request."""

    def within(self, one: Slice, last: int, stop: int) -> Slice:
        return super().within(one, last + 1, stop)


# ---- the engine's answers


def differing(version: str, slicing: Slicing) -> list[Difference]:
    """Returns the stored rows of a version that a slicing cuts differently from vLLM."""
    return comparison.differing(SLICES, answers("slices", version), slicing)


def differing_v2(slicing: Slicing) -> list[Difference]:
    """Returns the stored rows of the V2 runner that a slicing cuts differently from vLLM."""
    rows = [row for row in answers("slices", "0.33.0") if "v2_runner" in row["answer"]]
    assert len(rows) > 400
    return comparison.differing(SLICES_V2, rows, slicing)


@pytest.mark.slow
def test_every_split_of_the_engine() -> None:
    """All stored splits of two releases and of the V2 runner equal those of vLLM."""
    assert differing("0.14.0", Slicing()) == []
    assert differing("0.33.0", Slicing033()) == []
    assert differing_v2(SlicingV2()) == []
    assert comparison.differing(LAST_EMPTY, answers("slices"), last_microbatch_empty) == []
    assert comparison.differing(LAST_EMPTY, answers("slices"), counts_one_more)


def counts_one_more(num_tokens: int, num_tokens_padded: int, num_ubatches: int) -> bool:
    """The faulty twin: it counts one real token too many."""
    return last_microbatch_empty(num_tokens + 1, num_tokens_padded, num_ubatches)


@pytest.mark.parametrize(
    "wrong", [SplitsRealTokens, NeverStretches, StretchesTokensOnly, SidesSwapped, WholeRequests, Overlaps]
)
def test_a_wrong_split_is_found_among_the_rows(wrong: type[Slicing]) -> None:
    assert differing("0.33.0", wrong())


@pytest.mark.slow
def test_the_v2_runner_differs() -> None:
    """The stored rows distinguish the slices of the V1 runner and of the V2 runner."""
    assert differing_v2(Slicing033())
    assert differing_v2(KeepsNoRequest())
    assert differing("0.33.0", SlicingV2())


def test_the_rows_reach_what_they_are_for() -> None:
    """The stored splits contain each kind of case often enough, so that the comparison can fail."""
    seen: Counter[str] = Counter()
    for row in answers("slices", "0.33.0"):
        parts = row["answer"]["slices"]
        seen["straddles"] += any(a["requests"][1] > b["requests"][0] for a, b in pairwise(parts))
        seen["padded"] += row["num_tokens_padded"] > sum(row["num_scheduled_tokens"])
        seen["last empty"] += row["last_ubatch_empty"]
        seen["more than two"] += row["num_ubatches"] > 2
        seen["split point"] += row["split_point"] is not None
    assert min(seen.values()) > 25, seen


# ---- worked examples


def test_padded_decodes_are_split_as_in_example_a_10() -> None:
    """Example A-10: 40 decodes in a graph of 64 tokens."""
    own, padded = Slicing().slices([1] * 40, 64, 64, 2)
    assert own == [Slice(range(32), range(32)), Slice(range(32, 40), range(32, 40))]
    assert padded == [own[0], Slice(range(32, 64), range(32, 64))]
    assert Slices(own, padded).for_attention(RuntimeMode.FULL) is padded
    assert Slices(own, padded).for_attention(RuntimeMode.NONE) is own


def test_a_split_cuts_requests() -> None:
    """Example A-11: a boundary between microbatches cuts a request, which is then in both slices."""
    own, padded = Slicing().slices([300, 300], 1000, 2, 2)
    assert own == [Slice(range(2), range(500)), Slice(range(1, 2), range(500, 600))]
    assert padded == [own[0], Slice(range(1, 2), range(500, 1000))]
    assert [one.requests for one in Slicing().slices([10], 10, 1, 2).own] == [range(1), range(1)]
    own, padded = Slicing().slices([7, 7, 7], 24, 3, 3)
    assert own == [Slice(range(2), range(8)), Slice(range(1, 3), range(8, 16)), Slice(range(2, 3), range(16, 21))]
    assert padded == [*own[:2], Slice(range(2, 3), range(16, 24))]


def test_boundaries_one_by_one() -> None:
    """Release 0.33 accepts a list with one boundary for each cut; release 0.14 accepts one number (spec 3.5)."""
    own, _ = Slicing033().slices([4, 4], 8, 2, 3, split=[1, 6])
    assert own == [Slice(range(1), range(1)), Slice(range(2), range(1, 6)), Slice(range(1, 2), range(6, 8))]
    with pytest.raises(ValueError, match=r"expected 2 boundaries for 3 parts, got \[4\]"):
        Slicing033().slices([4, 4], 8, 2, 3, split=[4])
    with pytest.raises(ValueError, match="expected a number of tokens, got"):
        Slicing().slices([4, 4], 8, 2, 3, split=[1, 6])


def test_a_boundary_behind_the_end() -> None:
    """A split point may lie behind the last token, so the last slice runs backwards.

    Such a slice does not count as empty, and its negative length makes the sizes of all slices add up to the batch.
    """
    own, padded = Slicing().slices([1] * 5, 10, 6, 3, split=7)
    assert [slice_row(one)["tokens"] for one in own] == [[0, 7], [7, 14], [14, 5]]
    assert not padded[-1].empty


# ---- invariants


Property = Callable[[Slicing, Split], None]


def partition(slicing: Slicing, split: Split) -> None:
    """The padded slices contain all tokens in order (invariant I-UB-1)."""
    tokens = [token for one in split.slices(slicing).padded for token in one.tokens]
    assert tokens == list(range(split.num_tokens_padded)), "I-UB-1: padded slices are all tokens in order"


def sizes(slicing: Slicing, split: Split) -> None:
    """The sizes of the padded slices depend only on the padded count and the number of microbatches (invariant
    I-UB-2).
    """
    found = tuple(len(one.tokens) for one in split.slices(slicing).padded)
    assert found == slice_sizes(split.num_tokens_padded, split.num_ubatches), "I-UB-2: equal on all ranks"


def real_tokens_once(slicing: Slicing, split: Split) -> None:
    """Every real token is in exactly one slice (invariant I-UB-3)."""
    own = split.slices(slicing).own
    counts = [sum(token in one.tokens for one in own) for token in range(split.num_tokens)]
    assert set(counts) == {1}, "I-UB-3: every real token in one slice"


def whose_tokens(slicing: Slicing, split: Split) -> None:
    """A slice names exactly the requests that have a token in it (invariants I-UB-4 and I-UB-8).

    The tokens of a slice are consecutive. So the slices of a request are consecutive, too, and its parts add up.
    """
    for one in split.slices(slicing).own:
        named = set(one.requests)
        assert named == {split.owners[token] for token in one.tokens}, "I-UB-4 and 8: the requests of the tokens"


def none_empty(slicing: Slicing, split: Split) -> None:
    """Every slice has a real token and a request (invariant I-UB-5)."""
    for one in split.slices(slicing).own:
        assert len(one.tokens) > 0, "I-UB-5: a real token in each microbatch"
        assert len(one.requests) > 0, "I-UB-5: a request in each microbatch"


def all_padding(slicing: Slicing, split: Split) -> None:
    """The last padded slice ends where the captured shape ends (invariant I-UB-11)."""
    last = split.slices(slicing).for_attention(RuntimeMode.FULL)[-1]
    shape = last.requests.stop, last.tokens.stop
    assert shape == (split.num_reqs_padded, split.num_tokens_padded), "I-UB-11: the shape that was captured"


EVERYWHERE: list[Property] = [partition, sizes, real_tokens_once, all_padding]


@pytest.mark.parametrize("slicing", KINDS, ids=lambda kind: type(kind).__name__)
@examples(150, 2000)
def test_the_invariants_of_a_split_hold(slicing: Slicing, examples: int) -> None:
    def everywhere(split: Split) -> None:
        for property_ in EVERYWHERE:
            property_(slicing, split)
        if not split.last_empty:
            whose_tokens(slicing, split)
            none_empty(slicing, split)

    holds(everywhere, splits(), examples)


@examples(100, 1000)
def test_the_v2_runner_keeps_a_request(examples: int) -> None:
    """In the V2 runner, every microbatch keeps a real request, even if all its tokens are padding."""

    def keeps(split: Split) -> None:
        for one in split.slices(SlicingV2()).padded:
            assert not one.empty, "a microbatch without a request"
            assert one.requests.start < len(split.scheduled), "a microbatch starts behind the last request"

    holds(keeps, splits(), examples)
    breaks(lambda split: none_empty(SlicingV2(), split), splits(), "I-UB-5: a real token")


@pytest.mark.parametrize(
    ("property_", "wrong", "says"),
    [
        (partition, Overlaps(), "add up|I-UB-1"),
        (partition, NeverStretches(), "add up"),
        (sizes, SplitsRealTokens(), "I-UB-2"),
        (real_tokens_once, Overlaps(), "I-UB-3|add up"),
        (whose_tokens, SidesSwapped(), "I-UB-4 and 8"),
        (whose_tokens, WholeRequests(), "I-UB-4 and 8"),
        (none_empty, WholeRequests(), "I-UB-5: a request"),
        (all_padding, StretchesTokensOnly(), "I-UB-11"),
    ],
)
def test_a_wrong_split_is_found(property_: Property, wrong: Slicing, says: str) -> None:
    breaks(lambda split: property_(wrong, split), splits(last_empty=False), says)


def test_a_microbatch_of_padding_only_is_found() -> None:
    """A split whose last microbatch has padding only breaks invariant I-UB-5.

    Mutant M-UB-3 compares with `>` instead of `>=`. So it also splits a batch that has just enough tokens for the
    earlier microbatches.
    """

    def split_anyway(split: Split) -> None:
        part = split.num_tokens_padded // split.num_ubatches * (split.num_ubatches - 1)
        if not part > split.num_tokens:
            none_empty(Slicing(), split)

    breaks(split_anyway, splits(), "I-UB-5: a real token")
    assert last_microbatch_empty(32, 64, 2)
    assert not last_microbatch_empty(33, 64, 2)


def wishes(uniform: bool, wants: Callable[[int, bool, Microbatching], bool]) -> list[bool]:
    """Returns for 0 to 19 tokens whether a rank wishes to split, by the function `wants`."""
    config = Microbatching(enable_dbo=True, dbo_decode_token_threshold=4, dbo_prefill_token_threshold=9)
    return [wants(tokens, uniform, config) for tokens in range(20)]


def greater_than(tokens: int, uniform: bool, config: Microbatching) -> bool:
    """Mutant M-UB-1: a rank wishes to split only above the threshold, as the documentation describes it."""
    return wants_microbatching(tokens - 1, uniform, config)


@pytest.mark.parametrize(("uniform", "first"), [(True, 4), (False, 9)])
def test_a_rank_wishes_to_split_from_the_threshold_on(uniform: bool, first: int) -> None:
    """A rank wishes to split from the threshold on (invariant I-UB-7); the faulty twin wishes one token later."""
    from_threshold = [False] * first + [True] * (20 - first)
    assert wishes(uniform, wants_microbatching) == from_threshold
    assert wishes(uniform, greater_than) != from_threshold
    assert not any(wants_microbatching(tokens, uniform, Microbatching()) for tokens in range(2000))
