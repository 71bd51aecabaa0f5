"""Divides the tree of one DPOR into branches, which several processes may explore at the same time.

    tree = Tree()
    while (branch := tree.next()) is not None:          # several branches may be given out at a time
        chosen = Dpor()
        chosen.resume(branch.state)
        ...                                             # some runs
        tree.take(branch.number, chosen.state(), chosen.asked, chosen.over, runs)
    tree.over

A *place* is a point of a schedule at which DPOR chose a step. A *branch* is a schedule up to some depth, together with
all further choices below it. It owns the places from this depth on. The places before it are *shared*: the tree has
them, and the branch only repeats their choices. If a branch finds a race that it has to reverse at a shared place, it
asks the tree (`asked`). The tree then decides as DPOR does: it adds a choice to the place, unless the place has a
suitable one. Each choice at a shared place is a branch. While there are fewer than WIDTH branches, the tree splits one.
The first place at which this branch has a choice left becomes shared, with all places before it.

Why this is sound: source-DPOR needs an order of the choices of a place, and a choice sleeps in those after it. It does
not require that one choice is explored before the next begins, but all have to be explored in the end. Here the order
is that in which the tree makes branches. A choice sleeps in later ones only when its footprint is known. So the next
branch of a place waits for the first result of the branch before it.

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
"""The choice at each place from the first one on."""

WIDTH = 32
"""The tree splits branches while there are fewer than this number."""

UNSPLIT = 64
"""The number of schedules before the first split. Most worlds of a few ranks are proven within these."""


class Branch(NamedTuple):
    """A branch. `state`: the state of its DPOR, None for the beginning of the search."""

    number: int
    state: DporState | None

    def schedules(self, most: int) -> int:
        """Returns the number of schedules of a unit of this branch."""
        return most


class SharedPlace:
    """A place that several branches share. `claimed`: choices that are branches. `waits`: the choice whose footprint is
    not known yet. A draw has none, so its choices wait for nothing.
    """

    def __init__(self, before: Sequence[PlaceState], place: PlaceState, draw: bool) -> None:
        self.before = before
        self.options, self.sleep = place.options, place.sleep
        self.todo, self.tried = [*place.todo], dict(place.tried)
        self.claimed = {*place.tried, place.chosen}
        self.draw = draw
        self.waits = ""

    def next(self) -> str | None:
        """Returns a choice that can become a branch now, or None."""
        if self.waits:
            return None
        return next((one for one in self.todo if one not in self.claimed and one not in self.sleep), None)


class Tree:
    """All branches of a search, and the places that they share."""

    def __init__(self, width: int = WIDTH, unsplit: int = UNSPLIT) -> None:
        self._width = width
        self._unsplit = unsplit
        self._open: deque[Branch] = deque([Branch(0, None)])
        self._running: dict[int, Branch] = {}
        self._made = 1
        self._shared: dict[Path, SharedPlace] = {}
        self._runs = 0
        self.incomplete = False
        """Some runs were cut off because they were too long."""

    @property
    def over(self) -> bool:
        """Whether the search has seen every class."""
        return not self._open and not self._running

    @property
    def running(self) -> int:
        """The number of branches that were given out."""
        return len(self._running)

    @property
    def open(self) -> int:
        """The number of branches that wait to be given out."""
        return len(self._open)

    def next(self, most: int = 1) -> Branch | None:
        """Returns a branch to explore, or None if there is none now. It may have more than `most` schedules."""
        if not self._open:
            return None
        branch = self._open.popleft()
        self._running[branch.number] = branch
        return branch

    def take(self, number: int, state: DporState, asked: Sequence[ToTurn], over: bool, runs: int) -> None:
        """Takes the result of a branch after some runs. `asked`: races to reverse at shared places. `over`: nothing of
        the branch is left. The result of a branch from before a new beginning changes nothing.
        """
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
        """A kernel of another rank raises, so there are more choices from the first step on."""
        first = Dpor()
        first.known_to_fail = frozenset(state.known_to_fail)
        self._open.clear()
        self._running.clear()
        self._shared.clear()
        self.incomplete, self._runs = False, 0
        self._open.append(Branch(self._made, first.state()))
        self._made += 1

    def _ask(self, path: Path, ask: ToTurn) -> SharedPlace:
        place = self._shared[path[: ask.at]]
        if ask.first is None:
            place.todo += [one for one in place.options if one not in place.todo]
        elif not any(one in place.todo for one in ask.first):
            place.todo.append(next(one for one in ask.first if one in place.options))
        return place

    def _split(self, state: DporState) -> tuple[DporState, list[SharedPlace]]:
        """Shares the first place at which something is left, and all before it."""
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
        """Makes branches of the open choices of a shared place: of the next one, or of a draw all."""
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
