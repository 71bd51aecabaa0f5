"""Tests a process that ends after a mismatch: the mismatch is the first finding. A planted death is the first finding
itself.
"""

from __future__ import annotations

import pytest

from tests.checks.handmade import Made

MISMATCH, DEATH = "MISMATCH:TRANSFER:COUNT", "DEATH:RANK"


def transfers(counts: tuple[int, int], planted: str = "", step: int = 0) -> Made:
    """Rank 0 sends `counts[0]` elements to rank 1, which receives `counts[1]`. Rank 1 dies at its read after that."""
    made = Made(2)
    for hand, op, count in ((made[0], "send", counts[0]), (made[1], "recv", counts[1])):
        hand.step = step
        hand.launch("kernel", "main")
        hand.transfer(op, 1 - hand.rank, "main", count=count)
    if planted:
        made[1].note("injected", "read", what=planted)
    return made


@pytest.mark.parametrize("step", [0, 3])
def test_a_mismatch_explains_the_death_behind_it(step: int) -> None:
    found = transfers((2, 1), step=step).findings("finished", "died")
    assert [one.klass for one in found] == [MISMATCH, DEATH]
    assert transfers((2, 1)).classes("blocked", "died")[0] == MISMATCH


@pytest.mark.parametrize("what", ["die", "kill"])
def test_a_planted_death_stays_first(what: str) -> None:
    found = transfers((2, 1), planted=what).findings("finished", "died")
    assert [one.klass for one in found] == [DEATH, MISMATCH]


def test_without_a_mismatch_the_death_is_the_finding() -> None:
    assert transfers((1, 1)).classes("finished", "died") == [DEATH]


def test_a_mismatch_of_a_later_step_explains_nothing() -> None:
    """Rank 2 died before ranks 0 and 1 reached the mismatch in a later step. So the death is the first finding."""
    made = Made(3)
    made[2].launch("kernel", "main")
    for hand, op, count in ((made[0], "send", 2), (made[1], "recv", 1)):
        hand.step = 1
        hand.transfer(op, 1 - hand.rank, "main", count=count)
    assert made.classes("finished", "finished", "died") == [DEATH, MISMATCH]


@pytest.mark.parametrize(("error", "classes"), [("KernelError", ["CRASH:KERNELERROR", DEATH]), ("OSError", [DEATH])])
def test_an_error_of_a_kernel_explains_the_death_of_a_peer(error: str, classes: list[str]) -> None:
    """Both ranks make the same mistake. NCCL ends the process of rank 1 before its rank raises. The twin is another
    exception, which ends no other process.
    """
    made = transfers((1, 1))
    made[0].note("raised", error, message="illegal access")
    assert made.classes("raised", "died")[: len(classes)] == classes
