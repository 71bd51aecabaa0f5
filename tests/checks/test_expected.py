"""Tests `Expected.unmet`, the rule that compares the result of a run with the expected one, row by row. Each faulty
rule below fails at least one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from dpsim.checks.expected import HELD, Expected
from dpsim.checks.finding import Culprit, Finding

LATE = "delay: rank 1 never reached nowhere; its sites: none"


def found(klass: str = "HANG:COLLECTIVE:MISSING_RANK", culprit: Culprit | None = None) -> Finding:
    return Finding("ledger", klass, "", culprit, (2, 0))


BY_ONE = found(culprit=Culprit(1, 2, "dp.agree", "a.py:3"))


class Row(NamedTuple):
    """What is expected, the result, and the answer of the rule."""

    expected: Expected
    came: str
    primary: Finding | None
    why: str | None
    never_applied: Sequence[str] = ()
    remark: str = ""


ROWS = [
    Row(HELD, "held", None, None),
    Row(HELD, "proven", None, None),
    Row(HELD, "sampled", None, None),
    Row(HELD, "violated", BY_ONE, "expected held, got violated"),
    Row(Expected("violated"), "proven", None, "expected violated, got proven"),
    Row(Expected("violated"), "held", None, "expected violated, got held (2 off)", remark="2 off"),
    Row(Expected("violated"), "violated", BY_ONE, None, remark="2 off"),
    Row(Expected("violated"), "violated", None, None),
    Row(Expected("violated", "HANG"), "violated", BY_ONE, None),
    Row(Expected("violated", "HANG:*"), "violated", BY_ONE, None),
    Row(
        Expected("violated", "RACE:*", 1, 2),
        "violated",
        BY_ONE,
        "expected a finding of class RACE:*, got HANG:COLLECTIVE:MISSING_RANK",
    ),
    Row(Expected("violated", None, 1), "violated", BY_ONE, None),
    Row(Expected("violated", None, 1, 2), "violated", BY_ONE, None),
    Row(
        Expected("violated", None, 0),
        "violated",
        BY_ONE,
        "expected rank 0 as culprit, got rank 1 in step 2",
    ),
    Row(
        Expected("violated", None, 1, 0),
        "violated",
        BY_ONE,
        "expected rank 1 in step 0 as culprit, got rank 1 in step 2",
    ),
    Row(
        Expected("violated", None, 0, 2),
        "violated",
        BY_ONE,
        "expected rank 0 in step 2 as culprit, got rank 1 in step 2",
    ),
    Row(Expected("violated", None, 1), "violated", found(), "expected rank 1 as culprit, but the finding names none"),
    Row(HELD, "held", None, f"never applied: {LATE}", [LATE]),
    Row(Expected("violated"), "held", None, f"never applied: {LATE}; {LATE}", [LATE, LATE]),
    Row(Expected("violated", None, 1, 2), "violated", BY_ONE, f"never applied: {LATE}", [LATE]),
]


def said(rule: type[Expected], row: Row) -> str | None:
    return rule(*row.expected).unmet(row.came, row.primary, row.never_applied, row.remark)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_an_expectation_accepts_or_refuses_each_outcome_of_the_table(row: Row) -> None:
    assert said(Expected, row) == row.why


# ---- faulty rules


class Blind(Expected):
    """Ignores a part of what is expected, or a part of the result. This class itself ignores nothing."""

    __slots__ = ()

    def unmet(
        self, came: str, primary: Finding | None, never_applied: Sequence[str] = (), remark: str = ""
    ) -> str | None:
        return Expected(*self.seen()).unmet(came, primary, self.happened(never_applied), remark)

    def seen(self) -> Expected:
        return self

    def happened(self, never_applied: Sequence[str]) -> Sequence[str]:
        return never_applied


class AnyStep(Blind):
    """Ignores the step, as an exploration once did."""

    __slots__ = ()

    def seen(self) -> Expected:
        return self._replace(step=None)


class AnyRank(Blind):
    __slots__ = ()

    def seen(self) -> Expected:
        return self._replace(rank=None)


class StepZeroIsAny(Blind):
    __slots__ = ()

    def seen(self) -> Expected:
        return self._replace(step=self.step or None)


class RankZeroIsAny(Blind):
    __slots__ = ()

    def seen(self) -> Expected:
        return self._replace(rank=self.rank or None)


class AnyClass(Blind):
    __slots__ = ()

    def seen(self) -> Expected:
        return self._replace(klass=None)


class WhateverHappened(Blind):
    """Ignores faults that were never applied, as an exploration once did."""

    __slots__ = ()

    def happened(self, never_applied: Sequence[str]) -> Sequence[str]:
        return ()


class VerdictFirst(Expected):
    """Reports a fault that was never applied only if all else is as expected."""

    __slots__ = ()

    def unmet(
        self, came: str, primary: Finding | None, never_applied: Sequence[str] = (), remark: str = ""
    ) -> str | None:
        return super().unmet(came, primary, (), remark) or super().unmet(came, primary, never_applied, remark)


class SameWord(Expected):
    """Accepts only the verdict "held", though an exploration has other words for success."""

    __slots__ = ()

    def unmet(
        self, came: str, primary: Finding | None, never_applied: Sequence[str] = (), remark: str = ""
    ) -> str | None:
        if came != self.verdict:
            return f"expected {self.verdict}, got {came}"
        return super().unmet(came, primary, never_applied, remark)


TWINS = [AnyStep, AnyRank, StepZeroIsAny, RankZeroIsAny, AnyClass, WhateverHappened, VerdictFirst, SameWord]


def test_an_honest_twin_passes() -> None:
    assert not [row for row in ROWS if said(Blind, row) != row.why]


@pytest.mark.parametrize("twin", TWINS)
def test_each_twin_is_caught(twin: type[Expected]) -> None:
    assert [row for row in ROWS if said(twin, row) != row.why]
