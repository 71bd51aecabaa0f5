"""Tests plain lists of calls: which rank departs from the other members of a group."""

from __future__ import annotations

import pytest

from dpsim.checks.blame.plain_calls import in_one_group


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
