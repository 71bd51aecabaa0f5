"""Tests of every schedule of each small case: a healthy program has no finding in any, a bug shows in some but not in
all.

Other tests compare explorers with these counts, so the counts are part of the tests. They change only if the machine
offers other choices.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsim.checks.finding import matches
from tests.answers import Answers
from tests.worlds import last_class, pipeline, wake_pause
from tests.worlds.brute import Answering, enumerate_schedules, outcome_of, schedules
from tests.worlds.case import execute, faults, unrelated
from tests.worlds.cases import CASES, COUNTED, by_schedules
from tests.worlds.commute import Walk

FAST = 500  # the largest number of schedules of a quick case


@pytest.mark.parametrize("name", by_schedules(FAST))
def test_brute_force_counts_the_schedules_and_outcomes_of_each_world(name: str) -> None:
    case = CASES[name]
    found = enumerate_schedules(case)
    assert found.complete
    assert not found.broken, found.broken[0]
    assert not found.torn, "one class, two outcomes"
    assert found.row == COUNTED[name]
    classes = {klass for outcome in found.outcomes.values() for klass in outcome}
    if case.bug is None:
        assert not classes
    else:
        assert any(matches(klass, case.bug) for klass in classes)
        assert (found.failing == found.schedules) == case.always, f"{found.failing} of {found.schedules} fail"
        assert found.failing


@pytest.mark.parametrize("name", [name for name in CASES if name not in COUNTED])
def test_large_worlds_sampled(name: str) -> None:
    """Runs random schedules of the cases that have too many to count. A healthy program has no finding in any
    schedule.
    """
    case, bad = CASES[name], 0
    for seed in range(20):
        walk = Walk(seed, at_random=True)
        found = faults(case, execute(case, walk))
        assert not walk.broken, walk.broken[0]
        bad += bool(found)
        assert not found if case.bug is None else not found or any(matches(klass, case.bug) for klass in found)
    assert bad < 20, "no bug shows in every schedule"


@pytest.mark.parametrize("name", sorted(COUNTED, key=lambda name: COUNTED[name])[::3])
def test_the_same_answers_give_the_same_run(name: str) -> None:
    for number, (strategy, run) in enumerate(schedules(CASES[name])):
        again = Answering(Answers(strategy.answers.made))
        assert outcome_of(execute(CASES[name], again)) == outcome_of(run)
        assert (again.fired, again.answers.options, again.draws) == (
            strategy.fired,
            strategy.answers.options,
            strategy.draws,
        )
        if number == 30:
            break


def test_each_target_is_one_class_and_together_they_are_all() -> None:
    seen = set()
    for target in last_class.targets():
        found = enumerate_schedules(last_class.case(target))
        failing = [order for order, outcome in found.classes.items() if found.outcomes[outcome]]
        assert len(failing) == 1
        seen.add(frozenset(label for label in failing[0] if isinstance(label, tuple) and len(label) == 3))
    assert len(seen) == len(last_class.targets()) == 9


@pytest.mark.slow
def test_unrelated_ranks_add_schedules_and_no_classes() -> None:
    case = CASES["residency 2 ranks 1 slots 2 streams"]
    alone, beside = enumerate_schedules(case), enumerate_schedules(unrelated(case, 1))
    assert beside.row == (2184, 4, 2, 24)
    assert len(alone.classes) == len(beside.classes)


def test_a_stale_wake_needs_two_steps() -> None:
    """Checks that with one step the stale wake never shows: no rank polls its mailbox while it runs, so no wake is
    late.
    """
    assert enumerate_schedules(wake_pause.case(2, 1, bug=True)).failing == 0


def test_the_count_of_small_pipelines() -> None:
    assert sum(1 for _ in pipeline.small_scopes()) == 6_768


def bad_scopes(bug: str | None, every: int) -> tuple[int, int]:
    """Runs every `every`-th small pipeline. Returns their number, and how many of them fail. The only choice is whether
    the roots of broadcasts wait, and this changes no outcome.
    """
    scopes = list(pipeline.small_scopes())[::every]
    bad = 0
    for scope in scopes:
        case = pipeline.case(scope, bug)
        eager, strict = Answering(Answers()), Answering(Answers([1] * 2))
        run = execute(case, eager)
        assert not eager.fired
        assert outcome_of(execute(case, strict)) == outcome_of(run)
        bad += not run.finished
    return len(scopes), bad


@pytest.mark.slow
@pytest.mark.parametrize(("bug", "bad"), [(None, 0), ("generation", 7)])
def test_some_small_pipelines(bug: str | None, bad: int) -> None:
    assert bad_scopes(bug, 20) == (339, bad)


@pytest.mark.nightly
@pytest.mark.parametrize(("bug", "bad"), [(None, 0), ("generation", 82)])
def test_all_small_pipelines(bug: str | None, bad: int) -> None:
    """Runs all 6,768 small pipelines. The bug shows in only 82 of them, so a search must find the parameters, not the
    schedule.
    """
    assert bad_scopes(bug, 1) == (6_768, bad)


def test_a_wrong_count_would_be_seen() -> None:
    """The faulty twin: the same program with two steps instead of one has other counts."""
    case = CASES["dp_wave_skip 2x1"]
    assert enumerate_schedules(replace(case, args=(2, 2))).row != enumerate_schedules(case).row
