"""Stale memory, each in a wrong program that is caught and in a healthy twin that is not."""

from __future__ import annotations

import pytest
from handmade import Hand, Made


def one() -> tuple[Made, Hand]:
    made = Made(1)
    return made, made[0]


def test_use_after_free() -> None:
    made, a = one()
    x = a.alloc("main", 8)
    a.launch("write", "main", writes=[x])
    a.launch("use", "main", reads=[x])
    a.free("main", x)
    assert made.classes() == []
    a.launch("again", "main", reads=[x])
    [found] = made.findings()
    assert (found.klass, found.culprit and found.culprit.site) == ("STALE:USE_AFTER_FREE", "again")


@pytest.mark.parametrize(("first", "found"), [(0, "REUSED_BLOCK"), (64, "USE_AFTER_FREE")])
def test_memory_that_was_given_away_and_overwritten(first: int, found: str) -> None:
    made, a = one()
    x = a.alloc("main", 8, (0, 0))
    a.launch("write", "main", writes=[x])
    a.free("main", x)
    y = a.alloc("main", 8, (0, first))
    a.launch("rewrite", "main", writes=[y])
    a.launch("again", "main", reads=[x])
    assert made.classes() == [f"STALE:{found}"]


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
