"""Chooses the schedules of a world that are worth a run. A *schedule* is one order of the steps of a simulated run.

    explore(once, search("portfolio"), Budget(schedules=1000)).summary()

    order.py        the order of one run: which steps commute, which race, when two runs are of one class
    normal_form.py  the steps that caused a failure, in an order that a person can read
    outcomes.py     what actors learned in the runs of a search, as a set
    strategies/     how schedules are chosen, one strategy a file
    explorer.py     the loop over runs, and the verdict
    estimate.py     estimates the number of schedules of a search
    turning.py      for a failing schedule: the nearest one that finishes, and the point of no return

The package is pure: it sees an op only by its label, its footprint and its causes (`dpsim.contract.schedule`). It
imports neither the simulated machine nor the checks. `dpsim.campaign.subject` combines the three. Scenarios, tests and
the command line use that module.
"""

from __future__ import annotations

from dpsim.contract.words import did_you_mean
from dpsim.explore.explorer import Budget, Exploration, Failure, Planted, Problem, explore
from dpsim.explore.outcomes import Outcomes
from dpsim.explore.strategies.base import LONGEST, Picker, Search
from dpsim.explore.strategies.dpor import Dpor
from dpsim.explore.strategies.pct import Pct
from dpsim.explore.strategies.portfolio import Portfolio
from dpsim.explore.strategies.pos import Pos
from dpsim.explore.strategies.walks import Fifo, RandomWalk
from dpsim.explore.strategies.within import NAME, within

STRATEGIES: dict[str, type[Search]] = {kind.name: kind for kind in (Portfolio, Dpor, RandomWalk, Pct, Pos, Fifo)}
"""The strategies by name. The first one is the default."""


def search(name: str, seed: int = 0, longest: int = LONGEST) -> Search:
    """Returns a strategy by its name, which may have bounds (`dpsim.explore.strategies.within`). `longest`: the steps
    after which it cuts a run off. Raises ValueError for an unknown name.
    """
    if name.startswith(f"{NAME} "):
        return within(name, longest=longest)
    kind = STRATEGIES.get(name)
    if kind is None:
        hint = did_you_mean(name, STRATEGIES)
        raise ValueError(f"there is no strategy {name!r}{hint} (there are {', '.join(STRATEGIES)})")
    return kind(longest=longest, seed=seed)


__all__ = [
    "LONGEST",
    "STRATEGIES",
    "Budget",
    "Exploration",
    "Failure",
    "Outcomes",
    "Picker",
    "Planted",
    "Problem",
    "Search",
    "explore",
    "search",
]
