"""Tests the two sides of a transfer: a difference is a finding. A side is the culprit only if the other transfers of
this pair show what is usual.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.handmade import Made

Side = tuple[int, str]
"""The count and the dtype of a transfer."""


def line(*pairs: tuple[Side, Side]) -> Made:
    """Rank 0 sends to rank 1, one transfer in each step. A pair contains the sent and the received side."""
    made = Made(2)
    for step, (sent, received) in enumerate(pairs):
        for hand, op, (count, dtype) in ((made[0], "send", sent), (made[1], "recv", received)):
            hand.step = step
            hand.transfer(op, 1 - hand.rank, "main", count=count, dtype=dtype)
    return made


USUAL, SHORT, FLOAT, BOTH = (8, "int32"), (7, "int32"), (8, "float32"), (7, "float32")
FITS = (USUAL, USUAL)


@pytest.mark.parametrize("healthy", [(), (FITS,), (FITS, (SHORT, SHORT), (FLOAT, FLOAT)), ((BOTH, BOTH),)])
def test_sides_that_fit_are_no_finding_however_they_change(healthy: Any) -> None:
    assert line(*healthy).classes() == []


@pytest.mark.parametrize(("odd", "klass"), [(SHORT, "COUNT"), (FLOAT, "DTYPE"), (BOTH, "COUNT")])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("step", [0, 1, 2])
def test_the_side_that_departs_from_what_its_line_usually_is_is_the_culprit(
    step: int, side: int, odd: Side, klass: str
) -> None:
    pairs = [FITS] * 3
    pairs[step] = (odd, USUAL) if side == 0 else (USUAL, odd)
    [found] = line(*pairs).findings()
    assert found.klass == f"MISMATCH:TRANSFER:{klass}"
    assert found.culprit is not None
    assert (found.culprit.rank, found.culprit.step, found.culprit.where) == (side, step, f"here.py:{step}")
    assert found.position[0] == step


@pytest.mark.parametrize(
    "pairs",
    [
        [(USUAL, SHORT)],  # no other step
        [FITS, (USUAL, SHORT), (SHORT, SHORT)],  # both counts occur in other steps
        [FITS, (SHORT, (6, "int32")), FITS],  # neither count is usual
        [FITS, (USUAL, SHORT), (SHORT, USUAL)],  # later steps differ too
    ],
)
def test_no_rank_is_blamed_without_a_usual_order(pairs: Any) -> None:
    [found] = line(*pairs).findings()
    assert (found.klass, found.culprit) == ("MISMATCH:TRANSFER:COUNT", None)


def test_the_message_names_both_calls() -> None:
    [found] = line(FITS, (USUAL, FLOAT)).findings()
    assert found.message == (
        "rank 0 called send (send int32[8] to rank 1 on pp #1, step 1) at here.py:1. "
        "Rank 1 called recv (recv float32[8] from rank 0 on pp #1, step 1) at here.py:1"
    )


def test_each_direction_reports_its_first_difference() -> None:
    made = Made(2)
    for hand in made.hands:
        for count in (8, 6 + hand.rank, 4 + hand.rank):
            hand.transfer("send", 1 - hand.rank, None, count=count)
        for count in (8, 5, 5):
            hand.transfer("recv", 1 - hand.rank, None, count=count)
    assert [one.message[:58] for one in made.findings()] == [
        "rank 0 called send (send int32[6] to rank 1 on pp #1, step",
        "rank 1 called send (send int32[7] to rank 0 on pp #1, step",
    ]


def test_a_side_that_is_missing_is_a_hang_and_no_mismatch() -> None:
    made = line(FITS, FITS)
    made[1].transfer("recv", 0, "main", count=3)
    assert made.classes("finished", "blocked") == ["HANG:P2P:UNMATCHED_RECV"]


def steps_of(*numbers: tuple[int, int]) -> Made:
    """Returns the transfers of two ranks: how many each side makes in each step. All have different sizes."""
    made = Made(2)
    for step, both in enumerate(numbers):
        for hand, op, number in zip(made.hands, ("send", "recv"), both, strict=True):
            hand.step = step
            for place in range(number):
                hand.transfer(op, 1 - hand.rank, "main", count=10 * step + place + 1)
    return made


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("number", [1, 3])
def test_a_rank_with_one_call_too_few_or_many_is_the_culprit(side: int, number: int) -> None:
    here = (number, 2) if side == 0 else (2, number)
    [found] = steps_of((2, 2), here, (2, 2)).findings()
    assert found.culprit is not None
    assert (found.culprit.rank, found.culprit.step) == (side, 1)
    assert found.message.endswith(
        f"In step 1 rank {side} made {number} of these; its peer made 2, as in every step before"
    )


@pytest.mark.parametrize("numbers", [[(2, 1), (2, 2)], [(2, 2), (3, 3), (2, 3), (2, 2)], [(2, 2), (1, 3), (2, 2)]])
def test_no_rank_is_blamed_without_a_usual_number(numbers: Any) -> None:
    assert [one.culprit for one in steps_of(*numbers).findings()] == [None]
