"""What all strategies of exploration share: run after run, they note the order of what happened.

A strategy is asked in turn

    while search.begin():                  # is there a schedule left to try?
        ... a run, in which the machine asks `pick` and `draw` ...
        search.end(whole)                  # was it a whole run, or cut off?

and says what it knows at the end: `exhausted` is True only if every schedule was tried or is equal to one that was, up
to commuting steps; `bounded` is True if that is so but for runs that were cut off after `longest` steps. A subclass
answers `select` and `drawn`; everything else is here: the order of steps and the races between them (`order`), and the
schedule as a list of words by which the run can be repeated (`schedule`).

Prior art: Shuttle's `Scheduler` (`new_execution`, `next_task`, `next_u64`); loom's and Coyote's strategies.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from dpsim.explore.order import Labels, Order
from dpsim.schedule import Candidate, CutOff, Strategy

LONGEST = 10_000
"""Steps after which a run is cut off, unless told otherwise: something polls for ever. The order of a run takes memory
and time by the square of its steps: 10,000 of one poll take seconds and some dozen MB, 100,000 minutes and GB.
"""


class Search(Strategy):
    """Run after run."""

    name = "search"
    exhausted = False
    bounded = False

    def __init__(self, labels: Labels | None = None, longest: int = LONGEST) -> None:
        self.labels = labels if labels is not None else Labels()
        self.longest = longest
        self.order = Order(self.labels)
        self.schedule: list[str] = []
        self.too_long = False
        self.redundant = False
        self.failed = False  # something was wrong in this run; set by whoever judges it, before `end`

    # ---- what a strategy answers

    @abstractmethod
    def select(self, candidates: Sequence[Candidate]) -> int:
        """Which candidate comes next."""

    def drawn(self, label: str, options: Sequence[str]) -> int:
        """Which option."""
        return 0

    # ---- between runs

    def begin(self) -> bool:
        """Before each run. False if there is no schedule left."""
        self.order = Order(self.labels)
        self.schedule = []
        self.too_long = False
        self.redundant = False
        self.failed = False
        return True

    def end(self, whole: bool) -> None:
        """After each run; `whole` is False if it was cut off."""

    # ---- what the machine asks

    def pick(self, candidates: Sequence[Candidate]) -> int:
        if len(self.order.steps) >= self.longest:
            self.too_long = True
            raise CutOff(f"{self.longest} steps")
        index = self.select(candidates)
        one = candidates[index]
        step = self.order.add(one.label, one.touches(), one.past)
        one.past = step.past
        self.schedule.append(one.label)
        return index

    def draw(self, label: str, options: Sequence[str]) -> int:
        index = self.drawn(label, options)
        words = f"{label}: {options[index]}"
        self.order.draw(words, index)
        self.schedule.append(words)
        return index

    @property
    def current(self) -> Search:
        """Who answers the machine in the present run."""
        return self
