"""Stale memory, each in a wrong program that is caught and in a healthy twin that is not."""

from __future__ import annotations

import pytest

from tests.checks.handmade import Hand, Made


def one() -> tuple[Made, Hand]:
    made = Made(1)
    return made, made[0]


@pytest.mark.parametrize(("first", "found"), [(0, ["STALE:REUSED_BLOCK"]), (64, [])])
def test_memory_that_was_given_away_and_overwritten(first: int, found: list[str]) -> None:
    """The side stream hears of the other rank before it reads, and that one of the new content before it sends."""
    made = Made(2)
    a, b = made[0], made[1]
    x = a.alloc("main", 8, (0, 0))
    a.launch("write", "main", writes=[x])
    a.order("main", "side")
    a.transfer("recv", 1, "side")
    a.launch("late", "side", reads=[x])
    a.free("main", x)
    y = a.alloc("main", 8, (0, first))
    a.launch("rewrite", "main", writes=[y])
    a.transfer("send", 1, "main", communicator="dp")
    b.transfer("recv", 0, "main", communicator="dp")
    b.transfer("send", 0, "main")
    findings = made.findings()
    assert [one.klass for one in findings] == found
    assert [one.culprit and one.culprit.site for one in findings] == ["late"] * len(found)


def test_memory_that_nobody_wrote() -> None:
    made, a = one()
    x = a.alloc("main", 8, (0, 0))
    a.launch("write", "main", writes=[(x[0], 0, 4)])
    a.launch("use", "main", reads=[(x[0], 0, 4)])
    assert made.classes() == []
    a.launch("all", "main", reads=[x])
    assert made.classes() == ["STALE:UNWRITTEN"]


def test_what_an_older_buffer_left_is_not_written() -> None:
    made, a = one()
    x = a.alloc("main", 8, (0, 0))
    a.launch("write", "main", writes=[x])
    a.free("main", x)
    a.launch("use", "main", reads=[a.alloc("main", 8, (0, 0))])
    assert made.classes() == ["STALE:UNWRITTEN"]
