"""Tests hangs in transfers, mailboxes and collectives, and mismatches of reductions and sizes. The checks report each
mistake and nothing about its healthy twin.
"""

from __future__ import annotations

import pytest

from dpsim.checks.finding import facts_in
from tests.checks.handmade import Made

# ---- transfers


@pytest.mark.parametrize("stream", ["main", None])
def test_a_receive_without_its_send(stream: str | None) -> None:
    for sends in (2, 1):
        made = Made(2)
        for _ in range(sends):
            made[0].transfer("send", 1, stream)
        for _ in range(2):
            made[1].transfer("recv", 0, stream)
        found = made.findings("finished", "finished" if sends == 2 else "blocked")
        assert [one.klass for one in found] == ([] if sends == 2 else ["HANG:P2P:UNMATCHED_RECV"])
    assert found[0].culprit is None, "no other step shows whether one receive is too many or one send too few"
    assert "rank 1 made 2 calls in step 0 and rank 0 1" in found[0].message


def test_an_unmatched_send_is_a_finding_only_if_its_rank_waits_in_it() -> None:
    for end in ("finished", "blocked"):
        made = Made(2)
        work = made[0].transfer("send", 1, None)
        if end == "finished":
            made[0].learned(work)
        assert made.classes(end, "finished") == ([] if end == "finished" else ["HANG:P2P:UNMATCHED_SEND"])
    for waited in (False, True):
        made = Made(2)
        work = made[0].transfer("send", 1, None)
        made[0].transfer("send", 1, None)  # two sends start before the first await
        if waited:
            made[0].learned(work)
        (found,) = made.findings("blocked", "finished")
        assert found.klass == "HANG:P2P:UNMATCHED_SEND"
        assert f"pp #{int(waited)}" in found.message
    made = Made(2)
    made[0].learned(made[0].transfer("send", 1, None))
    made[0].collective("dp", "main")
    assert "HANG:P2P:UNMATCHED_SEND" not in made.classes("blocked", "finished")


def test_two_ranks_that_both_receive_first() -> None:
    made = Made(2)
    for rank in (0, 1):
        made[rank].transfer("recv", 1 - rank, None)
    found = made.findings("blocked", "blocked")
    assert [one.klass for one in found] == ["HANG:P2P:UNMATCHED_RECV"]
    assert "rank 0 (pp #0) -> rank 1 (pp #0) -> rank 0" in found[0].message


# ---- mailboxes


def test_a_get_without_an_answer() -> None:
    made = Made(2)
    made[0].post(1, "one")
    made[1].learned(made[1].take(), "one")
    assert made.classes() == []
    made[1].take()
    found = made.findings("finished", "blocked")
    assert [one.klass for one in found] == ["HANG:MAILBOX:NO_MESSAGE"]
    assert "1 was ever sent to it" in found[0].message


def test_an_idle_take_is_no_hang() -> None:
    made = Made(2)
    made[1].take("idle")
    assert made.classes("finished", "blocked") == []
    made[0].collective("dp", "main")
    assert "HANG:COLLECTIVE:MISSING_RANK" in made.classes("blocked", "blocked")


@pytest.mark.parametrize(("end", "words"), [
    ("idle", "asleep in an idle get of box; last op idle: idle box, step 0, here.py:1"),
    ("program", "ended; last op kernel: kernel on stream main, step 0, here.py:0"),
    ("nothing", "ended"),
])  # fmt: skip
def test_the_report_names_whether_a_missing_rank_sleeps_or_has_ended(end: str, words: str) -> None:
    made = Made(2)
    made[0].collective("dp", "main")
    if end != "nothing":
        made[1].launch("kernel", "main")
    if end == "idle":
        made[1].take("idle")
    else:
        made[1].add("finished", "end")
    found = next(one for one in made.findings("blocked", "finished") if one.check == "deadlock")
    last = "; rank 1 ended after kernel at here.py:0" * (end == "program")
    assert found.message.endswith(f"which never joins ({words.partition(';')[0]}){last}")
    assert found.details[-1] == f"  missing rank 1: {words}"


# ---- fields that all members have to pass equally


def test_reductions_must_be_the_same() -> None:
    for reduce in ("sum", "max"):
        made = Made(3)
        for hand in made.hands:
            hand.collective("dp", "main", reduce=reduce if hand.rank == 2 else "sum")
        found = made.findings()
        assert [one.klass for one in found] == ([] if reduce == "sum" else ["MISMATCH:COLLECTIVE:REDUCE"])
    assert found[0].culprit is not None
    assert found[0].culprit.rank == 2


