"""Tests races and reused memory on handmade journals. Each faulty program has a healthy twin, which has no finding."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.handmade import Hand, Made

BUFFER, REUSED = ["RACE:BUFFER"], ["RACE:REUSED_IN_FLIGHT"]


def one() -> tuple[Made, Hand]:
    made = Made(1)
    return made, made[0]


@pytest.mark.parametrize(("waits", "found"), [(True, []), (False, BUFFER)])
def test_a_side_stream_waits_for_what_it_reads(waits: bool, found: list[str]) -> None:
    made, a = one()
    x = a.alloc("main", 8)
    a.launch("write", "main", writes=[x])
    if waits:
        a.order("main", "side")
    a.launch("use", "side", reads=[x])
    assert made.classes() == found


def test_a_race_names_both_accesses_and_the_cure() -> None:
    made, a = one()
    x = a.alloc("main", 8, site="hidden")
    for _ in range(3):
        a.launch("write", "main", writes=[x])
        a.launch("use", "side", reads=[x])
    [found] = made.findings()
    assert found.culprit is not None
    assert (found.culprit.rank, found.culprit.site, found.culprit.where) == (0, "use", "here.py:2")
    assert "stream side must wait for an event recorded on stream main after write[0]" in found.message
    assert "more like it, on 1 rank)" in found.message
    assert "use[0] (kernel on stream side) reads hidden[0] on stream side at here.py:2" in found.details[1]


def test_the_cure_is_behind_the_last_access_of_the_other_stream() -> None:
    """The cure names an event after the last access of the other stream. An event after an earlier access would leave a
    race.
    """
    cures = []
    for taken in (None, "write", "use"):
        made, a = one()
        x = a.alloc("side", 8)
        event = None
        for site, touches in (("write", {"writes": [x]}), ("use", {"reads": [x]}), ("other", {})):
            a.launch(site, "side", **touches)
            event = a.mark("side") if site == taken else event
        if event is not None:
            a.wait("main", event)
        a.launch("overwrite", "main", writes=[x])
        cures.append([one.details[2] for one in made.findings()])
    after_use = "to order them: stream main must wait for an event recorded on stream side after use[0]"
    assert cures == [[after_use], [after_use], []]


@pytest.mark.parametrize(("early", "found"), [(False, []), (True, BUFFER)])
def test_an_event_that_was_recorded_too_early_orders_nothing(early: bool, found: list[str]) -> None:
    made, a = one()
    x = a.alloc("main", 8)
    event = a.mark("main")
    a.launch("write", "main", writes=[x])
    a.wait("side", event if early else a.mark("main"))
    a.launch("use", "side", reads=[x])
    assert made.classes() == found


@pytest.mark.parametrize("how", ["wait", "host", "nothing"])
@pytest.mark.parametrize("known", [False, True])
def test_a_stream_passes_on_an_order_without_its_own_op(known: bool, how: str) -> None:
    made, a = one()
    x = a.alloc("main", 8)
    a.launch("other", "side")
    if known:  # stream copy already waits for the last op of the stream side
        a.order("side", "copy")
    a.launch("write", "main", writes=[x])
    if how == "wait":
        a.order("main", "side")
    elif how == "host":
        a.learned(a.ask("synchronize", a.mark("main")))
    a.order("side", "copy")
    a.launch("use", "copy", reads=[x])
    assert made.classes() == (BUFFER if how == "nothing" else [])


def test_reads_do_not_race_but_a_later_write_races_with_either() -> None:
    made, a = one()
    x = a.alloc("main", 8)
    a.launch("write", "main", writes=[x])
    a.order("main", "side")
    a.launch("use", "side", reads=[x])
    a.launch("use", "main", reads=[x])
    assert made.classes() == []
    a.launch("overwrite", "main", writes=[x])
    assert made.classes() == BUFFER


@pytest.mark.parametrize(("first", "found"), [(4, []), (3, BUFFER)])
@pytest.mark.parametrize("place", [None, (0, 512)])
def test_disjoint_views_do_not_race(first: int, found: list[str], place: Any) -> None:
    made, a = one()
    x = a.alloc("main", 8, place)
    a.order("main", "side")
    a.launch("low", "main", writes=[(x[0], 0, 4)])
    a.launch("high", "side", writes=[(x[0], first, 8)])
    assert made.classes() == found


def handed(release: str | None, again: str = "main", ordered: bool = False) -> list[str]:
    """Returns the findings of a program: main writes a buffer, side reads it, the program frees it, and a later buffer
    gets its memory.
    """
    made, a = one()
    x = a.alloc("main", 8, (0, 0), site="old")
    a.launch("write", "main", writes=[x])
    a.order("main", "side")
    a.launch("use", "side", reads=[x])
    if ordered:
        a.order("side", "main")
    if release:
        a.used(release, x)
    a.free("main", x)
    y = a.alloc(again, 4, (0, 16), site="new")
    a.launch("rewrite", again, writes=[y])
    return made.classes()


def test_memory_of_a_side_stream_is_not_reused_in_flight() -> None:
    assert handed("side") == []
    assert handed(None, ordered=True) == []
    assert handed(None) == REUSED
    assert handed("main") == REUSED, "the wrong stream was named"
    assert handed("copy") == REUSED, "the wrong stream was named"


def test_a_reuse_names_the_unrecorded_old_access() -> None:
    made, a = one()
    x = a.alloc("main", 8, (0, 0), site="old")
    a.launch("write", "main", writes=[x])
    a.order("main", "side")
    a.launch("use", "side", reads=[x])
    a.free("main", x)
    a.launch("rewrite", "main", writes=[a.alloc("main", 8, (0, 0), site="new")])
    [found] = made.findings()
    assert found.culprit is not None
    assert found.culprit.site == "use"
    assert "call record_stream(side) on old[0] before its free" in found.message


@pytest.mark.parametrize(("stream", "found"), [("main", []), ("side", REUSED)])
def test_reuse_on_the_same_stream_is_in_order(stream: str, found: list[str]) -> None:
    made, a = one()
    x = a.alloc("main", 8, (0, 0))
    a.launch("write", "main", writes=[x])
    a.free("main", x)
    y = a.alloc("main", 8, (0, 0))
    a.launch("rewrite", stream, writes=[y])
    assert made.classes() == found


def test_memory_without_a_place_is_never_reused() -> None:
    made, a = one()
    for stream in ("main", "side"):
        x = a.alloc("main", 8)
        a.launch("write", stream, writes=[x])
        a.free("main", x)
    assert made.classes() == []


@pytest.mark.parametrize(("order", "found"), [("main", []), ("side", BUFFER)])
def test_a_collective_is_one_point_of_all_members(order: str, found: list[str]) -> None:
    """A broadcast reads at its root and writes at rank 1, which then uses the result on another stream."""
    made = Made(2)
    for hand in made.hands:
        x = hand.alloc("main", 8)
        hand.launch("write", "main", writes=[x])
        reads, writes = ([x], []) if hand.rank == 0 else ([], [x])
        hand.collective("dp", "main", reads, writes, op="broadcast", root=0)
        hand.order(order, "side")
        hand.launch("use", "side", reads=[x])
        if hand.rank == 0:  # a read beside the root's read is no race
            del hand.journal[-2:]
            hand.add("launch", "use", stream="main", reads=(x,), writes=())
    assert made.classes() == found


def test_a_message_of_another_rank_orders_two_streams() -> None:
    """Rank 0 writes on main and sends; rank 1 answers. Rank 0 may write on side only after side has received the
    answer.
    """
    for answered in (True, False):
        made = Made(2)
        a, b = made[0], made[1]
        x, y = a.alloc("main", 8), b.alloc("main", 8)
        z = a.alloc("main", 8)
        a.order("main", "side")
        a.launch("write", "main", writes=[x])
        a.transfer("send", 1, "main", x)
        b.transfer("recv", 0, "main", y)
        b.transfer("send", 0, "main", y)
        if answered:
            a.transfer("recv", 1, "side", z)
        a.launch("rewrite", "side", writes=[x])
        if not answered:
            a.transfer("recv", 1, "side", z)
        assert made.classes() == ([] if answered else BUFFER)


def test_a_send_does_not_wait_for_its_receive() -> None:
    made = Made(2)
    a, b = made[0], made[1]
    x, y = a.alloc("main", 8), b.alloc("main", 8)
    a.launch("write", "main", writes=[x])
    b.order("main", "side")
    b.launch("write", "side", writes=[y])
    b.order("side", "main")
    a.transfer("send", 1, "main", x)
    b.transfer("recv", 0, "main", y)
    b.launch("use", "side", reads=[y])
    assert made.classes() == BUFFER, "nothing orders the stream side after the receive"


def test_transfers_of_one_group_are_in_no_order() -> None:
    for overlap in (False, True):
        made = Made(2)
        for hand in made.hands:
            x = hand.alloc("main", 8)
            hand.launch("write", "main", writes=[x])
            peer, low = 1 - hand.rank, (x[0], 0, 4)
            hand.transfer("recv", peer, "main", low if overlap else (x[0], 4, 8), group=0)
            hand.transfer("send", peer, "main", low, group=0)
            hand.launch("use", "main", reads=[x])
        found = made.findings()
        assert [one.klass for one in found] == (BUFFER if overlap else [])
        assert not overlap or "on 2 ranks" in found[0].message


@pytest.mark.parametrize(("stream", "found"), [("side", []), ("main", BUFFER)])
def test_a_host_reads_from_the_stream_that_wrote(stream: str, found: list[str]) -> None:
    made, a = one()
    x = a.alloc("main", 8)
    a.order("main", "side")
    a.launch("write", "side", writes=[x])
    a.read(stream, x)
    a.launch("overwrite", "copy", writes=[x])
    assert made.classes() == found, "a wait for the read is a wait for the write"


@pytest.mark.parametrize(("how", "outcome", "found"), [
    ("synchronize", None, []), ("query", True, []), ("query", False, BUFFER), (None, None, BUFFER)
])  # fmt: skip
def test_an_event_that_a_host_observed_orders_all_its_later_launches(how: Any, outcome: Any, found: list[str]) -> None:
    made, a = one()
    x = a.alloc("main", 8)
    a.launch("write", "main", writes=[x])
    event = a.mark("main")
    if how:
        a.learned(a.ask(how, event), outcome)
    a.launch("use", "side", reads=[x])
    assert made.classes() == found


def letters(senders: list[tuple[int, str, bool]], taken: list[str]) -> list[str]:
    """Returns the findings of rank 1, which writes a buffer on main and uses it on side. Other ranks post messages to
    it, with or without knowledge that the write has ended.
    """
    made = Made(4)
    a = made[1]
    x = a.alloc("main", 8)
    a.launch("write", "main", writes=[x])
    a.transfer("send", 3, "main", x)
    y = made[3].alloc("main", 8)
    made[3].transfer("recv", 1, "main", y)
    made[3].read("main", y)
    for rank, message, knows in senders:
        if knows and not made[rank].journal:
            made[3].post(rank, "go", "start")
            made[rank].learned(made[rank].take("get", "start"), "go")
        made[rank].post(1, message)
    for message in taken:
        a.learned(a.take(), message)
    a.launch("use", "side", reads=[x])
    return made.classes()


def test_a_take_is_ordered_after_its_post() -> None:
    assert letters([(0, "done", True)], ["done"]) == []
    assert letters([(0, "done", False)], ["done"]) == BUFFER
    assert letters([(0, "done", True)], []) == BUFFER
    assert letters([(0, "done", True), (2, "other", False)], ["done"]) == []


def test_equal_messages_of_several_senders_give_what_all_of_them_knew() -> None:
    assert letters([(0, "done", True), (2, "done", False)], ["done"]) == BUFFER
    assert letters([(0, "done", True), (2, "done", True)], ["done"]) == []
    assert letters([(0, "other", False), (0, "done", True)], ["other"]) == BUFFER


# ---- hangs


def test_a_kernel_that_never_ran_makes_no_access() -> None:
    for missing in (True, False):
        made = Made(2)
        for hand in made.hands:
            x = hand.alloc("main", 8)
            hand.launch("write", "main", writes=[x])
            if not (missing and hand.rank == 1):
                hand.collective("dp", "main", [x], [x])
            hand.launch("after", "main", writes=[x])
            hand.launch("use", "side", reads=[])
        a = made[0]
        a.order("main", "side")
        a.launch("late", "side", reads=[(0, 0, 8)])
        a.launch("race", "main", writes=[(0, 0, 8)])
        races = [klass for klass in made.classes(*(["blocked", "finished"] if missing else [])) if "RACE" in klass]
        assert races == ([] if missing else BUFFER)


def test_equal_journals_of_two_ranks_give_one_finding() -> None:
    made = Made(2)
    for hand in made.hands:
        x = hand.alloc("main", 8)
        hand.launch("write", "main", writes=[x])
        hand.launch("use", "side", reads=[x])
    [found] = made.findings()
    assert "1 more like it, on 2 ranks" in found.message
    assert found.culprit is not None
    assert (found.culprit.ranks, found.culprit.every) == ((0, 1), True)


@pytest.mark.parametrize(("step", "site"), [(1, "use"), (0, "look")])
def test_a_race_at_another_step_or_op_is_that_of_one_rank(step: int, site: str) -> None:
    made = Made(2)
    for hand in made.hands:
        x = hand.alloc("main", 8)
        hand.launch("write", "main", writes=[x])
        hand.step = hand.rank * step
        hand.launch(site if hand.rank else "use", "side", reads=[x])
    culprit = made.findings()[0].culprit
    assert culprit is not None
    assert (culprit.rank, culprit.ranks) == (0, ())


# ---- both orders


@pytest.mark.parametrize(
    ("written", "how", "both"),
    [(True, "reads", True), (False, "reads", False), (False, "writes", True)],
    ids=["read-of-what-was-written-before", "first-write", "two-writes"],
)
def test_the_cure_names_both_orders_where_both_are_possible(written: bool, how: str, both: bool) -> None:
    made = Made(1)
    x = made[0].alloc("main", 8)
    if written:
        made[0].launch("before", "main", writes=[x])
        made[0].order("main", "side")
    made[0].launch("write", "main", writes=[x])
    made[0].launch("use", "side", **{how: [x]})
    found = next(one for one in made.findings() if one.klass == "RACE:BUFFER")
    assert "stream side must wait for an event recorded on stream main after write[0]" in found.message
    other = "stream main must wait for one recorded on stream side after use[0], before write[0]"
    assert found.details[3:] == ((f"or the other way round: {other}",) if both else ())
