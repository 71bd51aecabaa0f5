"""Bounds of an exploration, each with its number: preemptions, late deliveries, deaths, early time-outs.

What each counts is in `dpsim.campaign.deepening`. None: no bound.
"""

from __future__ import annotations

from typing import NamedTuple

from dpsim.contract.words import counted
from dpsim.scenario import Scenario

WORDS = {
    "preemptions": ("preemption", "preemptions"),
    "late_deliveries": ("late delivery", "late deliveries"),
    "deaths": ("death", "deaths"),
    "early_timeouts": ("early time-out", "early time-outs"),
}

OF_LIMITS = ("preemptions", "late_deliveries", "deaths")
"""Those that are keys of `limits:`. `limits.early_timeouts` is a rule of the world, and bounds by an option alone."""


class Bounds(NamedTuple):
    """At most this number of each in a schedule.

    >>> str(Bounds(late_deliveries=2, deaths=1).at(1)), str(Bounds(preemptions=3).at(0))
    ('at most 1 late delivery and at most 1 death', 'no preemption')
    """

    preemptions: int | None = None
    late_deliveries: int | None = None
    deaths: int | None = None
    early_timeouts: int | None = None

    @staticmethod
    def of(scenario: Scenario, asked: Bounds) -> Bounds:
        """Those of a scenario's limits; what was asked for goes before them."""
        limits = Bounds(**{key: getattr(scenario.limits, key) for key in OF_LIMITS})
        return Bounds(*(one if one is not None else other for one, other in zip(asked, limits, strict=True)))

    @property
    def binds(self) -> bool:
        return any(one is not None for one in self)

    @property
    def most(self) -> int:
        """The last level."""
        return max((one for one in self if one is not None), default=0)

    def at(self, level: int) -> Bounds:
        """At most this number of each, as far as they have a bound."""
        return Bounds(*(None if one is None else min(one, level) for one in self))

    @property
    def strategy(self) -> str:
        """The search for a world of this level. Deaths and early time-outs are of the world."""
        of_steps = [(key, getattr(self, key)) for key in ("preemptions", "late_deliveries")]
        words = " ".join(f"{key}={number}" for key, number in of_steps if number is not None)
        return f"within {words}" if words else "dpor"

    def __str__(self) -> str:
        parts = []
        for key, number in zip(self._fields, self, strict=True):
            if number is not None:
                parts.append(f"at most {counted(number, *WORDS[key])}" if number else f"no {WORDS[key][0]}")
        return ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + "".join(parts[-1:])
