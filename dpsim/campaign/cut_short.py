"""Cut short: which limit ended a search before it had tried every schedule, and in which worlds of a set.

    limit_of(found, Options("dpor", 300))                       # "schedules"
    cuts = Cuts()
    cuts.add(limit, 17, scenario)                               # world 17 of the set
    cuts.all()                                                  # one `Cut` for each limit

A larger number of schedules or a larger budget lets a search go on. No option lets a run go on that dpsim cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from dpsim.explore import Exploration
from dpsim.scenario import Scenario

Limit: TypeAlias = Literal["", "schedules", "budget", "strategy", "memory", "length", "interrupt"]
"""What ended a search.

`schedules`: the number of `--schedules`. `budget`: the time of `--budget`. `strategy`: it has no further schedule, and
proves nothing. `memory`: a run took too many records or too much memory. `length`: dpsim cut some runs off, because
they were too long, and tried all others. `interrupt`: Ctrl-C or a signal. Empty: nothing ended the search early.
"""


def limit_of(found: Exploration, strategy: str, schedules: int, timed: bool) -> Limit:
    """Returns what ended a search. `schedules`: the number that the user allows. `timed`: the search had a budget."""
    if found.verdict not in ("sampled", "bounded"):
        return ""
    if found.outgrown:
        return "memory"
    if found.verdict == "bounded" and not found.unfinished:
        return "length" if found.cut else ""
    within = bool(found.within or found.unfinished)
    most = schedules * (2 if strategy == "portfolio" and not within else 1)  # the portfolio samples as many as it tries
    if found.runs >= most:
        return "schedules"
    return "budget" if timed else "strategy"


class Cut(NamedTuple):
    """Worlds of a set that one limit cut short: their number, and number (from 1) and scenario of the `first`. `begun`:
    the search ran some of their schedules. `bound`, `polls`: what cut the first one's runs off, in words. `all`: each
    of them; of worlds that were not begun, the first ones (`dpsim.campaign.whole.LISTED`).
    """

    limit: Limit
    begun: bool
    worlds: int
    first: int
    scenario: Scenario
    bound: str = ""
    polls: str = ""
    all: Sequence[tuple[int, Scenario]] = ()


class Cuts:
    """The worlds of a set that were cut short, by limit."""

    def __init__(self) -> None:
        self._cuts: dict[Limit, Cut] = {}
        self._worlds: dict[Limit, list[tuple[int, Scenario]]] = {}

    def add(self, limit: Limit, number: int, scenario: Scenario, found: Exploration) -> None:
        """Adds a world that was cut short. An empty limit adds nothing."""
        if not limit:
            return
        self._cuts.setdefault(limit, Cut(limit, True, 0, number, scenario, " or ".join(found.bounds), found.polls))
        self._worlds.setdefault(limit, []).append((number, scenario))

    def all(self) -> tuple[Cut, ...]:
        """Returns one `Cut` for each limit, in the order of the first worlds."""
        worlds = self._worlds
        return tuple(one._replace(worlds=len(worlds[key]), all=worlds[key]) for key, one in self._cuts.items())
