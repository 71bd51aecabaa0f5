"""The last ops of a rank contain the ops in no order, however early they are."""

from __future__ import annotations

import pytest

from dpsim.diagnose.last_ops import LAST_OPS, last_ops
from dpsim.diagnose.report import report
from tests.checks.handmade import Hand, Made

RACES = "  <- in no order"


def race(hand: Hand, more: int = 9) -> None:
    """Two writes in no order, and then `more` ops on the host's stream."""
    x = hand.alloc("main", 8)
    hand.launch("early", "main", writes=[x])
    hand.launch("late", "side", writes=[x])
    for number in range(more):
        hand.launch(f"other{number}", "main")


def last(made: Made) -> list[str]:
    """The lines of the section on last ops, without its title."""
    lines = report(made.run(), made.findings(), full=True).splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith(f"last {LAST_OPS} ops "))
    assert lines[first].endswith(", and 2 ops in no order:") or RACES not in "\n".join(lines)
    body = lines[first + 1 :]
    return body[: body.index("")] if "" in body else body


@pytest.mark.parametrize("more", [0, 9])
def test_both_ops_of_a_race_are_shown_and_marked(more: int) -> None:
    made = Made(1)
    race(made[0], more)
    lines = last(made)
    assert [RACES in line for line in lines[:2]] == [True, True]
    assert [" early  " in lines[0], " late  " in lines[1]] == [True, True]
    assert len(lines) == 2 + min(more, LAST_OPS)
    assert sum(RACES in line for line in lines) == 2


def test_ranks_that_race_alike_share_their_lines() -> None:
    made = Made(2)
    race(made[0])
    race(made[1])
    lines = report(made.run(), made.findings(), full=True).splitlines()
    assert sum(RACES in line for line in lines) == 2
    assert all(line.startswith("  ranks 0, 1 ") for line in lines if RACES in line)


def test_a_thread_that_ended_shows_its_racing_ops_alone() -> None:
    made = Made(1)
    hand = made[0]
    hand.about_thread("start", "worker")
    hand.thread = "worker"
    race(hand)
    hand.ended()
    hand.thread = "main"
    hand.launch("after", "main")
    lines = [line for line in last(made) if line.startswith("  rank 0 worker ")]
    assert len(lines) == 2
    assert all(RACES in line for line in lines)


def test_another_finding_marks_no_op() -> None:
    made = Made(1)
    hand = made[0]
    hand.launch("reads", "main", reads=[hand.alloc("main", 8)])
    assert RACES not in "\n".join(last(made))


def test_a_get_shows_the_message_that_it_took() -> None:
    """A get that did not return shows no message, and a poll without a message shows `nothing`."""
    made = Made(2)
    made[1].post(0, ("done", 0))
    made[0].learned(made[0].take("idle"), ("done", 0))
    made[0].learned(made[0].take("poll"), None)
    made[0].take()
    lines = "\n".join(last_ops(made.run("blocked", "finished"), None))
    assert "idle box -> ('done', 0)" in lines
    assert "poll box -> nothing" in lines
    assert "get box  <- did not return" in lines
