"""The worlds that Hypothesis drew for a test, counted by verdict.

A single drawn world may be vacuous: no rank coordinates anything in it. A test in which all drawn worlds are vacuous
has shown nothing, and fails. Only the end of the test can tell, so `dpsim.pytest_plugin` asks there:

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
    """The test that pytest runs in this process; empty if it runs none."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]


def count(verdict: str, test: str) -> None:
    """One more world of this test."""
    _counted.setdefault(test, Counter())[verdict] += 1


def only_vacuous(test: str) -> int:
    """The number of worlds of this test if all of them were vacuous, else 0. The counts are forgotten then."""
    counted = _counted.pop(test, Counter())
    return counted["vacuous"] if len(counted) == 1 else 0
