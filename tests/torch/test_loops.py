"""Tests which calls of a program begin a round of its loops, so that dpsim counts a step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch")

Come = Callable[[], object]


def loop_of_one(come: Come) -> None:
    for _ in range(3):
        come()


def loop_of_two_lines(come: Come) -> None:
    for _ in range(3):
        come()
        come()


def one_line(come: Come) -> object:
    return come(), come()


def loop_of_one_line(come: Come) -> None:
    for _ in range(3):
        come(), come()


def within(come: Come) -> None:
    for _ in range(3):
        one_line(come), one_line(come)


@pytest.mark.parametrize(
    ("program", "steps"), [(loop_of_one, 3), (loop_of_two_lines, 3), (one_line, 1), (loop_of_one_line, 3), (within, 3)]
)
def test_two_calls_on_one_line_are_in_one_round(
    program: Callable[[Come], object], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpsim.torch.child import loops

    told: list[list[object]] = []
    monkeypatch.setattr(loops, "tell", told.append)
    monkeypatch.setattr(loops.Loops, "said", [])
    program(loops.Loops().come)
    assert told == [["loop", number] for number in range(steps)]
