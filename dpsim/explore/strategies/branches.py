"""The tree of one DPOR in branches, which may be explored at the same time and anywhere.

    tree = Tree()
    while (branch := tree.next()) is not None:          # there may be several at a time
        chosen = Dpor()
        chosen.resume(branch.state)
        ...                                             # some runs
        tree.take(branch, chosen.state(), chosen.asked, chosen.over)
    tree.over

A *branch* owns the places of a schedule from a depth on. The places before it are *shared*: the tree has them, and a
branch only repeats what was chosen there. A race that has to be turned round at a shared place is asked for (`asked`).
The tree then decides as DPOR does: it adds a choice to the place, unless one that would do is there. A choice at a
shared place is a branch. Where there are few branches, the tree splits one. Its first place at which something is
left to try becomes shared, with all places before it.

Why this is sound. Source-DPOR needs an order of the choices of a place, and a choice sleeps in those after it. It does
not need that a choice was explored before the next begins. All have to be explored in the end. Here the order is
that in which the tree makes branches. A choice sleeps in later ones only once its footprint is known. So the next
branch of a place waits for the first result of the one before.

Prior art: Simsa, Bryant, Gibson and Hickey, "Scalable dynamic partial order reduction" (RV 2012); Lang and Sagonas,
"Parallel graph-based stateless model checking" (ATVA 2020).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from dpsim.explore.strategies.dpor import Dpor
from dpsim.explore.strategies.places import DporState, PlaceState, ToTurn

Path: TypeAlias = tuple[str, ...]
"""What was chosen at each place before."""

WIDTH = 32
"""Branches are split while there are fewer."""

UNSPLIT = 64
"""Schedules before the first split: most worlds of a few ranks are proven within these."""


class Branch(NamedTuple):
    """Where one is: `state` is that of its DPOR; None for the beginning."""

    number: int
    state: DporState | None

    def schedules(self, most: int) -> int:
        """How many to run of it."""
        return most


class SharedPlace:
    """A place that the tree has. `before`: the places up to it. `claimed`: choices that are branches; `waits`: for the
    footprint of the last one. A draw has no footprint to wait for.
    """

    def __init__(self, before: Sequence[PlaceState], place: PlaceState, draw: bool) -> None:
        self.before = before
        self.options, self.sleep = place.options, place.sleep
        self.todo, self.tried = [*place.todo], dict(place.tried)
        self.claimed = {*place.tried, place.chosen}
        self.draw = draw
        self.waits = ""

    def next(self) -> str | None:
        """A choice that has to be a branch, and can be one now."""
        if self.waits:
            return None
        return next((one for one in self.todo if one not in self.claimed and one not in self.sleep), None)


class Tree:
    """All branches, and the places that they share."""

    def __init__(self, width: int = WIDTH, unsplit: int = UNSPLIT) -> None:
        self._width = width
        self._unsplit = unsplit
        self._open: deque[Branch] = deque([Branch(0, None)])
        self._running: dict[int, Branch] = {}
        self._made = 1
        self._shared: dict[Path, SharedPlace] = {}
        self._runs = 0
        self.incomplete = False
        """Runs were cut off, since they grew too long."""

    @property
    def over(self) -> bool:
        """Whether every class was seen."""
        return not self._open and not self._running

    @property
    def running(self) -> int:
        """Branches that were given out."""
        return len(self._running)

    @property
    def open(self) -> int:
        """Branches that were not."""
        return len(self._open)

    def next(self, most: int = 1) -> Branch | None:
        """A branch to explore; None if there is none now. It may have more than `most` schedules."""
        if not self._open:
            return None
        branch = self._open.popleft()
        self._running[branch.number] = branch
        return branch

    def take(self, number: int, state: DporState, asked: Sequence[ToTurn], over: bool, runs: int) -> None:
        """A branch was explored for some runs, and is over or not. One of before a new beginning changes nothing."""
        if self._running.pop(number, None) is None:
            return
        self._runs += runs
        self.incomplete |= state.incomplete
        if state.anew:
            self._begin_anew(state)
            return
        path = tuple(place.chosen for place in state.places[: state.own])
        touched = [self._ask(path, one) for one in asked]
        if state.own:
            last = self._shared[path[:-1]]
            if last.waits == path[-1]:
                last.waits = ""
                footprint = state.places[state.own - 1].footprint
                if footprint is not None:
                    last.tried[path[-1]] = footprint
            touched.append(last)
        if not over:
            state, places = self._split(state)
            touched += places
            self._open.append(Branch(number, state))
        for place in dict.fromkeys(touched):
            self._branch(place, state)

    # ---- inside

    def _begin_anew(self, state: DporState) -> None:
        """A kernel of another rank raises: there are more choices, from the first step on."""
        first = Dpor()
        first.known_to_fail = frozenset(state.known_to_fail)
        self._open.clear()
        self._running.clear()
        self._shared.clear()
        self.incomplete, self._runs = False, 0
        self._open.append(Branch(self._made, first.state()))
        self._made += 1

    def _ask(self, path: Path, ask: ToTurn) -> SharedPlace:
        """See to it that a race is turned round at a shared place."""
        place = self._shared[path[: ask.at]]
        if ask.first is None:
            place.todo += [one for one in place.options if one not in place.todo]
        elif not any(one in place.todo for one in ask.first):
            place.todo.append(next(one for one in ask.first if one in place.options))
        return place

    def _split(self, state: DporState) -> tuple[DporState, list[SharedPlace]]:
        """Share the first place at which something is left to try, and all before it."""
        if self._runs < self._unsplit or len(self._open) + len(self._running) >= self._width:
            return state, []
        at = next((at for at in range(state.own, len(state.places) - 1) if _left(state.places[at])), None)
        if at is None:
            return state, []
        chosen = [place.chosen for place in state.places]
        shared = []
        for number in range(state.own, at + 1):
            place = state.places[number]
            one = SharedPlace(state.places[:number], place, place.footprint is None)
            one.tried[place.chosen] = place.footprint or ()
            self._shared[tuple(chosen[:number])] = one
            shared.append(one)
        return state._replace(own=at + 1), shared

    def _branch(self, place: SharedPlace, like: DporState) -> None:
        """Make branches of what is left at a shared place: the next one, or of a draw all."""
        while (chosen := place.next()) is not None:
            place.claimed.add(chosen)
            own = PlaceState(place.options, place.sleep, chosen, [*place.todo], dict(place.tried), None)
            state = like._replace(
                places=[*place.before, own], fresh=len(place.before), incomplete=False, own=len(place.before) + 1
            )
            self._open.append(Branch(self._made, state))
            self._made += 1
            if place.draw:
                place.tried[chosen] = ()
            else:
                place.waits = chosen


def _left(place: PlaceState) -> bool:
    return any(one not in place.tried and one not in place.sleep and one != place.chosen for one in place.todo)
