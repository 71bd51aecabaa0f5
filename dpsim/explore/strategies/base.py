"""What all strategies of an exploration share: a search continues from run to run, and a picker answers within a run.

    while search.begin():                  # is a schedule left?
        ... a run, in which the machine calls search.current, a `Picker` ...
        search.end(whole)                  # whole: no strategy cut the run off

At the end, `exhausted` is True only if the search has seen every class of schedules. `bounded` is True if it has seen
every class, but cut off runs after `longest` steps.

A picker notes the steps and races of a run (`order`), and the words with which dpsim can repeat it (`schedule`). Most
strategies are both, and define `select` and `drawn`. The portfolio only combines other searches.

Prior art: Shuttle's `Scheduler` (`new_execution`, `next_task`, `next_u64`); loom's and Coyote's strategies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from dpsim.contract.events import draw_word, failing_word
from dpsim.contract.schedule import Candidate, CutOff, OptionalWait, Strategy
from dpsim.contract.words import counted
from dpsim.explore.order import Labels, Order

LONGEST = 10_000
"""The steps after which a strategy cuts a run off by default, for instance one that polls without end. Time and memory
for the order of a run grow with the square of its steps. 10,000 steps of one poll take seconds and some dozen MB, and
100,000 take minutes and GB.
"""


class Search(ABC):
    """Chooses run after run. `seeded`: the search draws random numbers, so another seed gives other schedules."""

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
        """Whether the search has seen every class of schedules."""

    @property
    @abstractmethod
    def bounded(self) -> bool:
        """Whether the search has seen every class, except for what comes after `longest` steps of a run."""

    @abstractmethod
    def begin(self) -> bool:
        """Prepares the next run. Returns False if no schedule is left."""

    @abstractmethod
    def end(self, whole: bool) -> None:
        """Ends a run. `whole`: False if the strategy cut it off."""


class Picker(Search, Strategy):
    """A search that answers the machine itself. Its notes are those of the present run."""

    exhausted = False
    bounded = False
    proves = False
    """Whether the search may see every class. In a proof, only the classes of such a search count."""

    def __init__(self, labels: Labels | None = None, longest: int = LONGEST, seed: int = 0) -> None:
        super().__init__(labels, longest, seed)
        self.order = Order(self.labels)
        self.schedule: list[str] = []
        self.too_long = False
        self.redundant = False
        self.failed = False  # the run has a problem; the judge of the run sets this before `end`
        self.known_to_fail: frozenset[int] = frozenset()  # ranks, as this run begins
        self.failure_known: set[int] = set()  # beside these

    # ---- what a strategy answers

    @abstractmethod
    def select(self, candidates: Sequence[Candidate]) -> int:
        """Returns the index of the candidate that comes next."""

    def drawn(self, label: str, options: Sequence[str]) -> int:
        """Returns the index of the option of a draw."""
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
        if self.failure_known:
            self.known_to_fail |= self.failure_known
            self.failure_known.clear()
        return True

    def end(self, whole: bool) -> None:
        pass

    # ---- what the machine asks

    def pick(self, candidates: Sequence[Candidate]) -> int:
        if len(self.order.steps) >= self.longest:
            self.too_long = True
            raise CutOff(counted(self.longest, "choice"))
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
        self.failure_known.add(rank)

    def waits(self, wait: OptionalWait) -> bool:
        answer = super().waits(wait)
        wait.bit = self.order.draws[-1]
        return answer
