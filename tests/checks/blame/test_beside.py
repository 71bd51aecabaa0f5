"""Tests a culprit that sleeps: the finding names the message that it took before and ignored."""

from __future__ import annotations

import pytest

from dpsim.checks.finding import Finding
from tests.checks.handmade import Made
from tests.programs import world_of


def found(ops_behind: int = 0, message: object = ("START", 0)) -> Finding:
    """Rank 0 wakes both ranks in step 1 and calls a collective. Rank 1 takes the message, makes `ops_behind` launches,
    and sleeps again.
    """
    made = Made(2)
    for hand in made.hands:
        hand.learned(hand.collective("cpu", None))
        hand.step = 1
    made[0].post(1, message)
    made[0].collective("cpu", None)
    made[1].learned(made[1].take("idle"), message)
    for _ in range(ops_behind):
        made[1].launch("forward", "main")
    made[1].take("idle")
    return made.findings("blocked", "finished")[0]


def test_the_report_names_message_and_sender() -> None:
    one = found()
    assert one.culprit is not None
    assert one.culprit.rank == 1
    sent, took = "(post, here.py:2, step 1)", "idle, here.py:2, step 1"
    assert one.message.endswith(f"; rank 1 took ('START', 0) of rank 0 {sent} at {took} and then only waited")


@pytest.mark.parametrize(("ops_behind", "message"), [(1, ("START", 0)), (0, None)])
def test_one_that_did_something_with_it_dropped_nothing(ops_behind: int, message: object) -> None:
    assert "took" not in found(ops_behind, message).message


def told(heard: object = ("START", 0), behind: bool = False) -> Finding:
    """A coordinator, rank 2, sends a message to both ranks, and rank 0 calls a collective. Rank 1 received the content
    `heard` and ends; with `behind`, it launches a kernel before.
    """
    made = Made(3)
    made.world = world_of(3, ["cpu"], ["dp"], among=2)
    for to in (0, 1):
        made[2].post(to, ("START", 0))
    made[0].learned(made[0].take("idle"), ("START", 0))
    made[0].launch("forward", "main")
    made[0].collective("cpu", None)
    made[1].learned(made[1].take("idle"), heard)
    if behind:
        made[1].launch("forward", "main")
    made[1].learned(made[1].take("idle"), ("STOP",))
    return made.findings("blocked", "finished", "finished")[0]


def test_of_two_that_took_equal_messages_one_acted() -> None:
    found = told()
    assert found.culprit is not None
    assert found.culprit.rank == 1
    assert found.message.endswith("; rank 1 took ('START', 0) at here.py:0 and did nothing; rank 0 continued")


@pytest.mark.parametrize(("heard", "behind"), [(("START", 1), False), (("START", 0), True)])
def test_another_message_or_an_op_behind_it_is_none(heard: object, behind: bool) -> None:
    """If rank 1 took a different message, or did something after it took the message, the finding does not name the
    message.
    """
    assert "did nothing" not in told(heard, behind).message
