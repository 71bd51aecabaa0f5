"""Tests groups of two members: which member left a collective out or made it twice, by the other steps of each
member.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.ops import STEP
from tests.checks.blame.lines import primary
from tests.checks.handmade import Made


def group(numbers: dict[int, tuple[int, int]], work: bool = True) -> Made:
    """Returns five steps of two ranks. `numbers`: how often ranks 0 and 1 call their collective in a step, default
    once. With `work`, each step also has two kernels.
    """
    made = Made(2)
    for step in range(5):
        for hand, number in zip(made.hands, numbers.get(step, (1, 1)), strict=True):
            hand.step = step
            for site in ("layers", "norm") if work else ():
                hand.launch(site, "main")
            for _ in range(number):
                hand.collective("dp", "main")
    return made


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(("number", "klass"), [(0, "MISSING_RANK"), (2, "EXTRA_CALL")])
def test_a_member_of_two(rank: int, number: int, klass: str) -> None:
    numbers = (number, 1) if rank == 0 else (1, number)
    found, culprit = primary(group({0: numbers}))
    assert (found.klass, culprit.rank, culprit.step) == (f"HANG:COLLECTIVE:{klass}", rank, 0)


def idle(hand: Any, number: int) -> None:
    """Makes a step without work, with `number` collectives."""
    hand.launch("dummy", "main")
    for _ in range(number):
        hand.collective("dp", "main")


def test_a_step_of_another_kind_is_held_against_what_all_steps_have() -> None:
    """Step 4 lacks the kernels of all other steps on both ranks. So its number of collectives is compared with that of
    all steps: rank 1 made one too many.
    """
    made = group({4: (0, 0)})
    for hand in made.hands:
        hand.journal = [raw for raw in hand.journal if raw[STEP] != 4]
        hand.step = 4
        idle(hand, 2 if hand.rank == 1 else 1)
    for hand in made.hands:
        hand.step = 5
        hand.launch("layers", "main")
    found, culprit = primary(made)
    assert (found.klass, culprit.rank, culprit.step) == ("HANG:COLLECTIVE:EXTRA_CALL", 1, 4)
    assert found.message == "rank 1 made dp.all_reduce twice in step 4"


def test_the_peers_calls_in_the_disputed_step_decide_nothing() -> None:
    """Rank 1 is blocked in step 0. Rank 0 left out a call, or rank 1 made one too many; no other step shows which."""
    made = group({0: (1, 2)})
    made[1].journal = [raw for raw in made[1].journal if raw[STEP] == 0]
    made[0].journal = [raw for raw in made[0].journal if raw[STEP] < 2]
    found = made.findings("blocked", "blocked")
    assert found
    assert all(one.ground == () for one in found)


def test_a_step_without_work_is_not_odd_for_lack_of_it() -> None:
    """Rank 0 made one step with work and one without, and rank 1 only one with work. A step without work is not odd, so
    rank 0 is not blamed. Rank 1 may have ended on time.
    """
    made = group(dict.fromkeys(range(1, 5), (0, 0)))
    for hand in made.hands:
        hand.journal = [raw for raw in hand.journal if raw[STEP] == 0]
    made[0].step = 1
    idle(made[0], 1)
    made[0].step = 2
    made[0].launch("layers", "main")
    assert {one.culprit for one in made.findings("blocked", "finished")} == {None}
