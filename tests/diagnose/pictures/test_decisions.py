"""Tests the marks of decisions that differ. Without them, a picture shows right calls only."""

from __future__ import annotations

import pytest

from dpsim.diagnose.pictures.op import Picture
from tests.checks.handmade import Made
from tests.diagnose.pictures.test_of_run import pictured_of


def decided(*rounds: tuple[int | None, ...]) -> Picture:
    """Returns the picture of ranks that decide twice a step on `mode`: in each round one value for each rank. None: the
    rank does not decide yet.

    The ranks also decide alike on another label, some of them before `mode` and some after it.
    """
    made = Made(len(rounds[0]))
    for rank in range(len(rounds[0])):
        for number, values in enumerate(rounds):
            made[rank].step = number // 2
            made[rank].learned(made[rank].collective("dp", None, site="agree"))
            both = [("plan", 0), ("mode", values[rank])]
            for label, value in both if rank else reversed(both):
                if value is not None:
                    made[rank].note("decision", label, value=value, communicator="dp", local=False)
    return pictured_of(made)


def marks(picture: Picture) -> list[tuple[int, int, str, str]]:
    return [(op.rank, op.step, op.address, op.said) for op in picture.ops if op.marked]


@pytest.mark.parametrize(
    ("rounds", "address", "step"),
    [
        (((7, 7), (7, 7), (0, 1), (7, 7)), "mode[2]", 1),
        (((7, 7), (0, 1), (0, 1), (7, 7)), "mode[1]", 0),
    ],
)
def test_without_a_culprit_the_first_decisions_that_differ_are_marked(
    rounds: tuple[tuple[int, ...], ...], address: str, step: int
) -> None:
    picture = decided(*rounds)
    assert picture.undecided
    assert marks(picture) == [(0, step, address, "decided 0"), (1, step, address, "decided 1")]


def test_a_rank_that_begins_later_is_compared_in_the_same_step() -> None:
    picture = decided((7, None), (7, None), (0, 1))
    assert marks(picture) == [(0, 1, "mode[2]", "decided 0"), (1, 1, "mode[0]", "decided 1")]


def test_a_culprit_has_the_only_mark() -> None:
    picture = decided((7, 8, 7))
    assert not picture.undecided
    assert marks(picture) == [(1, 0, "mode[0]", "decided 8")]


def test_another_finding_without_a_culprit_marks_no_decision() -> None:
    made = Made(2)
    for rank in (0, 1):
        made[rank].note("decision", "mode", value=7, communicator="dp", local=False)
        made[rank].collective("dp", None, site=f"of {rank}")
    picture = pictured_of(made, "blocked", "blocked")
    assert not marks(picture)
