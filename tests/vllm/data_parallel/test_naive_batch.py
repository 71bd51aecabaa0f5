"""Tests of the naive batch agreement (naive_batch.py) with rows A-1 to A-9 in Appendix A of the specification."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.vllm.data_parallel.naive_batch import (
    Decision,
    RankInput,
    naive_0_14,
    naive_last_microbatch_empty,
    naive_source_000,
    naive_wish,
)

NONE, PIECEWISE, FULL = 0, 1, 2


class Config(NamedTuple):
    """The fields of the microbatching configuration that the rows set (specification 3.1)."""

    use_microbatching: bool
    microbatches: int
    decode_threshold: int = 32
    prefill_threshold: int = 512


NO_DBO = Config(use_microbatching=False, microbatches=1)
DBO = Config(use_microbatching=True, microbatches=2)
THREE = Config(use_microbatching=True, microbatches=3, prefill_threshold=32)


class Local(NamedTuple):
    """One rank of a row, before its wish is computed."""

    unpadded: int
    padded: int
    mode: int
    uniform: bool = True
    allow: bool = True


class Row(NamedTuple):
    """A row of Appendix A, or one half of it. `wishes` and `last_empty` are the reasons for its result.

    `v0_14` is set if release 0.14 decides differently.
    """

    name: str
    config: Config
    ranks: list[Local]
    wishes: list[bool]
    source_000: Decision
    v0_14: Decision | None = None
    last_empty: bool | None = None


def prefill(tokens: int, allow: bool = True) -> Local:
    """Returns a rank with a prefill that is larger than every graph."""
    return Local(tokens, tokens, NONE, uniform=False, allow=allow)


ROWS = [
    Row("A-1", NO_DBO, [Local(3, 4, FULL)], [False], Decision(False, None, FULL)),
    Row("A-2", NO_DBO, [Local(3, 4, FULL), Local(7, 8, FULL)], [False, False], Decision(False, (8, 8), FULL)),
    Row(
        "A-3",
        NO_DBO,
        [Local(5, 8, FULL), Local(60, 64, PIECEWISE, uniform=False)],
        [False, False],
        Decision(False, (64, 64), PIECEWISE),
    ),
    Row(
        "A-4",
        NO_DBO,
        [Local(3, 4, FULL), prefill(900)],
        [False, False],
        Decision(False, (4, 900), NONE),
        v0_14=Decision(False, (900, 900), NONE),
    ),
    Row(
        "A-5",
        DBO,
        [Local(40, 40, FULL), Local(64, 64, FULL)],
        [True, True],
        Decision(True, (64, 64), FULL),
        last_empty=False,
    ),
    Row("A-6", DBO, [Local(20, 24, FULL), Local(64, 64, FULL)], [False, True], Decision(False, (64, 64), FULL)),
    Row(
        "A-7 r0 32",
        DBO,
        [Local(32, 32, FULL), Local(64, 64, FULL)],
        [True, True],
        Decision(False, (64, 64), FULL),
        last_empty=True,
    ),
    Row(
        "A-7 r0 33",
        DBO,
        [Local(33, 40, FULL), Local(64, 64, FULL)],
        [True, True],
        Decision(True, (64, 64), FULL),
        last_empty=False,
    ),
    Row(
        "A-8",
        DBO,
        [prefill(600), prefill(1000)],
        [True, True],
        Decision(True, (1000, 1000), NONE),
        last_empty=False,
    ),
    Row(
        "A-8 r0 may not",
        DBO,
        [prefill(600, allow=False), prefill(1000)],
        [False, True],
        Decision(False, (600, 1000), NONE),
        v0_14=Decision(False, (1000, 1000), NONE),
    ),
    Row(
        "A-9 (a)",
        THREE,
        [prefill(66), prefill(100)],
        [True, True],
        Decision(False, (66, 100), NONE),
        v0_14=Decision(False, (100, 100), NONE),
        last_empty=True,
    ),
    Row(
        "A-9 (b)",
        THREE,
        [prefill(67), prefill(100)],
        [True, True],
        Decision(True, (100, 100), NONE),
        last_empty=False,
    ),
]


def wish(local: Local, config: Config) -> bool:
    """Returns whether one rank of a row wishes to microbatch."""
    return naive_wish(
        tokens=local.unpadded,
        uniform=local.uniform,
        allow=local.allow,
        use_microbatching=config.use_microbatching,
        decode_threshold=config.decode_threshold,
        prefill_threshold=config.prefill_threshold,
    )


def inputs(row: Row) -> list[RankInput]:
    """Returns what the ranks of a row send.

    In every row, the configured mode is not NONE, so ranks of release 0.14 want padding (specification 1.5).
    """
    return [RankInput(r.unpadded, r.padded, wish(r, row.config), True, r.mode) for r in row.ranks]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_naive_agreement_decides_each_row_as_source_000(row: Row) -> None:
    """The naive agreement decides each row as source page 000 does, and so as releases 0.17 to 0.33 do."""
    assert naive_source_000(inputs(row), row.config.microbatches) == row.source_000


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_naive_agreement_decides_each_row_as_release_0_14(row: Row) -> None:
    """The naive agreement of release 0.14 decides each row as that release does."""
    assert naive_0_14(inputs(row), row.config.microbatches) == (row.v0_14 or row.source_000)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_naive_ranks_have_the_wishes_of_each_row(row: Row) -> None:
    """The ranks of each row have the wishes that the row gives. Row A-6 fails on a threshold."""
    assert [wish(local, row.config) for local in row.ranks] == row.wishes


@pytest.mark.parametrize("row", [row for row in ROWS if row.last_empty is not None], ids=lambda row: row.name)
def test_the_last_microbatch_is_empty_exactly_where_the_row_says(row: Row) -> None:
    """If all ranks of a row wish to split, the last microbatch is empty exactly where the row gives this reason."""
    umin = min(local.unpadded for local in row.ranks)
    pmax = max(local.padded for local in row.ranks)
    assert naive_last_microbatch_empty(umin, pmax, row.config.microbatches) is row.last_empty


@pytest.mark.parametrize("microbatches", range(1, 6))
def test_counting_agrees_with_the_formula(microbatches: int) -> None:
    """Counting tokens gives the same result as the formula of specification 1.5.4."""
    for padded in range(1, 50):
        for unpadded in range(1, padded + 1):
            expected = padded // microbatches * (microbatches - 1) >= unpadded
            assert naive_last_microbatch_empty(unpadded, padded, microbatches) is expected


@pytest.mark.parametrize(
    ("tokens", "uniform", "expected"),
    [(31, True, False), (32, True, True), (511, False, False), (512, False, True)],
)
def test_a_threshold_is_reached_by_equality(tokens: int, uniform: bool, expected: int) -> None:
    """A rank with exactly as many tokens as the threshold wishes to split (specification 3.2: "at least")."""
    assert wish(Local(tokens, tokens, FULL, uniform=uniform), DBO) is expected


def test_0_14_without_padding() -> None:
    """Without the wish for padding, release 0.14 pads only a microbatched step, in every mode (specification 1.5)."""
    apart = [RankInput(40, 40, False, False, FULL), RankInput(64, 64, True, False, FULL)]
    assert naive_0_14(apart, 2) == Decision(False, (40, 64), FULL)
    together = [rank._replace(wants_microbatching=True) for rank in apart]
    assert naive_0_14(together, 2) == Decision(True, (64, 64), FULL)


@pytest.mark.parametrize("decide", [naive_source_000, naive_0_14])
def test_the_naive_agreement_refuses_fewer_padded_than_unpadded_tokens(
    decide: Callable[[list[RankInput], int], Decision],
) -> None:
    """The naive agreements refuse a padded count below the unpadded count (specification 1.3)."""
    with pytest.raises(AssertionError, match="fewer padded"):
        decide([RankInput(5, 4, False, True, FULL), RankInput(4, 4, False, True, FULL)], 1)


def test_the_naive_agreement_of_0_14_refuses_ranks_that_differ_about_padding() -> None:
    """Release 0.14 asserts that all ranks sent the same wish for padding; source page 000 ignores the wish (1.5)."""
    ranks = [RankInput(3, 4, False, True, FULL), RankInput(7, 8, False, False, FULL)]
    with pytest.raises(AssertionError, match="want padding"):
        naive_0_14(ranks, 1)
    assert naive_source_000(ranks, 1) == Decision(False, (8, 8), FULL)
