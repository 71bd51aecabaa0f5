"""All schedules of a world, one by one: what an explorer's answers are held against.

Depth first over every answer to `pick` and `draw`, by running the world again for each schedule, with no reduction
at all. It is slow, and there is little in it that could be wrong.

    found = enumerate_schedules(case, limit=20_000)
    found.schedules, len(found.classes), len(found.outcomes), found.failing

Two schedules are of one *class* if they fire the same ops and order the same way all pairs of them that matter. A pair
matters if one precedes the other by an edge, or if they conflict. A class is written down as exactly that, a set of
labels and pairs of labels. Nothing is inferred, no clocks, no races, no transitive closure, so nothing is shared with
how a partial
order reduction finds classes. An *outcome* is what all ranks wrote into their journals and how they ended. It does not
depend on what footprints say: an explorer that misses an outcome misses a bug, whatever the classes are.

If footprints say the truth, schedules of one class have one outcome. `Found.torn` has the classes of which that does
not hold.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from dpsim.contract.schedule import Candidate, Footprint, Strategy, conflict
from dpsim.contract.world import Run
from tests.answers import Answers
from tests.worlds.case import Case, execute, faults

Order: TypeAlias = frozenset[Hashable]
Outcome: TypeAlias = Hashable


class Fired(NamedTuple):
    """An op when it was picked. `causes`: bits of the ops that precede it by edges; bit i is the i-th op of the run."""

    label: str
    touches: Footprint
    causes: int


class Recorder(Strategy):
    """Notes a run and checks what the seam promises. What is chosen is up to those that inherit.

    Promised: no two ops that could be picked have the same label, nor have any two of a run, and none is empty. What
    was not there before the last op fired is there because of it: that op is in its causes, or they conflict.
    """

    def __init__(self) -> None:
        self.fired: list[Fired] = []
        self.draws: list[tuple[str, int]] = []
        self.left: tuple[str, ...] = ()  # acquires that stayed blocked
        self.broken: list[str] = []
        self.known_to_fail: set[int] = set()
        self.heard_to_fail: set[int] = set()
        self._before: set[str] = set()

    def choose(self, labels: Sequence[str]) -> int:
        raise NotImplementedError

    def answer(self, label: str, options: Sequence[str]) -> int:
        raise NotImplementedError

    def pick(self, candidates: Sequence[Candidate]) -> int:
        labels = [candidate.label for candidate in candidates]
        self.left = ()
        self._check(candidates, labels)
        index = self.choose(labels)
        op = candidates[index]
        self.fired.append(Fired(op.label, op.touches(), op.causes))
        op.causes |= 1 << len(self.fired) - 1
        self._before = {*labels}
        return index

    def draw(self, label: str, options: Sequence[str]) -> int:
        index = self.answer(label, options)
        self.draws.append((label, index))
        return index

    def failing(self) -> set[int]:
        return self.known_to_fail

    def raised(self, rank: int) -> None:
        self.heard_to_fail.add(rank)

    def blocked(self, candidates: Sequence[Candidate]) -> None:
        self.left = tuple(sorted(candidate.label for candidate in candidates))

    def _check(self, candidates: Sequence[Candidate], labels: list[str]) -> None:
        done = [op.label for op in self.fired]
        if len({*labels, *done}) < len(labels) + len(done) or "" in labels:
            self.broken.append(f"labels are not unique: {sorted(labels)} after {done}")
        if not self.fired:
            return
        last, bit = self.fired[-1], 1 << len(self.fired) - 1
        for candidate in candidates:
            new = candidate.label not in self._before
            if new and not candidate.causes & bit and not conflicts(last.touches, candidate.touches()):
                self.broken.append(f"{candidate.label!r} came after {last.label!r} fired and has no edge from it")

    def order(self) -> Order:
        """The class of the run."""
        pairs: list[Hashable] = [op.label for op in self.fired]
        for late, op in enumerate(self.fired):
            for early, before in enumerate(self.fired[:late]):
                if op.causes >> early & 1:
                    pairs.append((before.label, op.label))
                pairs += [(before.label, op.label, shared) for shared in conflicts(before.touches, op.touches)]
        return frozenset([*pairs, *[draw for draw in self.draws if draw[1]], ("blocked", self.left)])


def conflicts(one: Footprint, other: Footprint) -> list[Hashable]:
    """Resources on which two footprints conflict."""
    return [mine for mine, how in one for theirs, way in other if mine == theirs and conflict(how, way)]


def outcome_of(run: Run) -> Outcome:
    """What each rank saw, and how it ended."""
    return tuple(tuple(journal) for journal in run.journals), tuple(run.ends)


class Answering(Recorder):
    """Gives the answers, then always the first option."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self.answers = answers

    def choose(self, labels: Sequence[str]) -> int:
        return self.answers.next(len(labels))

    def answer(self, label: str, options: Sequence[str]) -> int:
        return self.answers.next(len(options))


@dataclass
class Found:
    """What all schedules of a case show. `complete`: the limit was not met."""

    schedules: int = 0
    failing: int = 0
    complete: bool = False
    classes: dict[Order, Outcome] = field(default_factory=dict)
    outcomes: dict[Outcome, list[str]] = field(default_factory=dict)  # with the classes of their findings
    torn: list[tuple[Outcome, Outcome]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def add(self, case: Case, strategy: Recorder, run: Run) -> None:
        self.schedules += 1
        outcome = outcome_of(run)
        if outcome not in self.outcomes:
            self.outcomes[outcome] = faults(case, run)
        self.failing += bool(self.outcomes[outcome])
        if self.classes.setdefault(strategy.order(), outcome) != outcome:
            self.torn.append((self.classes[strategy.order()], outcome))
        self.broken += strategy.broken

    @property
    def row(self) -> tuple[int, int, int, int]:
        """Schedules, classes, outcomes, failing schedules."""
        return self.schedules, len(self.classes), len(self.outcomes), self.failing


def schedules(case: Case) -> Iterator[tuple[Answering, Run]]:
    """Every schedule of a case, once; those of a case in which kernels raise, once it is known of which ranks."""
    answers: Answers | None = Answers()
    failing: set[int] = set()
    while answers is not None:
        strategy = Answering(answers)
        strategy.known_to_fail = failing
        run = execute(case, strategy)
        yield strategy, run
        if strategy.heard_to_fail:
            failing, answers = failing | strategy.heard_to_fail, Answers()
        else:
            answers = answers.following()


def enumerate_schedules(case: Case, limit: int = 20_000) -> Found:
    """All schedules, or the first `limit`."""
    found = Found()
    for strategy, run in schedules(case):
        if found.schedules == limit:
            return found
        if strategy.heard_to_fail:
            found = Found()
        else:
            found.add(case, strategy, run)
    found.complete = True
    return found
