"""Bounds: limits of an exploration, such as the largest number of preemptions in a schedule.

`dpsim.campaign.deepening` explains what each bound counts. None means that there is no bound.
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
"""Those of a scenario's `limits:`, whose `early_timeouts` is a rule; only an option of the command bounds these."""


class Bounds(NamedTuple):
    """The largest number of each of these events in a schedule.

    >>> str(Bounds(late_deliveries=2, deaths=1).at(1)), str(Bounds(preemptions=3).at(0))
    ('at most 1 late delivery and at most 1 death', 'no preemption')
    """

    preemptions: int | None = None
    late_deliveries: int | None = None
    deaths: int | None = None
    early_timeouts: int | None = None

    @staticmethod
    def of(scenario: Scenario, wanted: Bounds) -> Bounds:
        """Returns the bounds of a scenario's limits. Those of the command line override them."""
        limits = Bounds(**{key: getattr(scenario.limits, key) for key in OF_LIMITS})
        return Bounds(*(one if one is not None else other for one, other in zip(wanted, limits, strict=True)))

    @property
    def binds(self) -> bool:
        """Whether there is any bound."""
        return any(one is not None for one in self)

    @property
    def most(self) -> int:
        """The largest bound, which is the last level."""
        return max((one for one in self if one is not None), default=0)

    def at(self, level: int) -> Bounds:
        """Returns the bounds, each at most `level`."""
        return Bounds(*(None if one is None else min(one, level) for one in self))

    @property
    def strategy(self) -> str:
        """The search strategy for a world of this level. The world itself limits deaths and early timeouts."""
        of_steps = [(key, getattr(self, key)) for key in ("preemptions", "late_deliveries")]
        words = " ".join(f"{key}={number}" for key, number in of_steps if number is not None)
        return f"within {words}" if words else "dpor"

    def __str__(self) -> str:
        parts = []
        for key, number in zip(self._fields, self, strict=True):
            if number is not None:
                parts.append(f"at most {counted(number, *WORDS[key])}" if number else f"no {WORDS[key][0]}")
        return ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + "".join(parts[-1:])