@pytest.mark.parametrize("op", ["all_gather", "reduce_scatter"])
def test_sizes_must_be_the_same_and_counts_need_not(op: str) -> None:
    for sizes in ((1, 2, 3), (1, 3, 2)):
        made = Made(3)
        for hand in made.hands:
            own = sizes if hand.rank == 1 else (1, 2, 3)
            hand.collective("dp", "main", op=op, count=own[hand.rank] if op == "all_gather" else 6, sizes=own)
        found = made.classes()
        assert found == ([] if sizes == (1, 2, 3) else ["MISMATCH:COLLECTIVE:SIZES"])


def test_a_member_that_brings_another_count_than_its_size() -> None:
    made = Made(3)
    for hand in made.hands:
        hand.collective("dp", "main", op="all_gather", count=(1, 9, 3)[hand.rank], sizes=(1, 2, 3))
    assert made.classes() == ["MISMATCH:COLLECTIVE:COUNT"]


def test_an_all_to_all_with_sizes_that_differ_names_the_rank() -> None:
    goes = [(1, 2, 3), (4, 0, 1), (2, 2, 2)]
    for wrong in (False, True):
        made = Made(3)
        for hand in made.hands:
            comes = tuple(row[hand.rank] for row in goes)
            if wrong and hand.rank == 1:
                comes = (comes[0] + 1, comes[1], comes[2] - 1)
            own = goes[hand.rank]
            hand.collective("dp", "main", op="all_to_all", count=sum(own), sizes=(*own, *comes))
        found = made.findings()
        assert [one.klass for one in found] == (["MISMATCH:COLLECTIVE:SIZES"] if wrong else [])
    assert "rank 0 sends 2 elements to rank 1, which expects 3" in found[0].message
    assert found[0].culprit is not None
    assert found[0].culprit.rank == 1


# ---- members that may complete without waiting


@pytest.mark.parametrize("stream", ["main", None])
def test_a_root_that_has_finished_is_not_reported_as_waiting(stream: str | None) -> None:
    """The root has completed its broadcast, which rank 1 never joins. So the finding names the later sum in which the
    root waits.
    """
    made = Made(2)
    work = made[0].collective("dp" if stream else "cpu", stream, op="broadcast", root=0)
    if stream:
        made[0].read(stream)
    else:
        made[0].learned(work)
    made[0].collective("ep", "main")
    found = made.findings("blocked", "finished")
    assert "HANG:COLLECTIVE:MISSING_RANK" in {one.klass for one in found}
    waits = [one.message for one in found if one.check == "deadlock"]
    assert len(waits) == 1
    assert waits[0].startswith("rank 0 waits in ep.all_reduce")


def test_a_root_that_did_not_end_waits_in_its_broadcast() -> None:
    for end in ("blocked", "finished"):
        made = Made(2)
        made[0].collective("dp", "main", op="broadcast", root=0)
        waits = [one.message for one in made.findings(end, "finished") if one.check == "deadlock"]
        assert [text.startswith("rank 0 waits in dp.broadcast") for text in waits] == [True] * (end == "blocked")


def test_a_member_without_a_piece_for_me_is_not_missed() -> None:
    """Rank 2 sends nothing in the all_gather, so ranks 0 and 1 do not wait for it there. They wait in the sum that rank
    2 leaves out too.
    """
    made = Made(3)
    for rank in (0, 1):
        made[rank].collective("dp", "main", op="all_gather", count=4, sizes=(4, 4, 0))
        made[rank].collective("ep", "main")
    [found] = [one for one in made.findings("blocked", "blocked", "finished") if one.check == "deadlock"]
    assert found.message.startswith("ranks 0, 1 wait in ep.all_reduce")
    assert found.culprit is not None
    assert found.culprit.rank == 2


@pytest.mark.parametrize(("boxes", "lines"), [(["box", "box"], [(1, 2)]), (["box", "own"], [(1,), (2,)])])
def test_ranks_that_did_the_same_share_a_line(boxes: list[str], lines: list[tuple[int, ...]]) -> None:
    """Their records still differ in the number of the call. Twin: they posted to different mailboxes."""
    made = Made(3)
    made[0].collective("dp", None)
    for rank, box in enumerate(boxes, start=1):
        made[rank].add("post", "tell", ordinal=rank, where="here.py:9", to=0, mailbox=box, content=1)
    [found] = [one for one in made.findings("blocked", "finished", "finished") if one.check == "deadlock"]
    facts = [fact for part in found.of.details for fact in facts_in(part)]
    assert [fact["ranks"] for fact in facts if fact.name == "missing"] == lines
