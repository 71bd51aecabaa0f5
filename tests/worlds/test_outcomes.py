"""Tests that DPOR sees every outcome that any schedule has, in the cases of `cases` and in random ones.

The tests compare DPOR with brute force run by run and class by class. The two share only the machine.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from dpsim.contract.schedule import Footprint
from dpsim.explore.strategies import dpor as dpor_module
from dpsim.explore.strategies.dpor import Dpor
from tests.properties import nightly_but
from tests.worlds.brute import enumerate_schedules
from tests.worlds.case import Case
from tests.worlds.cases import CASES, by_schedules
from tests.worlds.explored import missed
from tests.worlds.random_threads import threaded_case
from tests.worlds.random_world import any_source_case, asking_case, losing_case, random_case

FAST = 150  # the largest number of schedules of a quick case
BLOCK = 25  # the random worlds of a test


@pytest.mark.parametrize("name", by_schedules(FAST))
def test_dpor_sees_every_outcome_and_no_class_twice(name: str) -> None:
    """Compares DPOR with brute force on one case. With slots to spare, DPOR learns only after a run that no op waited
    for a slot, but it misses no class.
    """
    assert missed(CASES[name]) == (0, 0, 0)


def blocks(first: int, last: int) -> list[Any]:
    """Returns the first seeds of blocks of random worlds. The first block is slow, and all others are nightly."""
    return nightly_but(range(first, last, BLOCK), lambda block: block == first)


@cache
def small_random_worlds(first: int, last: int, limit: int, waits: bool = False) -> list[Case]:
    cases = [random_case(seed, waits=waits) for seed in range(first, last)]
    return [case for case in cases if 1 < enumerate_schedules(case, limit).schedules < limit]


def test_dpor_sees_every_outcome_of_random_worlds() -> None:
    cases = small_random_worlds(0, 25, limit=50)
    assert len(cases) > 5
    for case in cases:
        outcomes, _, twice = missed(case)
        assert (outcomes, twice) == (0, 0), case.name


@pytest.mark.slow
def test_dpor_sees_every_outcome_where_some_may_finish_before_others_join() -> None:
    """Runs broadcasts, all_to_alls without elements and sends. Each may wait for its peers or not, independently."""
    cases = small_random_worlds(0, 25, limit=50, waits=True)
    assert len(cases) > 5
    for case in cases:
        assert missed(case) == (0, 0, 0), case.name


def small_any_source_worlds(first: int, last: int, limit: int) -> list[Case]:
    cases = [any_source_case(seed) for seed in range(first, last)]
    return [case for case in cases if 1 < enumerate_schedules(case, limit).schedules < limit]


def test_dpor_sees_every_outcome_where_ranks_receive_from_any_source() -> None:
    cases = small_any_source_worlds(0, 12, limit=40)
    assert len(cases) > 4
    for case in cases:
        assert missed(case) == (0, 0, 0), case.name


def test_late_offers_without_a_race_miss_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: DPOR ignores races with sends that arrive after a receive from any source has matched."""
    monkeypatch.setattr(Dpor, "lost", lambda *_: None)
    assert any(missed(case)[0] for case in small_any_source_worlds(0, 12, limit=40))


@pytest.mark.parametrize("first", blocks(0, 600))
def test_dpor_sees_every_outcome_of_many_worlds_that_receive_from_any_source(first: int) -> None:
    cases = small_any_source_worlds(first, first + BLOCK, limit=300)
    assert cases
    for case in cases:
        assert missed(case) == (0, 0, 0), case.name


def small_asking_worlds(first: int, last: int, limit: int) -> list[Case]:
    cases = [asking_case(seed) for seed in range(first, last)]
    return [case for case in cases if 1 < enumerate_schedules(case, limit).schedules < limit]


def test_dpor_sees_every_outcome_where_hosts_ask_for_their_calls() -> None:
    cases = small_asking_worlds(0, 20, limit=40)
    assert len(cases) > 1
    for case in cases:
        assert missed(case) == (0, 0, 0), case.name


