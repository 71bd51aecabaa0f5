"""Both forms of the V1 agreement decide random groups of ranks as a naive implementation does.

The naive one follows the specification only (`naive_batch.py`). The quick tests compare thousands of groups, and the
nightly ones 100,000. Edge cases are likely in the groups: unpadded counts near the start of the last microbatch, and
padded ones near multiples of U. Most groups have equal modes and wishes. The same comparison finds decisions with one
mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsim.contract.interface import HostArray
from dpsim.vllm.config import Microbatching, RuntimeMode
from dpsim.vllm.data_parallel.batch import BatchForm, LocalBatch, Release014, Source000, StepPlan
from tests.properties import examples
from tests.vllm.data_parallel.naive_batch import Decision, RankInput, naive_0_14, naive_source_000

MODES = tuple(RuntimeMode)
CONFIGS = {parts: Microbatching(ubatch_size=parts) for parts in (2, 3, 4)}

Naive = Callable[[list[RankInput], int], Decision]


class Group(NamedTuple):
    microbatches: int
    ranks: list[LocalBatch]


def groups(count: int, seed: int = 20_260_218) -> Iterator[Group]:
    """Yields random groups of 2 to 8 ranks."""
    rng = np.random.default_rng(seed)
    bulk = 1_000
    for start in range(0, count, bulk):
        size = 2 + start // bulk % 7
        parts = rng.integers(2, 5, bulk)
        largest = np.maximum(parts * rng.integers(1, 9, bulk) + rng.integers(-1, 2, bulk), 1)
        edge = (largest // parts * (parts - 1))[:, None] + rng.integers(-1, 2, (bulk, size))
        anywhere = rng.integers(1, largest[:, None] + 1, (bulk, size))
        tokens = np.clip(mostly(rng, edge, anywhere), 1, largest[:, None])
        padded = np.maximum(tokens, mostly(rng, np.broadcast_to(largest[:, None], tokens.shape), anywhere))
        wishes = mostly(rng, np.ones_like(tokens), rng.integers(0, 2, tokens.shape))
        paddings = mostly(rng, rng.integers(0, 2, (bulk, 1)) + 0 * tokens, rng.integers(0, 2, tokens.shape))
        modes = mostly(rng, rng.integers(0, 3, (bulk, 1)) + 0 * tokens, rng.integers(0, 3, tokens.shape))
        rows = np.stack([tokens, padded, wishes, paddings, modes], axis=-1).tolist()
        for microbatches, ranks in zip(parts.tolist(), rows, strict=True):
            yield Group(microbatches, [LocalBatch(u, p, w == 1, d == 1, MODES[m]) for u, p, w, d, m in ranks])


def mostly(rng: np.random.Generator, usual: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Returns `usual` for most groups; in the other groups, each rank has a value of `usual` or of `other`."""
    some = rng.random((len(usual), 1)) < 0.3
    return np.where(some & (rng.random(other.shape) < 0.5), other, usual)


def table(form: BatchForm, group: Group) -> HostArray:
    return np.array([form.column(local) for local in group.ranks], np.int32).T


def decided(form: BatchForm, group: Group) -> StepPlan | None:
    """Returns the plan, or None if a rank asserts that the ranks differ."""
    gathered = table(form, group)
    try:
        for local in group.ranks:
            form.refuse(gathered, local)
    except AssertionError:
        return None
    return form.decide(gathered, CONFIGS[group.microbatches])


def decided_naively(naive: Naive, group: Group) -> tuple[object, ...] | None:
    try:
        return naive([RankInput(*local) for local in group.ranks], group.microbatches)
    except AssertionError:
        return None


def difference(count: int, *pairs: tuple[BatchForm, Naive]) -> Group | None:
    """Returns the first of `count` groups for which a form and its naive implementation decide differently, or None."""
    for group in groups(count):
        for form, naive in pairs:
            if decided(form, group) != decided_naively(naive, group):
                return group
    return None


