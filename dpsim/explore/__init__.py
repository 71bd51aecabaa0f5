"""Which schedules of a world there are, and which of them are worth a run.

    explore(once, search("portfolio"), Budget(schedules=1000)).summary()

    order.py        the order of one run: which steps commute, which race, when two runs are of one class
    normal_form.py  the causes of a failure alone, in an order that a person can read
    strategies/     how schedules are chosen, one strategy a file
    explorer.py     the loop over runs, and the verdict
    estimate.py     how many schedules there are in all, by what was seen of the tree
    turning.py      of a failing schedule, the nearest one that finishes, and the point of no return

All of it is pure: it knows ops by label, footprint and what came before them (`dpsim.contract.schedule`), and neither
the machine nor the checks. `dpsim.campaign.subject` puts these together; that is what scenarios, tests and the command
line use.
"""

from __future__ import annotations

from dpsim.contract.words import did_you_mean
from dpsim.explore.explorer import Budget, Exploration, Failure, Planted, Problem, explore
from dpsim.explore.strategies.base import LONGEST, Picker, Search
from dpsim.explore.strategies.dpor import Dpor
from dpsim.explore.strategies.pct import Pct
from dpsim.explore.strategies.portfolio import Portfolio
from dpsim.explore.strategies.pos import Pos
from dpsim.explore.strategies.walks import Fifo, RandomWalk
from dpsim.explore.strategies.within import NAME, within

STRATEGIES: dict[str, type[Search]] = {kind.name: kind for kind in (Portfolio, Dpor, RandomWalk, Pct, Pos, Fifo)}
"""By name; the first is the default."""


def search(name: str, seed: int = 0, longest: int = LONGEST) -> Search:
    """A strategy by name; `seed` is for those that draw random numbers, and runs are cut off after `longest` steps. One
    that has bounds is named with them (`dpsim.explore.strategies.within`). Raises ValueError for a name that is none.
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
    "Picker",
    "Planted",
    "Problem",
    "Search",
    "explore",
    "search",
]
