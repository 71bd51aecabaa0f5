"""Tests shortcuts of the checks: of several equal ranks they compare only one. On random journals the result equals
that of a comparison of all pairs of ranks.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Any

import pytest

from dpsim.checks import crosswise
from dpsim.checks.apart import Members
from dpsim.checks.blame import cohorts, extra_calls, meetings
from dpsim.checks.blame.steps import name_of
from dpsim.checks.judge import judge
from dpsim.checks.run_index import RunIndex
from tests.checks.handmade import Made

WORLDS = 200
RANKS = 5


def drawn(seed: int) -> RunIndex:
    """Draws ranks that mostly make the same calls, on one or two threads, with roots or without."""
    draw = random.Random(seed)
    made = Made(RANKS)
    rooted = draw.random() < 0.3
    steps = [
        [(draw.choice("abc"), draw.choice(["main", "other"])) for _ in range(draw.randint(1, 4))]
        for _ in range(draw.randint(1, 3))
    ]
    for rank in range(RANKS):
        own = made[rank]
        for own.step, calls in enumerate(steps):
            for site, own.thread in calls:
                for name in alter(draw, site):
                    root: dict[str, Any] = {"op": "broadcast", "root": draw.randrange(2)} if rooted else {}
                    own.collective("dp", None, site=name, **root)
    return RunIndex.of(made.world, made.run(*draw.choices(["blocked", "finished"], k=RANKS)))


def alter(draw: random.Random, site: str) -> list[str]:
    """Returns the sites that a rank calls in place of `site`: now and then twice, none, or another one."""
    if draw.random() < 0.9:
        return [site]
    return draw.choice([[], [site, site], ["d"]])


def parting(index: RunIndex) -> Any:
    members = index.collectives.get("dp", {})
    found = extra_calls._first_parting(index, "dp", members)
    return found and (found.step, found.at, [*found.lists])


def of_pairs(index: RunIndex) -> Any:
    """Computes `parting` by comparing all pairs of ranks."""
    members = index.collectives.get("dp", {})
    steps = Members(members).steps
    for step in sorted({step for own in steps.values() for step in own}):
        lists = {rank: own[step] for rank, own in steps.items() if step in own}
        at = [
            place
            for one, other in combinations(lists, 2)
            for place in extra_calls._apart(index, Members(members), step, lists[one], lists[other])
        ]
        if at:
            return step, min(at), [*lists]
    return None


def unlike_rows(seeds: range) -> list[int]:
    return [seed for seed in seeds if parting(index := drawn(seed)) != of_pairs(index)]


def test_a_parting_of_unlike_ranks_is_that_of_all_pairs() -> None:
    assert not unlike_rows(range(WORLDS))
    assert 20 < sum(of_pairs(drawn(seed)) is not None for seed in range(WORLDS)) < WORLDS


def test_twin_ranks_count_as_alike_by_their_number_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def alike(index: Any, step: int, lists: dict[int, list[Any]], kinds: Any) -> list[int]:
        return [*{len(own): rank for rank, own in lists.items()}.values()]

    monkeypatch.setattr(extra_calls, "_unlike", alike)
    assert unlike_rows(range(WORLDS))


def met_by_pairs(index: RunIndex) -> dict[Any, dict[Any, int]]:
    counts: Counter[Any] = Counter()
    for calls in meetings.meetings(index):
        names = [name_of(entry.raw) for entry in calls]
        counts.update((one, other) for at, one in enumerate(names) for to, other in enumerate(names) if at != to)
    found: dict[Any, dict[Any, int]] = {}
    for (one, other), number in counts.items():
        found.setdefault(one, {})[other] = number
    return found


def test_names_meet_as_often_as_calls() -> None:
    for seed in range(WORLDS):
        assert meetings.Partners(index := drawn(seed))._met == met_by_pairs(index)


def is_new_by_rows(rows: Any, rank: int, at: int) -> bool:
    for of in (cohorts._token, cohorts._line):
        before, own = of(rows[rank][at - 1]), of(rows[rank][at])
        follow = {
            of(second)
            for row in rows.values()
            for place, (first, second) in enumerate(pairwise(row), 1)
            if place != at and of(first) == before
        }
        if follow:
            return own not in follow
    return False


def test_the_fast_test_for_a_new_call_agrees_with_the_definition() -> None:
    seen = set()
    for seed in range(WORLDS):
        rows = cohorts._rows(drawn(seed))
        for at in range(1, max(map(len, rows.values()), default=0)):
            followers = [(of, cohorts._followers(rows, of, at)) for of in (cohorts._token, cohorts._line)]
            for rank, row in rows.items():
                if at < len(row):
                    new = cohorts._is_new(row, at, followers)
                    assert new == is_new_by_rows(rows, rank, at)
                    seen.add(new)
    assert seen == {True, False}


def test_the_comparison_of_many_ranks_is_not_quadratic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the comparisons of a run in which one rank leaves a call out. Twice the ranks need about twice the
    comparisons, not four times.
    """

    def looks(ranks: int) -> int:
        calls: list[int] = []
        monkeypatch.setattr(extra_calls, "_apart", counting(calls, APART))
        monkeypatch.setattr(crosswise, "_sites", counting(calls, SITES))
        made = Made(ranks)
        for rank in range(ranks):
            for made[rank].step in range(4):
                for site in ("a", "b"):
                    if (rank, made[rank].step, site) != (1, 2, "a"):
                        made[rank].collective("dp", None, site=site)
        judge(made.world, made.run(*["blocked"] * ranks))
        return len(calls)

    assert looks(32) <= 2 * looks(16) + 16


APART, SITES = extra_calls._apart, crosswise._sites


def counting(calls: list[int], real: Callable[..., Any]) -> Callable[..., Any]:
    def count(*args: Any) -> Any:
        calls.append(1)
        return real(*args)

    return count
