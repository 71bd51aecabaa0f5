"""Tests graph lint on handmade journals: which captured collectives match, which rank is odd, and messages within a
capture.
"""

from __future__ import annotations

import pytest

from dpsim.checks.graph_lint import agreed
from dpsim.diagnose.words.told import Told
from tests.checks.handmade import Hand, Made


def capture(hand: Hand, graph: str, calls: int, *, what: str = "end", message: bool = False) -> None:
    form = {"stream": "main", "graph": graph, "mode": "global", "pool": graph}
    hand.note("capture", f"{graph}.capture", what="begin", calls=0, **form)
    for number in range(calls):
        fields = "main", "dp", number, "all_reduce", 2, "int32", None, "sum", (), (), ()
        hand.note("kept", "reduce", stream="main", graph=graph, call="collective", fields=fields)
    if message:
        hand.post(0, 1)
    hand.note("capture", f"{graph}.capture", what=what, calls=calls, **form)


def reduce(hand: Hand) -> None:
    hand.collective("dp", "main")


def replay(hand: Hand, graph: str, calls: int) -> None:
    hand.step += 1
    hand.note("replay", "go", stream="main", graph=graph, number=hand.number(("graph", graph)), calls=calls)
    for _ in range(calls):
        hand.add("free", "x", stream="main", buffer=0, where="")  # the replay does not count frees
        reduce(hand)


def eager(hand: Hand, calls: int) -> None:
    hand.step += 1
    for _ in range(calls):
        reduce(hand)


def found(made: Made) -> list[Told]:
    """Returns the findings of graph lint. Asserts that the certificate covers exactly the runs without one."""
    findings = [finding for finding in made.findings() if finding.check == "graph_lint"]
    assert agreed([hand.journal for hand in made.hands]) == (not findings)
    return findings


def test_replays_of_one_capture_are_grouped() -> None:
    made = Made(3)
    for rank in range(3):
        capture(made[rank], "small" if rank else "other_name", 2)
        capture(made[rank], "given_up", 1, what="abandon")
        eager(made[rank], 1)
        replay(made[rank], "small" if rank else "other_name", 2)
    assert not found(made)


@pytest.mark.parametrize("way", ["eager", "other capture", "other call"])
def test_the_rank_that_differs_from_the_others_is_named(way: str) -> None:
    made = Made(3)
    for rank in range(3):
        odd = rank == 1
        capture(made[rank], "a", 2)
        capture(made[rank], "b", 2)
        if odd and way == "eager":
            eager(made[rank], 2)
        elif odd and way == "other capture":
            replay(made[rank], "b", 2)
        elif odd:  # an eager call before, so each captured call meets the one after it
            eager(made[rank], 1)
            replay(made[rank], "a", 2)
        else:
            replay(made[rank], "a", 2)
    (finding,) = found(made)
    assert finding.klass == "GRAPH:UNPAIRED"
    assert finding.culprit is not None
    assert (finding.culprit.rank, finding.culprit.step) == (1, 1)
    assert finding.message.startswith("dp.all_reduce (all_reduce ")
    assert " is unpaired in step 1: " in finding.message
    graph = "b" if way == "other capture" else "a"
    replays = f"replays it in replay 0 of graph {graph} "
    assert ("rank 1 calls it eagerly at here.py:" if way != "other capture" else f"rank 1 {replays}") in finding.message
    assert "ranks 0, 2 replay it in replay 0 of graph a " in finding.message
    assert "as call 1 of 2, captured at here.py:10" in finding.message


def test_two_ranks_without_evidence_are_not_blamed() -> None:
    made = Made(2)
    for rank in range(2):
        capture(made[rank], "a", 1)
    replay(made[0], "a", 1)
    eager(made[1], 1)
    (finding,) = found(made)
    assert finding.culprit is None


@pytest.mark.parametrize("order", ["fewer", "other order", "other names"])
def test_captures_that_differ_are_reported(order: str) -> None:
    own = {"fewer": ["d1", "d4"], "other order": ["d1", "d4", "d2"], "other names": ["e1", "e4"]}[order]
    made = Made(3)
    for rank in range(3):
        for graph in own if rank == 1 else ["d1", "d2", "d4"]:
            capture(made[rank], graph, 2 if graph == "d2" else 1)
        capture(made[rank], "on_no_line", 0)
        replay(made[rank], "e4" if rank == 1 and order == "other names" else "d4", 1)
    (finding,) = found(made)
    third = own[1]
    told = f"on dp differ from capture 2 on: ranks 0, 2 captured d2 (2 calls), rank 1 captured {third} (1 call)"
    assert told in finding.message
    rest = ", d2 (2)" if order == "other order" else ""
    assert [one for one in finding.details if " it " not in one] == [
        "ranks 0, 2 captured on dp, in order: d1 (1 call), d2 (2), d4 (1)",
        f"rank 1 captured on dp, in order: {own[0]} (1 call), {third} (1){rest}",
    ]


def test_names_alone_are_no_difference() -> None:
    made = Made(2)
    for rank in range(2):
        capture(made[rank], "ab"[rank], 1)
    replay(made[0], "a", 1)
    eager(made[1], 1)
    (finding,) = found(made)
    assert [one.split(" it ")[0] for one in finding.details] == ["rank 0 replays", "rank 1 calls"]
    assert "differ" not in finding.message


@pytest.mark.parametrize("again", [False, True])
def test_an_abandoned_capture_is_reported_with_the_eager_rank(again: bool) -> None:
    made = Made(4)
    for rank in range(4):
        capture(made[rank], "x", 1, what="abandon" if rank == 0 else "end")  # rank 0, which replays a, gave up x
        capture(made[rank], "a", 1, what="abandon" if rank > 1 else "end")
        if again and rank > 1:
            capture(made[rank], "a", 1)
        eager(made[rank], 1) if rank > 1 else replay(made[rank], "a" if rank == 0 else "x", 1)
    (finding,) = found(made)
    gave_up = [one for one in finding.details if "gave up" in one]
    assert gave_up == ([] if again else ["ranks 2, 3 gave up the capture of graph a at here.py:5"])


def test_messages_within_a_capture() -> None:
    made = Made(2)
    for rank in range(2):
        capture(made[rank], "a", 0, message=True)
    (finding,) = found(made)
    assert finding.klass == "GRAPH:HOST_EFFECT"
    assert "1 more like it, on 2 ranks" in finding.message


def test_messages_outside_a_capture_are_no_finding() -> None:
    made = Made(1)
    made[0].post(0, 1)
    capture(made[0], "a", 0)
    made[0].post(0, 1)
    assert not found(made)