@examples(6666, 100_000)
def test_the_naive_decision_is_the_same(examples: int) -> None:
    """Both forms decide all random groups as their naive implementations do."""
    assert difference(examples, (Source000(), naive_source_000), (Release014(), naive_0_14)) is None


@pytest.mark.parametrize(("form", "column"), [(Source000(), (5, 8, 1, 2)), (Release014(), (5, 8, 1, 0, 2))])
def test_a_column_has_the_rows_of_the_wire_format(form: BatchForm, column: tuple[int, ...]) -> None:
    """The rows of a column have the order of the engine's wire format (specification 1.4).

    The comparison of decisions would not find another order.
    """
    assert form.column(LocalBatch(5, 8, True, False, RuntimeMode.FULL)) == column
    assert form.rows == len(column)


def test_the_groups_reach_the_edges() -> None:
    """The random groups contain each kind of case often enough, so that the comparison can fail."""
    seen = dict.fromkeys(["split", "empty last", "one token in last", "NONE", "PIECEWISE", "FULL", "asserts"], 0)
    for group in groups(7_000):
        plan = decided(Source000(), group)
        assert plan is not None
        smallest = min(local.num_tokens for local in group.ranks)
        start = max(local.num_tokens_padded for local in group.ranks) // group.microbatches * (group.microbatches - 1)
        wished = all(local.wants_microbatching for local in group.ranks)
        seen[plan.mode.name] += 1
        seen["split"] += plan.microbatched
        seen["empty last"] += wished and smallest == start
        seen["one token in last"] += wished and smallest == start + 1
        seen["asserts"] += decided(Release014(), group) is None
    assert min(seen.values()) > 100, seen


class LargestMode(Source000):
    """All ranks take the largest mode."""

    def agreed_mode(self, modes: Sequence[int]) -> RuntimeMode:
        return RuntimeMode(max(modes))


class SmallestCount(Source000):
    """Ranks pad to the smallest padded count."""

    def padded_tokens(self, padded: Sequence[int], pad: bool) -> tuple[int, ...]:
        return (min(padded),) * len(padded) if pad else super().padded_tokens(padded, pad)


class LargestTokens(Source000):
    """The check for an empty last microbatch reads the largest token count, not the smallest."""

    def agreed_microbatching(
        self, wishes: Sequence[int], tokens: Sequence[int], padded: Sequence[int], config: Microbatching
    ) -> bool:
        return super().agreed_microbatching(wishes, [max(tokens)], padded, config)


class OffByOne(Source000):
    """The check for an empty last microbatch counts one real token too many."""

    def agreed_microbatching(
        self, wishes: Sequence[int], tokens: Sequence[int], padded: Sequence[int], config: Microbatching
    ) -> bool:
        return super().agreed_microbatching(wishes, [count + 1 for count in tokens], padded, config)


class AnyWish(Source000):
    """One rank's wish suffices for microbatches."""

    def agreed_microbatching(
        self, wishes: Sequence[int], tokens: Sequence[int], padded: Sequence[int], config: Microbatching
    ) -> bool:
        return super().agreed_microbatching([max(wishes)], tokens, padded, config)


class NeverPadsForSplitting(Release014):
    """Release 0.14 without padding of a split step."""

    def decide(self, table: HostArray, config: Microbatching) -> StepPlan:
        plan = super().decide(table, config)
        return plan._replace(num_tokens=self.padded_tokens(table[1].tolist(), bool(table[3][0] == 1)))


@pytest.mark.parametrize("wrong", [LargestMode, SmallestCount, LargestTokens, OffByOne, AnyWish])
def test_a_wrong_decision_is_found(wrong: type[BatchForm]) -> None:
    assert difference(10_000, (wrong(), naive_source_000)) is not None


def test_a_wrong_decision_of_0_14_is_found() -> None:
    assert difference(10_000, (NeverPadsForSplitting(), naive_0_14)) is not None
    assert difference(10_000, (Source000(), naive_0_14)) is not None
