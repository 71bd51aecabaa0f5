"""Tests the op that an actor reached and did not make. The finding names it only if the run shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsim.checks.blame.reached import reached
from dpsim.checks.run_index import RunIndex
from tests.checks.handmade import Hand, Made


def reached_place(made: Made, rank: int, *ends: str, steps_set: tuple[int, ...] = ()) -> tuple[int, str]:
    run = replace(made.run(*ends), steps_set=steps_set)
    culprit = reached(RunIndex.of(made.world, run), rank)
    return culprit.step, culprit.site


def step(hand: Hand, number: int, *sites: str) -> None:
    hand.step = number
    for site in sites:
        hand.launch(site, "main")


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        (["a b c", "a b c"], (2, "c")),  # c follows a and b
        (["a b c", "a b d"], (2, "b")),  # c or d follows, so the next op is unknown
        (["a b c", "x b d"], (2, "c")),  # b after x is another place
        (["a b", "a b"], (3, "a")),  # the first op of the next step
    ],
)
def test_the_op_that_follows_in_other_steps_is_the_one_reached(others: list[str], expected: tuple[int, str]) -> None:
    made = Made(2)
    for number, sites in enumerate(others):
        step(made[0], number, *sites.split())
        step(made[1], number, *sites.split())
    step(made[0], 2, "a", "b")
    assert reached_place(made, 0, "died", "finished") == expected


@pytest.mark.parametrize(("word", "expected"), [("run", "execute"), ("stop", "leave"), ("pause", "get")])
def test_learned_values_distinguish_places(word: str, expected: str) -> None:
    made = Made(1)
    for message, site in (("run", "execute"), ("stop", "leave"), ("run", "execute")):
        made[0].learned(made[0].take(), (message, 1))
        made[0].launch(site, "main")
    made[0].learned(made[0].take(), (word, 2))
    assert reached_place(made, 0, "died") == (0, expected)


@pytest.mark.parametrize(("steps_set", "expected"), [((), (-1, "start")), ((4,), (4, "start"))])
def test_an_actor_that_did_nothing(steps_set: tuple[int, ...], expected: tuple[int, str]) -> None:
    assert reached_place(Made(1), 0, "blocked", steps_set=steps_set) == expected


@pytest.mark.parametrize(("steps_set", "expected"), [((), (3, "a")), ((3,), (3, "a")), ((2,), (2, "b"))])
def test_a_step_that_the_program_did_not_set_was_not_reached(
    steps_set: tuple[int, ...], expected: tuple[int, str]
) -> None:
    made = Made(1)
    for number in range(3):
        step(made[0], number, "a", "b")
    assert reached_place(made, 0, "died", steps_set=steps_set) == expected


@pytest.mark.parametrize(("what", "expected"), [("die", (0, "c")), ("delay", (0, "b"))])
def test_a_planted_death_has_a_record_of_its_op(what: str, expected: tuple[int, str]) -> None:
    made = Made(1)
    step(made[0], 0, "a", "b", "a")
    made[0].note("injected", "c", what=what)
    assert reached_place(made, 0, "died") == expected
