"""Drawn: counts the scenarios that Hypothesis drew for a test, by verdict.

If all of them are vacuous, the test shows nothing. `dpsim.pytest_plugin` asks `only_vacuous` at its end:

    >>> count("proven", "test_a")
    >>> count("vacuous", "test_a"), count("vacuous", "test_b"), count("vacuous", "test_b")
    (None, None, None)
    >>> only_vacuous("test_a"), only_vacuous("test_b"), only_vacuous("test_c")
    (0, 2, 0)
"""

from __future__ import annotations

import os
from collections import Counter

_counted: dict[str, Counter[str]] = {}


def running_test() -> str:
    """Returns the test that pytest runs in this process; empty if it runs none."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]


def count(verdict: str, test: str) -> None:
    """Adds one scenario to the counts of a test."""
    _counted.setdefault(test, Counter())[verdict] += 1


def only_vacuous(test: str) -> int:
    """Returns the number of scenarios of a test if all were vacuous, or else 0. Forgets the counts."""
    counted = _counted.pop(test, Counter())
    return counted["vacuous"] if len(counted) == 1 else 0