def test_ends_of_calls_without_a_race_miss_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: DPOR ignores races with the op that ends a queried call."""
    turn_round = Dpor._turn_round

    def others(self: Dpor, label: str, races: list[Any], causes: int, end: int, footprint: Footprint) -> None:
        turn_round(self, label, [one for one in races if " sees " not in one.label + label], causes, end, footprint)

    monkeypatch.setattr(Dpor, "_turn_round", others)
    assert any(missed(case)[0] for case in small_asking_worlds(0, 20, limit=40))


@pytest.mark.parametrize("first", blocks(0, 600))
def test_dpor_sees_every_outcome_of_many_worlds_that_ask_for_their_calls(first: int) -> None:
    cases = small_asking_worlds(first, first + BLOCK, limit=300)
    assert cases
    for case in cases:
        assert missed(case) == (0, 0, 0), case.name


def small_losing_worlds(first: int, last: int, limit: int) -> list[Case]:
    cases = [losing_case(seed) for seed in range(first, last)]
    return [case for case in cases if 1 < enumerate_schedules(case, limit).schedules < limit]


@pytest.mark.slow
def test_dpor_sees_every_outcome_where_devices_stop() -> None:
    """Compares DPOR with brute force where devices stop. The faulty twins are in tests/sim/test_lost_devices.py."""
    cases = small_losing_worlds(0, 20, limit=30)
    assert len(cases) > 2
    for case in cases:
        assert missed(case) == (0, 0, 0), case.name


@pytest.mark.parametrize("first", blocks(1_000, 1_500))
def test_dpor_sees_every_outcome_of_many_worlds_where_devices_stop(first: int) -> None:
    cases = small_losing_worlds(first, first + BLOCK, limit=400)
    assert cases
    for case in cases:
        assert missed(case) == (0, 0, 0), case.name


@cache
def small_threaded_worlds(first: int, last: int, limit: int) -> list[Case]:
    cases = [threaded_case(seed) for seed in range(first, last)]
    return [case for case in cases if 1 < enumerate_schedules(case, limit).schedules < limit]


@pytest.mark.slow
def test_dpor_sees_every_outcome_where_ranks_have_threads() -> None:
    cases = small_threaded_worlds(0, 50, limit=25)
    assert len(cases) > 5
    for case in cases:
        outcomes, _, twice = missed(case)
        assert (outcomes, twice) == (0, 0), case.name


@pytest.mark.slow
def test_turns_without_a_choice_miss_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: DPOR treats turns of two threads of a rank as independent."""
    turn_round = Dpor._turn_round

    def others(self: Dpor, label: str, races: list[Any], causes: int, end: int, footprint: Footprint) -> None:
        turn_round(self, label, [] if " reaches " in label else races, causes, end, footprint)

    monkeypatch.setattr(Dpor, "_turn_round", others)
    assert any(missed(case)[0] for case in small_threaded_worlds(0, 50, limit=25))


@pytest.mark.parametrize("first", blocks(1_000, 1_400))
def test_dpor_sees_every_outcome_of_many_worlds_with_threads(first: int) -> None:
    cases = small_threaded_worlds(first, first + BLOCK, limit=150)
    assert cases
    for case in cases:
        outcomes, _, twice = missed(case)
        assert (outcomes, twice) == (0, 0), case.name


@pytest.mark.slow
def test_a_search_without_waits_misses_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: DPOR tries no wait that lasts to the end. tests/explore/test_draws.py has cases for the rule
    that selects the waits to try.
    """
    monkeypatch.setattr(dpor_module, "lasting", lambda waits: [])
    assert any(missed(case)[0] for case in small_random_worlds(0, 70, limit=50, waits=True))


@pytest.mark.parametrize("first", blocks(5_000, 5_600))
def test_dpor_sees_every_outcome_of_many_worlds_with_waits(first: int) -> None:
    cases = small_random_worlds(first, first + BLOCK, limit=300, waits=True)
    assert cases
    for case in cases:
        assert missed(case) == (0, 0, 0), case.name


@pytest.mark.parametrize("first", blocks(1_000, 1_300))
def test_dpor_sees_every_outcome_of_many_random_worlds(first: int) -> None:
    cases = small_random_worlds(first, first + BLOCK, limit=150)
    assert cases
    for case in cases:
        outcomes, _, twice = missed(case)
        assert (outcomes, twice) == (0, 0), case.name


def test_without_races_with_deliveries_polls_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    turn_round = Dpor._turn_round

    def others(self: Dpor, label: str, races: list[Any], causes: int, end: int, footprint: Footprint) -> None:
        turn_round(self, label, [] if "delivers" in label else races, causes, end, footprint)

    monkeypatch.setattr(Dpor, "_turn_round", others)
    assert missed(CASES["dp_wave_skip 2x1"])[0]
