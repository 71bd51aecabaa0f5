"""The turning of a failing schedule: the nearest schedule that finishes, and the point of no return.

    found = turning(once, failing_schedule)
    found.swaps        # (("rank 0 delivers wake[0]", "rank 0 delivers resume[0]"),): the other order finishes
    found.point        # the step of the failing schedule after which no tried schedule finishes
    found.schedule     # the schedule that finishes, word by word

For each race of the failing schedule, from the last one on, the search makes a run with the second step first. All
other steps keep their order. A draw is swapped for its first option. If the run fails too, its own races follow later,
so the first schedule that finishes has the fewest swaps.

The *point of no return* is found with random walks. A walk begins with the failing schedule up to and including a step.
If a walk finishes, the point is later. None of the `after` walks from the point finishes, which is no proof.

Prior art: delta debugging on schedules (Choi and Zeller, ISSTA 2002); the backward search of rr and of Microsoft's
time-travel debugger.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from dpsim.contract.events import draw_word
from dpsim.contract.schedule import Candidate, CutOff, Strategy, Unrepeatable
from dpsim.explore.order import Step
from dpsim.explore.strategies.base import LONGEST, Picker
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.explore.strategies.walks import RandomWalk

RUNS = 120
"""The most schedules that the search for the nearest finishing one tries."""

WALKS = 16
"""The number of random walks from a step, all of which have to fail before the step is the point of no return."""

Once: TypeAlias = Callable[[Strategy], bool]
"""Makes a run under the strategy and returns whether it holds. May raise CutOff."""


Swap: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Turning:
    """`swaps`: pairs of steps, each in the order of the failing schedule; a single element is a draw. `point`: the
    point of no return. `after`: the number of failing walks after it. `schedule`: the schedule that finishes. `tried`:
    all runs. If no tried schedule finishes, `swaps` and `schedule` are empty.
    """

    swaps: tuple[Swap, ...]
    point: str
    after: int
    schedule: tuple[str, ...]
    tried: int

    @property
    def finishes(self) -> bool:
        return bool(self.schedule)


class _Made(NamedTuple):
    """`unusual`: the draws that did not take their first option. `whole`: the strategy did not cut the run off."""

    schedule: list[str]
    steps: list[Step]
    unusual: list[str]
    holds: bool
    whole: bool


def turning(once: Once, failing: Sequence[str], *, runs: int = RUNS, longest: int = LONGEST) -> Turning | None:
    """Searches the turning of a failing schedule. Returns None if a run along it holds or is cut off. `runs`: the most
    other schedules that it tries. It also makes up to `WALKS` walks for each step that may be the point of no return.
    """
    first = _made(once, ScheduleReplay(failing, strict=False, longest=longest))
    if first.holds or not first.whole:
        return None
    tried, nearest, swaps = _nearest(once, first, runs, longest)
    if nearest is None:
        return Turning((), "", 0, (), tried)
    return _point(once, first.schedule, nearest, swaps, tried, longest)


def _made(once: Once, picker: Picker) -> _Made:
    picker.begin()
    try:
        holds, whole = once(picker), True
    except (CutOff, Unrepeatable):
        holds, whole = False, False
    return _Made(picker.schedule, picker.order.steps, picker.order.unusual, holds, whole)


def _nearest(once: Once, first: _Made, runs: int, longest: int) -> tuple[int, list[str] | None, tuple[Swap, ...]]:
    queue: deque[tuple[_Made, tuple[Swap, ...]]] = deque([(first, ())])
    known = {tuple(first.schedule)}
    tried = 0
    while queue:
        failed, before = queue.popleft()
        for words, swap in _swapped(failed):
            if tried == runs:
                return tried, None, ()
            tried += 1
            made = _made(once, ScheduleReplay(words, strict=False, longest=longest))
            if made.holds:
                return tried, made.schedule, (*before, swap)
            if made.whole and tuple(made.schedule) not in known:
                known.add(tuple(made.schedule))
                queue.append((made, (*before, swap)))
    return tried, None, ()


def _swapped(failed: _Made) -> list[tuple[list[str], Swap]]:
    """The last race of the run comes first."""
    place = {word: at for at, word in enumerate(failed.schedule)}
    found: list[tuple[int, list[str], Swap]] = []
    for later in failed.steps:
        for earlier in later.races:
            at, end = place[earlier.label], place[later.label]
            since = {step.label: step for step in failed.steps if at < place[step.label] < end}
            before = [word for word in failed.schedule[at + 1 : end] if not _follows(since.get(word), earlier)]
            behind = [word for word in failed.schedule[at + 1 : end] if word not in before]
            words = [*failed.schedule[:at], *before, later.label, earlier.label, *behind, *failed.schedule[end + 1 :]]
            found.append((at, words, (earlier.label, later.label)))
    for word in failed.unusual:
        at = place[word]
        found.append(
            (at, [*failed.schedule[:at], *failed.schedule[at + 1 :]], (word,))
        )  # the run draws again and takes the first option
    found.sort(key=lambda one: -one[0])
    return [(words, swap) for _, words, swap in found]


def _follows(step: Step | None, earlier: Step) -> bool:
    """A step that comes after the earlier one of a race cannot come before it. A draw (None) can."""
    return step is not None and bool(step.causes & earlier.bit)


class _From(RandomWalk):
    name = "from"

    def __init__(self, words: Sequence[str], number: int, longest: int) -> None:
        super().__init__(longest=longest, seed=number)
        self._words = list(words)
        self._number = number

    def select(self, candidates: Sequence[Candidate]) -> int:
        at = self._follow([candidate.label for candidate in candidates])
        if at is not None:
            return at
        return 0 if not self._number else super().select(candidates)

    def drawn(self, label: str, options: Sequence[str]) -> int:
        at = self._follow([draw_word(label, option) for option in options])
        if at is not None:
            return at
        return 0 if not self._number else super().drawn(label, options)

    def _follow(self, words: list[str]) -> int | None:
        if self._words and self._words[0] in words:
            return words.index(self._words.pop(0))
        return None


def _point(
    once: Once, failing: list[str], nearest: list[str], swaps: tuple[Swap, ...], tried: int, longest: int
) -> Turning:
    """Walk 0 takes the op that became ready first, and the others are random."""
    at = _common(failing, nearest)
    while at < len(failing):
        for number in range(WALKS):
            tried += 1
            walk = _made(once, _From(failing[: at + 1], number, longest))
            if walk.holds:
                at = max(at + 1, _common(failing, walk.schedule))
                break
        else:
            return Turning(swaps, failing[at], WALKS, tuple(nearest), tried)
    return Turning(swaps, "", 0, tuple(nearest), tried)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))
