"""Tests of the waits of hosts and streams in a picture: a label, and an arrow to the op that would end the wait."""

from __future__ import annotations

import pytest

from dpsim.checks.thread_hangs import RankThreads
from dpsim.diagnose.pictures.op import Picture
from tests.checks.handmade import Made
from tests.diagnose.pictures.test_of_run import of_hand, pictured_of


def labels(picture: Picture) -> dict[str, str]:
    return {op.site: op.label for op in picture.ops if op.begin is not None and op.end is None}


def arrows(picture: Picture) -> list[tuple[str, str]]:
    return [(one.op.site, one.to.site) for one in picture.arrows]


def baton(*, helper_ends: bool, helper_sets: str = "") -> Made:
    """Returns journals: the main thread waits for a flag. A second thread ends, or waits for the main thread's flag."""
    made = Made(1)
    rank = made[0]
    rank.about_thread("start", "u1")
    rank.thread = "u1"
    if helper_sets:
        rank.flag("set", helper_sets)
    if helper_ends:
        rank.ended()
    else:
        rank.flag("wait", "b")
    rank.thread = "main"
    if helper_sets:
        rank.flag("clear", helper_sets)
        rank.flag("set", "b")
        rank.flag("clear", "b")
    rank.flag("wait", "a")
    return made


def test_a_wait_for_a_flag_that_no_thread_set_names_the_thread_that_ended() -> None:
    picture = pictured_of(baton(helper_ends=True), "blocked")
    assert labels(picture) == {"a.wait": "waits for flag a, which no thread set; thread u1 has ended"}
    assert arrows(picture) == [("a.wait", "end")]


def test_waits_in_a_circle_have_an_arrow_each() -> None:
    made = baton(helper_ends=False, helper_sets="a")
    said = "waits for flag {}, which thread {} set last and thread main cleared"
    picture = pictured_of(made, "blocked")
    assert labels(picture) == {"a.wait": said.format("a", "u1"), "b.wait": said.format("b", "main")}
    assert sorted(arrows(picture)) == [("a.wait", "b.wait"), ("b.wait", "a.wait")]


def test_without_the_threads_of_the_report_there_is_no_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RankThreads, "releasing", lambda *_: [])
    with pytest.raises(AssertionError):
        test_a_wait_for_a_flag_that_no_thread_set_names_the_thread_that_ended()


def test_a_join_names_its_thread() -> None:
    made = Made(1)
    rank = made[0]
    rank.about_thread("start", "u1")
    rank.thread = "u1"
    rank.flag("wait", "a")
    rank.thread = "main"
    rank.about_thread("join", "u1")
    picture = pictured_of(made, "blocked")
    assert labels(picture)["u1.join"] == "waits for the end of thread u1"
    assert ("u1.join", "a.wait") in arrows(picture)


def test_a_host_that_waits_for_its_own_stream_points_at_the_op_there() -> None:
    for way in ("read", "ask"):
        made = Made(2)
        made[0].collective("dp", "main")
        if way == "read":
            made[0].begin_read("main")
        else:
            made[0].ask("synchronize", made[0].mark("main"))
        picture = pictured_of(made, "blocked", "blocked")
        site = "read" if way == "read" else "synchronize"
        assert labels(picture) == {"dp.all_reduce": "waits for rank 1", site: "waits for stream main"}
        assert arrows(picture) == [(site, "dp.all_reduce")]


def test_a_take_names_its_mailbox_and_the_senders() -> None:
    made = Made(2)
    made[1].post(0, ("go",))
    made[0].learned(made[0].take(), ("go",))
    made[0].take("get")
    made[1].collective("cpu", None)
    picture = pictured_of(made, "blocked", "blocked")
    assert labels(picture)["get"] == "waits for a message in box from rank 1"
    assert arrows(picture) == [("get", "cpu.all_reduce")]


def test_an_op_that_ended_has_neither_label_nor_arrow() -> None:
    made = Made(1)
    made[0].read("main")
    picture = of_hand(made)
    assert (labels(picture), picture.arrows) == ({}, [])


def test_a_hang_of_no_culprit_is_undecided() -> None:
    made = Made(2)
    for rank, group in enumerate(("dp", "cpu")):
        made[rank].collective(group, None)
    assert pictured_of(made, "blocked", "blocked").undecided
    alone = Made(2)
    alone[0].collective("dp", None)
    picture = pictured_of(alone, "blocked", "finished")
    assert picture.culprits
    assert not picture.undecided
