"""Tests a culprit that sleeps: the finding names the message that it took before and ignored."""

from __future__ import annotations

import pytest

from dpsim.diagnose.words.told import Told
from tests.checks.handmade import Made
from tests.programs import world_of


def found(ops_behind: int = 0, message: object = ("START", 0)) -> Told:
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
def test_a_rank_that_acted_on_its_message_did_not_drop_it(ops_behind: int, message: object) -> None:
    assert "took" not in found(ops_behind, message).message


def finding_of_a_dropped_message(heard: object = ("START", 0), behind: bool = False) -> Told:
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
    found = finding_of_a_dropped_message()
    assert found.culprit is not None
    assert found.culprit.rank == 1
    assert found.message.endswith("; rank 1 took ('START', 0) at here.py:0 and did nothing; rank 0 continued")


@pytest.mark.parametrize(("heard", "behind"), [(("START", 1), False), (("START", 0), True)])
def test_a_rank_that_took_another_message_or_did_an_op_dropped_nothing(heard: object, behind: bool) -> None:
    """If rank 1 took a different message, or did something after it took the message, the finding does not name the
    message.
    """
    assert "did nothing" not in finding_of_a_dropped_message(heard, behind).message


def left(step: int, after: str) -> list[Told]:
    """All ranks vote, and launch a kernel in this step. Then rank 1 returns, and its peers make one more call."""
    made = Made(3)
    for hand in made.hands:
        hand.step = 1
        hand.learned(hand.collective("cpu", None, site="vote"))
        hand.step = step
        if hand.rank == 1 or after != "behind":
            hand.launch(after, "main")
        hand.step = 1
        if hand.rank == 1:
            hand.add("finished", "end")
        else:
            hand.collective("cpu", None, site="sync")
            hand.launch("behind", "main")
    return made.findings("blocked", "finished", "blocked")


def test_a_program_that_returned_too_early_has_the_line_of_its_last_op() -> None:
    """The culprit's own place is the line of its peers, behind the return."""
    first, *rest = left(1, "sum")
    assert first.message.endswith("; rank 1 ended after sum at here.py:2")
    assert first.culprit is not None
    assert (first.culprit.site, first.culprit.where) == ("sync", "here.py:3")
    assert not [one.message for one in rest if "ended after" in one.message], "the hang of the peers does not repeat it"


def test_a_last_op_of_an_earlier_step_names_the_step() -> None:
    assert left(0, "sum")[0].message.endswith("; rank 1 ended after sum of step 0 at here.py:2")


@pytest.mark.parametrize(("step", "after"), [(7, "later"), (1, "behind")])
def test_a_program_that_went_on_behind_the_call_that_it_left_out_did_not_return_there(step: int, after: str) -> None:
    """It is in a later step, or at an op that its peers make behind the call."""
    assert not [one.message for one in left(step, after) if "ended after" in one.message]
