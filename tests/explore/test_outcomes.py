"""Tests the set of outcomes: an outcome of some run is in it, and any other one names where it leaves the set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dpsim.explore.outcomes import LeavesSet, Outcomes

Lists = dict[str, list[str]]

LISTS = st.fixed_dictionaries({actor: st.lists(st.sampled_from("ab"), max_size=3) for actor in ("r0", "r1")})


def of(*runs: Lists) -> Outcomes:
    outcomes = Outcomes()
    for one in runs:
        outcomes.add(one)
    return outcomes


@given(st.lists(LISTS, max_size=6), LISTS)
def test_a_set_knows_exactly_the_runs_that_were_added(runs: list[Lists], other: Lists) -> None:
    assert (not of(*runs).unlike(other)) == (other in runs)


@given(st.lists(LISTS, max_size=4), st.lists(LISTS, max_size=4), LISTS)
def test_two_sets_joined_are_the_set_of_all_runs(runs: list[Lists], more: list[Lists], other: Lists) -> None:
    joined, both = of(*runs), of(*runs, *more)
    joined.join(of(*more))
    assert (joined.whole, joined.after) == (both.whole, both.after)
    assert joined.unlike(other) == both.unlike(other)


def test_a_departure_names_its_place_and_what_came_there() -> None:
    outcomes = of({"r0": ["a", "b"], "r1": []}, {"r0": ["a", "c"], "r1": []})
    assert outcomes.unlike({"r0": ["a", "d"], "r1": []}) == [LeavesSet("r0", 1, ("b", "c"))]
    assert outcomes.unlike({"r0": ["a"], "r1": ["x"]}) == [LeavesSet("r1", 0, ())]
    assert outcomes.next_words("r0", ["a"]) == ("b", "c")


def test_ranks_that_were_never_so_together_all_depart() -> None:
    """The faulty twin keeps the lists of each rank alone: it knows this outcome."""
    runs = [{"r0": ["a"], "r1": ["a"], "r2": ["z"]}, {"r0": ["b"], "r1": ["b"], "r2": ["z"]}]
    mixed = {"r0": ["a"], "r1": ["b"], "r2": ["z"]}
    [only] = of(*runs).unlike(mixed)
    assert (only.actor in ("r0", "r1"), only.at, only.seen) == (True, 1, ())
    for actor in mixed:
        alone = of(*({actor: one[actor]} for one in runs))
        assert not alone.unlike({actor: mixed[actor]})
