"""Tests how a message shows two long values: it prints the elements that differ, and cuts a long text only at
its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpsim.contract.differing import compared, contrasted
from dpsim.contract.words import middle_cut, short

LONG = tuple(range(100, 160))
OTHER = (*LONG[:30], 7, *LONG[31:])


class Named(NamedTuple):
    first: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Data:
    first: tuple[int, ...]
    tokens: tuple[int, ...]


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError


PAIRS = {
    "tuple": (LONG, OTHER, "x[30] = 130", "x[30] = 7"),
    "list": ([[1], *LONG], [[2], *LONG], "x[0][0] = 1", "x[0][0] = 2"),
    "named": (Named(LONG, LONG), Named(LONG, OTHER), "x.tokens[30] = 130", "x.tokens[30] = 7"),
    "dataclass": (Data(LONG, LONG), Data(LONG, OTHER), "x.tokens[30] = 130", "x.tokens[30] = 7"),
    "dict": ({"a": LONG, "b": 1}, {"a": LONG}, "x['b'] = 1", "x['b'] = no element"),
    "array": (np.array(LONG), np.array(OTHER), "x[30] = 130", "x[30] = 7"),
    "set": (set(LONG), set(OTHER), "x = ['130'] and 59 common", "x = ['7'] and 59 common"),
    "text": ("a" * 200 + "b", "a" * 200 + "c", "x = 'b' from character 200 on", "x = 'c' from character 200 on"),
    "shorter": (LONG, LONG[:-1], "x[59] = 159", "x[59] = no element"),
    "types": (LONG, None, f"x = {short(LONG, 60)}", "x = None"),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_the_element_that_differs(kind: str) -> None:
    left, right, *texts = PAIRS[kind]
    assert contrasted("x", [left, right]) == texts


def test_a_shortened_comparison_counts_the_omitted_elements() -> None:
    left, right = contrasted("x", [LONG, tuple(range(60))])
    assert left == "x[0] = 100, x[1] = 101, x[2] = 102, and 57 more elements differ"
    assert right == "x[0] = 0, x[1] = 1, x[2] = 2, and 57 more elements differ"


def test_short_values_are_whole() -> None:
    assert contrasted("plan", [((8, 8), "FULL"), ((8, 4), "FULL")]) == [
        "plan = ((8, 8), 'FULL')",
        "plan = ((8, 4), 'FULL')",
    ]


def test_the_faulty_twin_loses_the_difference() -> None:
    """A text that is cut in the middle is the same for both values, so it would hide the difference. `contrasted` shows
    it.
    """
    assert middle_cut(LONG, 120) == middle_cut(OTHER, 120)
    assert contrasted("x", [LONG, OTHER])[0] != contrasted("x", [LONG, OTHER])[1]


@pytest.mark.parametrize(
    ("op", "left", "right", "text"),
    [
        ("==", LONG, OTHER, "left == right, where left[30] = 130 and right[30] = 7"),
        ("==", LONG[:9], OTHER[:8], f"{LONG[:9]} == {LONG[:8]}, where left[8] = 108 and right[8] = no element"),
        ("in", 7, LONG, f"7 in {short(LONG, 120)}"),
    ],
)
def test_a_failed_comparison_prints_the_elements_that_differ(op: str, left: Any, right: Any, text: str) -> None:
    assert compared(op, left, right, 30) == [text]


def test_pytest_prints_a_short_comparison() -> None:
    assert compared("==", 1, 2, 30) is None


def test_a_repr_may_raise() -> None:
    assert compared("==", (NoRepr(), *LONG), (NoRepr(), *LONG), 10) == [
        "<tuple, whose repr raises RuntimeError> == <tuple, whose repr raises RuntimeError>, where left[0] = "
        "<NoRepr, whose repr raises RuntimeError> and right[0] = <NoRepr, whose repr raises RuntimeError>"
    ]
