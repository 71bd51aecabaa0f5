"""Tests ops that a finished program left behind. A call without its await, and a transfer without its partner, are
findings; an untaken message is none.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.handmade import Made


def ended(made: Made) -> Made:
    """Lets all programs finish."""
    for hand in made.hands:
        hand.add("finished", "end")
    return made


BEGUN: dict[str, Any] = {
    "read": lambda hand: hand.begin_read("main"),
    "query": lambda hand: hand.ask("query", 0),
    "synchronize": lambda hand: hand.ask("synchronize", 0),
    "poll": lambda hand: hand.take("poll"),
    "get": lambda hand: hand.take("get"),
    "idle get": lambda hand: hand.take("idle"),
    "sleep": lambda hand: hand.note("sleep", "nap", ns=1),
}


@pytest.mark.parametrize("what", BEGUN)
def test_a_call_that_is_never_awaited_is_found_at_its_line(what: str) -> None:
    made = Made(1)
    made[0].step = 3
    made[0].mark("main")
    BEGUN[what](made[0])
    [found] = ended(made).findings()
    assert found.klass == "LEFTOVER:NEVER_AWAITED"
    assert found.culprit is not None
    assert (found.culprit.rank, found.culprit.step, found.culprit.where) == (0, 3, "here.py:1")
    assert found.position == (3, 1)


@pytest.mark.parametrize("what", BEGUN)
def test_a_call_that_is_awaited_late_is_no_finding(what: str) -> None:
    made = Made(1)
    made[0].mark("main")
    work = BEGUN[what](made[0])
    made[0].mark("main")
    made[0].learned(work)
    assert not ended(made).findings()


def test_collectives_and_transfers_are_awaited_on_the_host_alone() -> None:
    made = Made(2)
    for hand, op in zip(made.hands, ("send", "recv"), strict=True):
        hand.collective("dp", "main")
        hand.transfer(op, 1 - hand.rank, "main")
    assert not ended(made).findings()
    made = Made(2)
    for hand, op in zip(made.hands, ("send", "recv"), strict=True):
        hand.collective("cpu", None)
        hand.transfer(op, 1 - hand.rank, None)
    assert ended(made).classes() == ["LEFTOVER:NEVER_AWAITED"] * 3


def test_a_site_reports_its_first_finding_and_counts_others() -> None:
    made = Made(2)
    for hand in made.hands:
        for hand.step in (4, 5):
            hand.take("poll")
    [found] = ended(made).findings()
    assert found.message == (
        "rank 0 never awaited poll[0] (poll box) of step 4 (and 3 more like it, on 2 ranks); "
        "await what the call returns"
    )


@pytest.mark.parametrize("end", ["finished", "raised", "died", "blocked"])
def test_a_program_that_did_not_finish_has_no_leftover(end: str) -> None:
    """A program that did not finish might have reached the await, so there is no finding. The same is true if it ended
    in an idle get.
    """
    made = Made(2)
    made[0].transfer("send", 1, None)
    if end == "raised":
        made[0].add("raised", "ValueError", message="")
    if end == "finished":
        made[0].take("idle")
    made[1].add("finished", "end")
    assert not [one for one in made.findings(end, "finished") if one.klass.startswith("LEFTOVER")]


def lines(sent: list[int], received: list[int]) -> Made:
    """Returns transfers from rank 0 to rank 1: the step of each send, and of each receive."""
    made = Made(2)
    for hand, op, steps in ((made[0], "send", sent), (made[1], "recv", received)):
        for hand.step in steps:
            hand.transfer(op, 1 - hand.rank, "main")
    return ended(made)


def test_transfers_with_partners_are_no_finding() -> None:
    assert not lines([0, 1, 2], [1, 2, 3]).findings()


@pytest.mark.parametrize(("sent", "received", "klass"), [([0, 1], [0], "SEND"), ([0], [0, 1], "RECV")])
def test_a_transfer_that_only_one_side_made(sent: list[int], received: list[int], klass: str) -> None:
    [found] = lines(sent, received).findings()
    assert found.klass == f"LEFTOVER:{klass}"
    assert found.culprit is None
    assert found.position == (1, 0)


def test_the_message_names_the_call_and_what_to_do() -> None:
    [found] = lines([0, 1], [0]).findings()
    assert found.message == (
        "rank 0 called send (send int32[8] to rank 1 on pp #1, step 1) at here.py:1. "
        "Rank 1 received 1 of 2 and ended. Make the other call, or leave this one out"
    )


def test_a_rank_with_an_unusual_number_is_the_culprit() -> None:
    [found] = lines([0, 1, 1, 2], [0, 1, 2]).findings()
    assert found.culprit is not None
    assert (found.culprit.rank, found.culprit.step, found.culprit.where) == (0, 1, "here.py:2")
    assert ". In step 1 rank 0 made 2 of these; its peer made 1, as in every step before. Make" in found.message


def test_a_line_is_reported_once_for_each_direction() -> None:
    made = Made(2)
    for hand in made.hands:
        for _ in range(hand.rank + 1):
            hand.transfer("send", 1 - hand.rank, "main")
    assert ended(made).classes() == ["LEFTOVER:SEND"] * 2


def test_a_message_that_no_rank_took_is_no_finding() -> None:
    made = Made(2)
    made[0].post(1, "news")
    assert not ended(made).findings()
