"""Tests the normal form of a failing run, and its short name, the fingerprint.

The normal form contains only the steps that caused the failure, with few switches between actors. It is equal for all
schedules of a class, which differ only in the order of steps that commute.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict

import pytest

from dpsim.contract.events import actor
from dpsim.contract.schedule import Strategy
from dpsim.explore import Budget, Problem, explore
from dpsim.explore.normal_form import fingerprint, folded, normal_form, switches
from dpsim.explore.order import Step
from dpsim.explore.strategies.base import Picker
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.explore.strategies.walks import RandomWalk
from tests.explore.toy import Toy, at_random


def runs(toy: Toy, number: int) -> list[tuple[Picker, object]]:
    """Returns random runs, each with its outcome. All runs share one table of labels, so their bit masks are
    comparable.
    """
    first = RandomWalk()
    found: list[tuple[Picker, object]] = []
    for seed in range(number):
        walk = RandomWalk(first.labels, seed=seed)
        walk.begin()
        found.append((walk, toy.run(walk).outcome))
    return found


def labels(steps: list[Step]) -> list[str]:
    return [step.label for step in steps]


@pytest.mark.parametrize("seed", range(12))
def test_each_class_has_one_normal_form_which_is_one_of_its_schedules(seed: int) -> None:
    toy = at_random(seed)
    forms = defaultdict(set)
    for walk, outcome in runs(toy, 60):
        form = labels(normal_form(walk.order.steps))
        forms[walk.order.class_key()].add(tuple(form))
        assert sorted(form) == sorted(labels(walk.order.steps))
        draws = [word for word in walk.schedule if "draw" in word]
        replay = ScheduleReplay([*draws, *form], strict=False)
        replay.begin()
        assert toy.run(replay).outcome == outcome, "it shows the same"
        replay.end(True)
        assert (replay.skipped, replay.added) == ([], [])
        assert switches(form) <= switches([word for word in walk.schedule if "draw" not in word]) + 1
    assert all(len(form) == 1 for form in forms.values())


def by_definition(steps: list[Step]) -> list[str]:
    """Returns the labels of the normal form, and looks at all steps for each one."""
    left, wanted, done, order = [*steps], sum(step.bit for step in steps), 0, list[str]()
    while left:
        enabled = [step for step in left if not step.causes & wanted & ~done & ~step.bit]
        own = [step for step in enabled if order and actor(step.label) == actor(order[-1])]
        step = min(own or enabled, key=lambda one: one.label)
        left.remove(step)
        order.append(step.label)
        done |= step.bit
    return order


@pytest.mark.parametrize("seed", range(12))
def test_the_normal_form_is_that_of_its_definition(seed: int) -> None:
    """Compares normal forms of whole runs, and of the causes of each of their steps."""
    for walk, _ in runs(at_random(seed), 10):
        steps = walk.order.steps
        assert labels(normal_form(steps)) == by_definition(steps)
        for last in steps:
            past = [step for step in steps if step.bit & last.causes]
            assert labels(normal_form(steps, last.causes)) == by_definition(past)


def test_a_normal_form_switches_actors_as_rarely_as_possible() -> None:
    """Two actors share only one write and one read. The schedule switches actors at each step, and its normal form
    switches once.
    """
    toy = Toy("ra rb wx rc", "rd re rx rf")
    words = [["ra", "rb", "wx", "rc"], ["rd", "re", "rx", "rf"]]
    noted = [f"rank {rank} {words[rank][at]}[{at}]" for at in range(4) for rank in (0, 1)]
    replay = ScheduleReplay(noted)
    replay.begin()
    toy.run(replay)
    form = labels(normal_form(replay.order.steps))
    assert (switches(noted), switches(form)) == (7, 1)
    assert form == [f"rank {rank} {words[rank][at]}[{at}]" for rank in (0, 1) for at in range(4)]


def failing_reads(toy: Toy, value: str) -> list[tuple[str, list[str], str]]:
    """Returns the class of failure, the normal form and the fingerprint of the failing runs among random ones. A run
    fails if rank 1 reads x and the last write of x was `value`.
    """
    found = []

    def once(strategy: Strategy) -> list[Problem]:
        assert isinstance(strategy, Picker)
        seen = toy.run(strategy)
        step = next(step for step in strategy.order.steps if step.label.startswith("rank 1 rx"))
        views = seen.outcome[0:] if isinstance(seen.outcome, tuple) else ()
        bad = any(view[0] == 1 and view[2] == "r" and view[3][-1:] == (value,) for view in views if len(view) == 4)
        return [Problem("WRONG", "wrong value", step.causes)] * bad

    for seed in range(30):
        result = explore(once, RandomWalk(seed=seed), Budget(20))
        for failure in result.failures.values():
            found.append((failure.problem.what, failure.normal, failure.fingerprint))
    return found


def test_unrelated_actors_are_left_out() -> None:
    """The failure is a read between two writes. With four unrelated actors beside it, the normal form still has the
    same two steps and the same fingerprint.
    """
    alone = failing_reads(Toy("wx wx", "rx"), "0.0")
    among = failing_reads(Toy("wx wx", "rx", "wa wa", "wb wb", "rc rc", "wd wd"), "0.0")
    assert len(alone) == len(among) == 30
    assert {tuple(form) for _, form, _ in among} == {("rank 0 wx[0]", "rank 1 rx[0]")}
    assert {name for _, _, name in alone} == {name for _, _, name in among}


def test_two_ways_to_fail_have_two_names() -> None:
    """If the causes of the same failure include another step, the fingerprint is different."""
    other = failing_reads(Toy("wx wx", "ra rx"), "0.0")
    assert {tuple(form) for _, form, _ in other} == {("rank 0 wx[0]", "rank 1 ra[0]", "rank 1 rx[1]")}
    assert not {name for _, _, name in other} & {name for _, _, name in failing_reads(Toy("wx wx", "rx"), "0.0")}


def test_many_schedules_that_fail_alike_are_one_failure() -> None:
    toy = Toy("wx wx", "rx", "wa", "wb")

    def once(strategy: Strategy) -> list[Problem]:
        toy.run(strategy)
        return [Problem("HANG", "hang")]

    result = explore(once, RandomWalk(), Budget(50, stop_at_first=False))
    assert (result.verdict, [one.seen for one in result.failures.values()]) == ("violated", [50])
    assert result.summary().startswith("violated: 1 failure; 50 schedules (3 classes)")


def test_the_draws_of_a_failure_are_in_its_form() -> None:
    """The normal form includes draws. Without them a replay would draw differently and not show the failure."""
    toy = Toy("?x", "rx")

    def once(strategy: Strategy) -> list[Problem]:
        assert isinstance(strategy, Picker)
        toy.run(strategy)
        return [Problem("WROTE", "wrote")] * any("writes" in word for word in strategy.schedule)

    (failure,) = explore(once, RandomWalk(), Budget(50)).failures.values()
    assert failure.normal[0] == "rank 0 draw[0]: writes"
    assert len(failure.normal) == 3


def test_the_name_is_of_what_failed_and_how() -> None:
    names = [
        fingerprint("HANG", ["a"]),
        fingerprint("HANG", ["b"]),
        fingerprint("RACE", ["a"]),
        fingerprint("HANG", []),
    ]
    assert len({*names}) == 4
    assert all(len(name) == 8 for name in names)


# ---- the printed form, in which repeated steps are counted


def turns(number: int) -> list[str]:
    return [f"rank {rank} poll[{at}]" for at in range(number) for rank in (0, 1)]


@pytest.mark.parametrize(
    ("steps", "lines"),
    [
        ([], []),
        (turns(2), turns(2)),
        (["rank 0 starts #1", "rank 1 starts #1"], ["rank 0 starts #1", "rank 1 starts #1"]),
        ([*turns(512), "end"], [*turns(1), "... these 2 choices 511 times more, up to rank 1 poll[511]", "end"]),
        (
            ["begin", *(f"rank 0 goes on #{at}" for at in range(9)), *turns(4)],
            [
                *["begin", "rank 0 goes on #0", "... this choice 8 times more, up to rank 0 goes on #8"],
                *[*turns(1), "... these 2 choices 3 times more, up to rank 1 poll[3]"],
            ],
        ),
    ],
)
def test_repeated_steps_are_folded_and_counted(steps: list[str], lines: list[str]) -> None:
    assert folded(steps) == lines


def test_steps_of_other_ranks_sites_or_communicators_are_not_alike() -> None:
    steps = [f"rank {number} poll[0]" for number in range(9)] + [f"rank 0 at.{number}[0]" for number in range(9)]
    steps += [f"dp{number} #0" for number in range(9)]
    assert folded(steps) == steps


@pytest.mark.parametrize("seed", range(20))
def test_folding_loses_no_step(seed: int) -> None:
    """The printed lines and the counted repetitions together account for every step, in order."""
    draw = random.Random(seed)
    steps = [f"rank {draw.randrange(2)} poll[{at}]" for at in range(200)]
    at = 0
    for line in folded(steps):
        again = re.fullmatch(
            r"\.\.\. th(?:is|ese)(?: (\d+))? choices? (\d+|twice|once)(?: times)? more, up to (.*)", line
        )
        if again is None:
            assert line == steps[at]
            at += 1
            continue
        at += int(again[1] or 1) * {"once": 1, "twice": 2}.get(again[2], int(again[2]) if again[2].isdigit() else 0)
        assert steps[at - 1] == again[3]
    assert at == len(steps)
