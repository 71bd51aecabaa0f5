"""Checks properties of values that Hypothesis draws, and proves that each property can fail.

A property that never failed proves nothing. So each test has a *faulty twin*, the same test with one mistake, and
Hypothesis has to draw a value that shows it:

    holds(lambda drawn: nothing_found(drawn.play()), worlds)
    breaks(lambda drawn: nothing_found(drawn.play(tokens=Faulty)), worlds, "RACE")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

T = TypeVar("T")


SIZE = float(os.environ.get("DPSIM_NIGHT_SIZE", "1"))
"""The size of a night (`tests.night`): 10 for a real one."""


def of_night(draws: int, least: int = 1) -> int:
    """Returns how many of the draws of a real night a test makes in a night of this size, at least `least`."""
    return max(least, round(draws * SIZE / 10))


def examples(quick: int, slow: int, nightly: int | None = None) -> pytest.MarkDecorator:
    """Gives a test the argument `examples`: `quick` in the quick suite, `slow` in the slow one, and `nightly` in a real
    night. A smaller night has fewer.
    """
    more = [] if nightly is None else [pytest.param(of_night(nightly, slow), marks=pytest.mark.nightly)]
    return pytest.mark.parametrize("examples", [quick, pytest.param(slow, marks=pytest.mark.slow), *more])


def slow_but(values: Iterable[Any], quick: Callable[[Any], bool]) -> list[Any]:
    """Returns the values of a parametrized test. Those that `quick` selects run in the quick suite, the others in the
    slow one.
    """
    return [value if quick(value) else _marked(value, pytest.mark.slow) for value in values]


def nightly_but(values: Iterable[Any], slow: Callable[[Any], bool]) -> list[Any]:
    """Returns the values of a slow test. Those that `slow` selects run in the slow suite, the others in the nightly
    one.
    """
    return [_marked(value, pytest.mark.slow if slow(value) else pytest.mark.nightly) for value in values]


def _marked(value: Any, mark: pytest.MarkDecorator) -> Any:
    """Returns a marked value. If the value is a tuple, it has the values of several arguments."""
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=mark)


def every(step: int, values: Iterable[T]) -> set[T]:
    """Returns the first of `values` and every `step`-th after it: a sample that is equal in each run."""
    return set(list(values)[::step])


def holds(property_: Callable[[T], object], values: st.SearchStrategy[T], examples: int = 100) -> None:
    """Checks that the property holds for `examples` drawn values, or for more if the profile draws more than 100."""

    @settings(
        max_examples=examples * max(settings().max_examples, 100) // 100,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(values)
    def run(value: T) -> None:
        property_(value)

    run()


def breaks(
    property_: Callable[[T], object], values: st.SearchStrategy[T], match: str = "", examples: int = 1000
) -> None:
    """Checks that the property fails for some drawn value with a message that matches. The drawn values are always the
    same.
    """

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(values)
    def run(value: T) -> None:
        property_(value)

    with pytest.raises(AssertionError, match=match):
        run()
