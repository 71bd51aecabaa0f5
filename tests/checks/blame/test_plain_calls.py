"""Tests plain lists of calls: which rank departs from the other members of a group, or from ranks with the same
history.
"""

from __future__ import annotations

import pytest

from dpsim.checks.blame.plain_calls import in_one_group, of_two


def words(*texts: str) -> dict[int, list[str]]:
    """Returns the calls of ranks 0, 1, ... as words."""
    return {rank: text.split() for rank, text in enumerate(texts)}


def test_equal_histories_do_not_part_and_one_that_ends_is_only_behind() -> None:
    assert in_one_group(words("a b c", "a b c")) is None
    assert in_one_group(words("a b c", "a b", "")) is None
    assert in_one_group({}) is None


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_the_minority_of_a_group_parts(odd: int) -> None:
    texts = ["a b a"] * 3
    texts[odd] = "a a"
    found = in_one_group(words(*texts))
    assert found is not None
    assert (found.ranks, found.at) == ((odd,), 1)


def test_a_member_that_is_behind_has_no_vote() -> None:
    found = in_one_group(words("a b", "a b", "a c", "a", "a"))
    assert found is not None
    assert found.ranks == (2,)


def test_without_a_majority_the_ground_has_all_sides() -> None:
    found = in_one_group(words("a b", "a c", "a"))
    assert found is not None
    assert (found.ranks, found.ground) == ((), ("rank 0 called b", "rank 1 called c"))


@pytest.mark.parametrize(("odd", "call"), [(4, "b s9"), (5, "w r9")])
def test_of_two_members_the_one_that_parts_from_its_cohort(odd: int, call: str) -> None:
    """Three groups of two ranks. One member of the last group departs from the ranks with the same earlier calls."""
    texts = ["b s8", "w r8"] * 3
    texts[odd] = call
    found = of_two(words(*texts), {4: 1, 5: 1})
    assert (found.ranks, found.at) == ((odd,), 1)
    assert f"{'ranks 0, 2' if odd == 4 else 'ranks 1, 3'}, with the same history, called otherwise" in found.ground


@pytest.mark.parametrize(
    "texts",
    [
        ["b s8", "w r8", "b s9", "w r8"],  # one other group is no cohort
        ["b s8", "w r8", "c s8", "x r8", "b s9", "w r8"],  # other ranks have another history
        ["b s8", "w r8", "b s9", "w r9", "b s9", "w r8"],  # the cohort is divided
        ["b s8", "w r8", "b s8", "w r8", "b s9", "w r9"],  # both depart
        ["b", "w", "b", "w", "b s9", "w r8"],  # the other ranks are behind
    ],
)
def test_no_rank_is_named_without_distinct_cohorts(texts: list[str]) -> None:
    last = len(texts)
    found = of_two(words(*texts), {last - 2: 1, last - 1: 1})
    assert found.ranks == ()
    assert found.ground


def test_a_member_without_a_cohort_is_not_odd_since_the_other_is_sound() -> None:
    """Rank 1 called the same as its cohort. Rank 0 has no cohort, so it may always call this; no rank is named."""
    found = of_two(words("b s9", "w r8", "w r8", "w r8"), {0: 1, 1: 1})
    assert found.ranks == ()
