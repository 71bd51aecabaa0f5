"""What all strategies of exploration share: a search goes from run to run, and a picker answers within a run.

The loop of an exploration sees a `Search`:

    while search.begin():                  # is there a schedule left to try?
        ... a run, in which the machine asks search.current ...
        search.end(whole)                  # was it a whole run, or cut off?

A search reports what it knows at the end. `exhausted` is True only if every schedule was tried or is equal to one that
was, up to commuting steps. `bounded` is True if that is so but for runs that were cut off after `longest` steps.

The machine asks a `Picker`. A picker notes the order of steps and the races between them (`order`). It also notes the
schedule as a list of words by which the run can be repeated (`schedule`). Most strategies are both, and answer `select`
and `drawn`. The portfolio consists of other searches; it is a search alone, and says whose turn it is.

Prior art: Shuttle's `Scheduler` (`new_execution`, `next_task`, `next_u64`); loom's and Coyote's strategies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from dpsim.contract.schedule import Candidate, CutOff, OptionalWait, Strategy, draw_word, failing_word
from dpsim.contract.words import counted
from dpsim.explore.order import Labels, Order

LONGEST = 10_000
"""Steps after which a run is cut off by default, as when something polls without end. The order of a run takes memory
and time by the square of its steps. 10,000 steps of one poll take seconds and some dozen MB, 100,000 minutes and GB.
"""


class Search(ABC):
    """Run after run. `seeded`: it draws random numbers, and with another seed it is another search."""

    name: str
    seeded = False

    def __init__(self, labels: Labels | None = None, longest: int = LONGEST, seed: int = 0) -> None:
        self.labels = labels if labels is not None else Labels()
        self.longest = longest
        self.seed = seed

    @property
    @abstractmethod
    def current(self) -> Picker:
        """The picker that answers the machine in the present run."""

    @property
    @abstractmethod
    def exhausted(self) -> bool:
        """Whether every class of schedules was seen."""

    @property
    @abstractmethod
    def bounded(self) -> bool:
        """Whether every class was seen but for what comes after `longest` steps."""

    @abstractmethod
    def begin(self) -> bool:
        """Before each run. False if there is no schedule left."""

    @abstractmethod
    def end(self, whole: bool) -> None:
        """After each run; `whole` is False if it was cut off."""


class Picker(Search, Strategy):
    """A search that answers the machine itself. What it notes is of the present run."""

    exhausted = False
    bounded = False
    proves = False
    """Whether it may see every class: then it alone counts the classes of a world that is proven."""

    def __init__(self, labels: Labels | None = None, longest: int = LONGEST, seed: int = 0) -> None:
        super().__init__(labels, longest, seed)
        self.order = Order(self.labels)
        self.schedule: list[str] = []
        self.too_long = False
        self.redundant = False
        self.failed = False  # something was wrong in this run; the judge of the run sets it before `end`
        self.known_to_fail: frozenset[int] = frozenset()  # ranks, as this run begins
        self.heard_to_fail: set[int] = set()  # beside these

    # ---- what a strategy answers

    @abstractmethod
    def select(self, candidates: Sequence[Candidate]) -> int:
        """Which candidate comes next."""

    def drawn(self, label: str, options: Sequence[str]) -> int:
        """Which option."""
        return 0

    # ---- between runs

    @property
    def current(self) -> Picker:
        return self

    def begin(self) -> bool:
        self.order = Order(self.labels)
        self.schedule = []
        self.too_long = False
        self.redundant = False
        self.failed = False
        if self.heard_to_fail:
            self.known_to_fail |= self.heard_to_fail
            self.heard_to_fail.clear()
        return True

    def end(self, whole: bool) -> None:
        pass

    # ---- what the machine asks

    def pick(self, candidates: Sequence[Candidate]) -> int:
        if len(self.order.steps) >= self.longest:
            self.too_long = True
            raise CutOff(counted(self.longest, "step"))
        index = self.select(candidates)
        one = candidates[index]
        step = self.order.add(one.label, one.touches(), one.causes)
        one.causes = step.causes
        self.schedule.append(one.label)
        return index

    def draw(self, label: str, options: Sequence[str]) -> int:
        index = self.drawn(label, options)
        words = draw_word(label, options[index])
        self.order.draw(words, index)
        self.schedule.append(words)
        return index

    def failing(self) -> Collection[int]:
        if self.known_to_fail:
            words = [failing_word(rank) for rank in sorted(self.known_to_fail)]
            self.schedule += words
            self.order.unusual += words
        return self.known_to_fail

    def raised(self, rank: int) -> None:
        self.heard_to_fail.add(rank)

    def waits(self, wait: OptionalWait) -> bool:
        answer = super().waits(wait)
        wait.bit = self.order.draws[-1]
        return answer
