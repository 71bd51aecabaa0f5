"""Properties of values that Hypothesis draws, and the proof that each can fail.

A property that never failed proves nothing. So a test of one has a *faulty twin*, the same with one mistake, and a
value is drawn that shows it:

    holds(lambda drawn: nothing_found(drawn.play()), worlds)
    breaks(lambda drawn: nothing_found(drawn.play(tokens=Faulty)), worlds, "RACE")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

T = TypeVar("T")


def examples(quick: int, slow: int, nightly: int | None = None) -> pytest.MarkDecorator:
    """Gives a test the argument `examples`: `quick` in every run, `slow` in the slow campaigns, `nightly` at night."""
    more = [] if nightly is None else [pytest.param(nightly, marks=pytest.mark.nightly)]
    return pytest.mark.parametrize("examples", [quick, pytest.param(slow, marks=pytest.mark.slow), *more])


def slow_but(values: Iterable[Any], quick: Callable[[Any], bool]) -> list[Any]:
    """Values of a parametrized test. Those that `quick` chooses are in every run, the others in the slow campaigns."""
    return [value if quick(value) else _marked(value, pytest.mark.slow) for value in values]


def nightly_but(values: Iterable[Any], slow: Callable[[Any], bool]) -> list[Any]:
    """The same of a slow test: those that `slow` chooses are in the slow campaigns, the others run at night."""
    return [_marked(value, pytest.mark.slow if slow(value) else pytest.mark.nightly) for value in values]


def _marked(value: Any, mark: pytest.MarkDecorator) -> Any:
    """A tuple holds the values of several arguments."""
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=mark)


def every(step: int, values: Iterable[T]) -> set[T]:
    """The first of `values` and every `step`-th after it: a sample that is the same in each run."""
    return set(list(values)[::step])


def holds(property_: Callable[[T], object], values: st.SearchStrategy[T], examples: int = 100) -> None:
    """The property holds for all drawn values, `examples` of them. A profile with more than 100 examples draws more."""

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
    """A value is drawn for which the property does not hold, and it says so in these words. Always the same value."""

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
