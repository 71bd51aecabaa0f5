"""Enumerates all schedules of a world (a program with fixed parameters and faults). Tests compare explorers with it.

The enumeration is depth first over all answers to `pick` and `draw`. It runs the world again for each schedule and
skips none. It is slow, but so simple that it hardly contains a mistake.

    found = enumerate_schedules(case, limit=20_000)
    found.schedules, len(found.classes), len(found.outcomes), found.failing

Two schedules are in one *class* if they fire the same ops and order each relevant pair of ops in the same way. A pair
is relevant if one op precedes the other by an edge of the machine's graph, or if their footprints conflict. The
footprint of an op lists the resources that it uses. `Recorder.order` writes a class as a set of labels and pairs of
labels. It uses no clocks, no race detection and no transitive closure. So it shares no code with the way in which a
partial order reduction finds classes.

An *outcome* consists of the journals of all ranks and of how each rank ended. It does not depend on footprints. So an
explorer that misses an outcome can miss a bug, whatever the footprints say.

If footprints are correct, all schedules of one class have one outcome. `Found.torn` has the classes with more.
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
    """An op at the time when the machine fired it. `causes` is a bit set of the ops that precede it by edges: bit i
    stands for the i-th op of the run.
    """

    label: str
    touches: Footprint
    causes: int


class Recorder(Strategy):
    """Records the ops of a run, and checks what the machine promises to a strategy. Subclasses choose the ops.

    The machine promises that no label is empty, and that the labels of a run and of all offered ops differ. If the
    machine newly offers an op, the last fired op caused it: it is in the op's causes, or the two conflict.
    """

    def __init__(self) -> None:
        self.fired: list[Fired] = []
        self.draws: list[tuple[str, int]] = []
        self.left: tuple[str, ...] = ()  # acquires of collective slots that stay blocked until the end
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
        """Returns the class of the run, as `enumerate_schedules` compares it."""
        pairs: list[Hashable] = [op.label for op in self.fired]
        for late, op in enumerate(self.fired):
            for early, before in enumerate(self.fired[:late]):
                if op.causes >> early & 1:
                    pairs.append((before.label, op.label))
                pairs += [(before.label, op.label, shared) for shared in conflicts(before.touches, op.touches)]
        return frozenset([*pairs, *[draw for draw in self.draws if draw[1]], ("blocked", self.left)])


def conflicts(one: Footprint, other: Footprint) -> list[Hashable]:
    """Returns the resources on which two footprints conflict."""
    return [mine for mine, how in one for theirs, way in other if mine == theirs and conflict(how, way)]


def outcome_of(run: Run) -> Outcome:
    """Returns the journals of all ranks, and how each rank ended."""
    return tuple(tuple(journal) for journal in run.journals), tuple(run.ends)


class Answering(Recorder):
    """A strategy that returns the given answers, and the first option after them."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self.answers = answers

    def choose(self, labels: Sequence[str]) -> int:
        return self.answers.next(len(labels))

    def answer(self, label: str, options: Sequence[str]) -> int:
        return self.answers.next(len(options))


@dataclass
class Found:
    """What the schedules of a case show. `complete`: the enumeration ended before its limit."""

    schedules: int = 0
    failing: int = 0
    complete: bool = False
    classes: dict[Order, Outcome] = field(default_factory=dict)
    outcomes: dict[Outcome, list[str]] = field(default_factory=dict)  # outcome -> the classes of its findings
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
        """Returns the numbers of schedules, classes, outcomes and failing schedules."""
        return self.schedules, len(self.classes), len(self.outcomes), self.failing


def schedules(case: Case) -> Iterator[tuple[Answering, Run]]:
    """Yields each schedule of a case once. If a kernel of a rank raises, the generator records the rank and starts
    again, because the machine then offers other choices.
    """
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
    """Enumerates all schedules of a case, or the first `limit`."""
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
