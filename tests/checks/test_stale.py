"""Tests stale memory on handmade journals. Each faulty program has a healthy twin, which has no finding."""

from __future__ import annotations

import pytest

from tests.checks.handmade import Hand, Made


def one() -> tuple[Made, Hand]:
    made = Made(1)
    return made, made[0]


@pytest.mark.parametrize("first", [0, 64, 1 << 20])
@pytest.mark.parametrize(("keeps", "found"), [(False, ["STALE:REUSED_BLOCK"]), (True, [])])
def test_memory_that_was_given_away_and_overwritten(keeps: bool, found: list[str], first: int) -> None:
    """The side stream reads a buffer after messages that followed the write of a newer buffer. The position of the
    newer buffer in this run does not matter, because in another run it may get the same memory.
    """
    made = Made(2)
    a, b = made[0], made[1]
    x = a.alloc("main", 8, (0, 0))
    a.launch("write", "main", writes=[x])
    a.order("main", "side")
    a.transfer("recv", 1, "side", communicator="ep")
    a.launch("late", "side", reads=[x])
    if keeps:
        a.used("side", x)
    a.free("main", x)
    y = a.alloc("main", 8, (0, first))
    a.launch("rewrite", "main", writes=[y])
    a.transfer("send", 1, "main")
    b.transfer("recv", 0, "main")
    b.transfer("send", 0, "main", communicator="ep")
    findings = made.findings()
    assert [one.klass for one in findings] == found
    assert [one.culprit and one.culprit.site for one in findings] == ["late"] * len(found)


def test_a_read_of_unwritten_memory() -> None:
    made, a = one()
    x = a.alloc("main", 8, (0, 0))
    a.launch("write", "main", writes=[(x[0], 0, 4)])
    a.launch("use", "main", reads=[(x[0], 0, 4)])
    assert made.classes() == []
    a.launch("all", "main", reads=[x])
    assert made.classes() == ["STALE:UNWRITTEN"]


def test_the_content_of_an_older_buffer_counts_as_unwritten() -> None:
    made, a = one()
    x = a.alloc("main", 8, (0, 0))
    a.launch("write", "main", writes=[x])
    a.free("main", x)
    a.launch("use", "main", reads=[a.alloc("main", 8, (0, 0))])
    assert made.classes() == ["STALE:UNWRITTEN"]


# ---- versions


@pytest.mark.parametrize(("writes", "left"), [((1,), None), ((1, 2), "the tag 2"), ((1, None), "no tag")])
@pytest.mark.parametrize("part", [0, 4])
def test_a_buffer_that_is_overwritten_in_order_before_the_read_is_stale(
    writes: tuple[int | None, ...], left: str | None, part: int
) -> None:
    """All accesses are in order, but a later write changed the tag before the read, perhaps only in a part of the
    buffer.
    """
    made, a = one()
    x = a.alloc("main", 8, site="batch")
    for number, version in enumerate(writes):
        first = part if number else 0
        a.launch("write", "main", writes=[(x[0], first, 8) if version is None else (x[0], first, 8, version)])
    a.order("main", "side")
    a.launch("use", "side", reads=[(*x, 1)])
    a.launch("whatever", "side", reads=[x])
    found = made.findings()
    assert [finding.klass for finding in found] == ["STALE:VERSION"] * bool(left)
    if left:
        assert f"use[0] (kernel on stream side) expects the tag 1 in batch[0], where write[1] left {left}" in (
            found[0].message
        )
        assert found[0].details[-1] == "written by write[1] in step 0 at here.py:2"


def test_a_write_that_has_no_order_with_the_read_is_a_race_and_no_version() -> None:
    made, a = one()
    x = a.alloc("main", 8)
    a.launch("write", "main", writes=[(*x, 1)])
    a.order("main", "side")
    a.launch("next", "main", writes=[(*x, 2)])
    a.launch("use", "side", reads=[(*x, 1)])
    assert made.classes() == ["RACE:BUFFER"]


@pytest.mark.parametrize(("site", "ranks"), [("use", (0, 1)), ("look", ())])
def test_the_same_line_on_two_ranks_is_wrong_on_both(site: str, ranks: tuple[int, ...]) -> None:
    made = Made(2)
    for hand in made.hands:
        hand.launch(site if hand.rank else "use", "main", reads=[hand.alloc("main", 8)])
    [found] = made.findings()
    assert found.klass == "STALE:UNWRITTEN"
    assert found.culprit is not None
    assert found.culprit.ranks == ranks
