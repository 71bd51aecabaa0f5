"""Tests of logical time, with the ticks of ops computed by hand."""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.diagnose.pictures.logical_time import Issues, Learns, PartsMeet, StreamLane, ThreadMoves, move_all
from dpsim.diagnose.pictures.op import NEVER, DrawnOp


def op(rank: int = 0, lane: str = "host", length: int = 1) -> DrawnOp:
    return DrawnOp(rank, lane, "launch", "kernel", "site", length=length)


def times(ops: Sequence[DrawnOp]) -> list[tuple[int | None, int | None, int | None]]:
    return [(one.begin, one.arrival, one.end) for one in ops]


def waited(*ops: DrawnOp) -> list[Issues | Learns]:
    return [move for one in ops for move in (Issues((one,)), Learns(one))]


def test_a_collective_ends_a_tick_after_its_last_member_joins() -> None:
    early, before, late = op(0), op(1), op(1)
    meeting = PartsMeet(2)
    meeting.join(early)
    meeting.join(late)
    move_all([ThreadMoves(0, waited(early)), ThreadMoves(1, waited(before, late))])
    assert times([early, before, late]) == [(0, 1, 2), (0, 0, 1), (1, 1, 2)]


def test_without_a_member_it_never_ends() -> None:
    alone, behind = op(0, "main"), op(0, "main")
    PartsMeet(2).join(alone)
    lane = StreamLane()
    move_all([ThreadMoves(0, [Issues((alone,), lane), Issues((behind,), lane)])])
    assert times([alone, behind]) == [(0, None, None), (None, None, None)]


def test_an_op_on_a_stream_begins_after_the_one_before_it_and_after_its_host() -> None:
    first, second, host, third = op(lane="main"), op(lane="main"), op(), op(lane="main")
    lane = StreamLane()
    moves = [Issues((first,), lane), Issues((second,), lane), *waited(host, host), Issues((third,), lane)]
    host.length = 5
    move_all([ThreadMoves(0, moves)])
    assert times([first, second, third]) == [(0, 0, 1), (1, 1, 2), (7, 7, 8)]


def test_ops_of_one_coalesced_group_begin_together() -> None:
    one, other, behind = op(lane="main", length=3), op(lane="main"), op(lane="main")
    lane = StreamLane()
    move_all([ThreadMoves(0, [Issues((one, other), lane), Issues((behind,), lane)])])
    assert times([one, other, behind]) == [(0, 0, 3), (0, 0, 1), (3, 3, 4)]


def test_where_the_journal_says_that_an_op_returned_it_did() -> None:
    """Of two possible ops the earlier one proceeds first, because the later one may return because of it."""
    lost, after, other = op(0), op(0), op(1)
    lost.after.append(NEVER)
    other.after.append(after.over)
    move_all([ThreadMoves(0, waited(lost, after)), ThreadMoves(1, waited(op(1), other))])
    assert times([lost, after, other]) == [(0, 0, 1), (1, 1, 2), (1, 2, 3)]
