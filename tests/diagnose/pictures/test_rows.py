"""Tests of the rows of a picture: equal ranks share one, overlapping ops have different lanes, and each text is stored
once.
"""

from __future__ import annotations

from typing import Any

from dpsim.diagnose.pictures.op import Arrow, DrawnOp, Picture
from dpsim.diagnose.pictures.rows import FIELDS, QUEUED, content


def drawn(
    rank: int, begin: int | None, end: int | None, said: str = "call", lane: str = "host", step: int = 0
) -> DrawnOp:
    op = DrawnOp(rank, lane, "launch", said, "site", step=step)
    op.begin, op.arrival, op.end = begin, None if end is None else begin, end
    return op


def shown(*ops: DrawnOp, ranks: int = 3, **more: Any) -> Any:
    names = [f"rank {rank}" for rank in range(ranks)]
    return content(Picture("x", ["HELD"], names, ["finished"] * ranks, [*ops], **more))


def test_equal_ranks_share_a_row() -> None:
    equal = [drawn(rank, 0, 1) for rank in range(3)]
    assert [row["ranks"] for row in shown(*equal)["rows"]] == [[0, 1, 2]]
    assert [row["ranks"] for row in shown(*equal[:2], drawn(2, 0, 2))["rows"]] == [[0, 1], [2]]
    assert [row["ranks"] for row in shown(*equal[:2], drawn(2, 0, 1, "other"))["rows"]] == [[0, 1], [2]]


def test_a_culprit_has_its_own_row() -> None:
    equal = [drawn(rank, 0, 1) for rank in range(3)]
    assert [row["ranks"] for row in shown(*equal, culprits=(1,))["rows"]] == [[0, 2], [1]]


def test_ops_that_overlap_have_lanes_below_each_other() -> None:
    lanes = shown(drawn(0, 0, 3), drawn(0, 1, 2), drawn(0, 3, 4))["rows"][0]["lanes"]
    begins = [lane["ops"][:: len(FIELDS)] for lane in lanes]
    assert ([lane["name"] for lane in lanes], begins) == (["host", "host (2)"], [(0, 3), (1,)])


def test_of_what_never_began_the_first_are_shown_behind_the_end() -> None:
    ops = [drawn(0, 0, None), *(drawn(0, None, None) for _ in range(QUEUED + 4))]
    found = shown(*ops)
    row = found["rows"][0]["lanes"][0]["ops"]
    begins = row[:: len(FIELDS)]
    assert begins == (0, *range(found["last"] + 2, found["last"] + 2 + QUEUED))
    assert found["texts"][row[-1]] == "behind an op that did not end, as are 4 more ops"


def test_the_first_view_is_the_last_two_steps_or_those_of_the_finding() -> None:
    ops = [drawn(0, 10 * step, 10 * step + 5, step=step) for step in range(5)]
    assert shown(*ops)["focus"] == (30, 45)
    assert shown(*ops, focus=2)["focus"] == (10, 30)


def test_the_first_view_includes_the_events_of_the_turning() -> None:
    """The events are in the first step and the last one. Without their marks, the view has two steps alone."""
    ops = [drawn(0, 10 * step, 10 * step + 5, step=step) for step in range(5)]
    ops[0].turning, ops[4].turning = "too late: a", "too early: b"
    assert shown(*ops)["focus"] == (0, 45)
    assert shown(*ops, focus=2)["focus"] == (0, 45)


def test_arrows_name_rank_lane_and_tick() -> None:
    one, other = drawn(2, 3, None), drawn(2, 1, None, lane="main")
    found = shown(one, other, arrows=[Arrow(one, other)], undecided=True)
    assert (found["arrows"], found["undecided"]) == ([{"from": (2, "host", 3), "to": (2, "main", 1)}], True)


def test_each_text_is_there_once_and_none_is_endless() -> None:
    found = shown(*(drawn(0, at, at + 1, "x" * 5_000) for at in range(50)))
    assert len(found["texts"]) == len({*found["texts"]}) < 6
    assert max(map(len, found["texts"])) < 400
