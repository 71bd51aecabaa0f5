"""Tests the order of several host threads of a rank with handmade journals. Each case has a twin in which the order is
missing. `test_random_programs.py` tests random programs.
"""

from __future__ import annotations

import pytest

from dpsim.checks.happens_before.mailboxes import MailOrder
from dpsim.contract.ops import MAIN, Ref
from tests.checks.handmade import Hand, Made


def written_by_main(made: Made) -> tuple[Hand, Ref]:
    """Returns a hand and a buffer that the main thread has written on its stream, and read."""
    a = made[0]
    a.about_thread("start", "u1")
    a.about_thread("start", "u2")
    x = a.alloc("main", 8)
    a.launch("write", "main", writes=[x])
    a.read("main", x)
    return a, x


def read_by(hand: Hand, thread: str, x: Ref) -> None:
    hand.thread = thread
    hand.launch("use", "side", writes=[x])


@pytest.mark.parametrize("told", [True, False])
def test_a_thread_without_an_order_races(told: bool) -> None:
    made = Made(1)
    a, x = written_by_main(made)
    a.thread = "u1"
    work = a.flag("wait", "ready")
    a.thread = MAIN
    a.flag("set", "ready" if told else "other")
    a.flag("clear", "ready" if told else "other")
    a.thread = "u1"
    a.learned(work, None)
    read_by(a, "u1", x)
    assert made.classes() == ([] if told else ["RACE:BUFFER"])


def test_the_sequence_of_records_does_not_order_threads() -> None:
    """The order of records in a journal does not order two threads, so their accesses race. The same ops in one thread
    are in order.
    """
    for thread, classes in (("u1", ["RACE:BUFFER"]), (MAIN, [])):
        made = Made(1)
        a, x = written_by_main(made)
        read_by(a, thread, x)
        assert made.classes() == classes


@pytest.mark.parametrize("joins", [True, False])
def test_a_join_is_ordered_after_its_thread(joins: bool) -> None:
    made = Made(1)
    a = made[0]
    x = a.alloc("main", 8)
    a.about_thread("start", "u1")
    a.thread = "u1"
    a.launch("write", "main", writes=[x])
    a.read("main", x)
    a.ended()
    a.thread = MAIN
    if joins:
        a.learned(a.about_thread("join", "u1"), None)
    read_by(a, MAIN, x)
    assert made.classes() == ([] if joins else ["RACE:BUFFER"])


def test_of_equal_messages_of_two_threads_neither_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads post equal messages. The journal does not show which came first, so the take proves neither."""

    def classes(second: str) -> list[str]:
        made = Made(1)
        a, x = written_by_main(made)
        a.post(0, "ok")
        a.thread = "u1"
        a.post(0, second)
        a.thread = "u2"
        a.learned(a.take(), "ok")
        read_by(a, "u2", x)
        return made.classes()

    assert classes("ok") == ["RACE:BUFFER"]
    assert classes("other") == []
    monkeypatch.setattr(MailOrder, "share", lambda *_: None)  # the faulty twin
    assert classes("ok") == []


@pytest.mark.parametrize(("thread", "classes"), [(MAIN, []), ("u1", ["RACE:REUSED_IN_FLIGHT"])])
def test_a_thread_that_takes_memory_is_an_actor_by_itself(thread: str, classes: list[str]) -> None:
    """A stream that record_stream named continues only after the main thread's message. An allocation that main makes
    before the message cannot get the memory that this stream keeps. An allocation of another thread can.
    """
    made = Made(2)
    a, b = made[0], made[1]
    a.about_thread("start", "u1")
    x = a.alloc("main", 8, place=(0, 0))
    a.launch("write", "main", writes=[x])
    a.order("main", "more")
    a.launch("use", "more", reads=[x])
    a.collective("dp", "side")
    a.used("side", x)
    a.free("main", x)
    a.thread = thread
    y = a.alloc("main", 8, place=(0, 64))
    a.launch("write", "copy", writes=[y])
    a.thread = MAIN
    a.post(1, "go")
    b.learned(b.take(), "go")
    b.collective("dp", "main")
    assert made.classes() == classes
