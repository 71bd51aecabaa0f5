"""DPOR: one schedule of each class, by source-DPOR with sleep sets, which runs the program again for each schedule.

Two schedules that differ only in the order of commuting steps have the same result, so one schedule of each class is
enough. The way to a new class is to reverse a *race*: two steps that conflict and that nothing else orders. A *place*
is a point of the schedule at which the search chose a step. After each run the search looks at the races of the run.
For racing steps e and f, it has to try f at the place where it chose e. If f needs steps that come after e, it tries
the first of these instead. When a place has no choice left, the search goes back to the place before it. When no place
is left, the search has seen every class.

A step that the search has tried at a place *sleeps* at later places. The search does not try it there again until a
conflicting step has happened. If all enabled steps sleep, the search cuts the run off and counts it as redundant.

Three rules go beyond the textbook. Without each of them a proof was wrong, as a world in tests/worlds shows:

* An acquire that finds no free slot races with those that could get one (`blocked`). It may never happen, and then it
  would never race.
* A step that takes possibilities away from others, such as a kill, comes last unless a race requires it earlier. So the
  run shows what the kill can take away.
* A draw is a place of its kind, at which the search tries every option. An op may wait for peers that it does not need
  (a rendezvous), or not (eager). The search tries the rendezvous only if a run showed that this wait may last without
  end. A wait that ends shows the same as an op that ends late (`dpsim.sim.hosts.early_ends`).

Some waits of a run may last without end (`lasting`). For each of them, the last peer of its op never arrived, or
arrived *after* one of these ops. Two hosts that send before they receive are such a pair: each of the two waits alone
suffices for the hang. All that comes after an op carries the op's bit, through edges, messages and conflicting steps.

Why this is complete: let S be the ops that wait without end in a run R. If they all end eagerly instead, R continues to
a run T in which no op waits. The search explores T like any other run. In T all ops of S may last, because R ended only
when nothing could happen any more. If the last peer of an op could have arrived without any of S, it would have arrived
in R. So the search tries the wait at the first place of T at which an op of S was drawn. From there it reaches a run in
which this op waits and the rest of S ends eagerly. In that run all of S may last as well, and so on up to R. A
redundant run ends where only sleeping steps are left. The other answer of a draw may lead to a step that wakes one. So
its waits count like those of a whole run.

If waits may last in the very first run, the second run tries all of them at once, and the search begins again with it.
If several waits last only together, as in a ring, the search would otherwise find this only at its end.

A kernel that raises stops its device. Any part of the device's other work may have ended by then, so each piece of this
work is a step. These steps are expensive, so the search has them only for ranks whose kernels raised in some run. When
a kernel of a rank raises for the first time, the search begins again.

A label identifies the same op in every run. So a run repeats the first steps of the run before it, and the search need
not compute their order again.

Prior art: Abdulla, Aronis, Jonsson and Sagonas, "Source Sets" (JACM, 2017); Godefroid's sleep sets (1996); Mc SimGrid.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from dpsim.contract.schedule import TIME, Candidate, CutOff, Footprint, OptionalWait, Unrepeatable
from dpsim.explore.order import Labels, Step, lasting, overlap
from dpsim.explore.strategies.base import LONGEST, Picker
from dpsim.explore.strategies.places import ChoicePoint, DporState, ToTurn
from dpsim.explore.strategies.walks import ordinary

WHY = "Something in the run is no function of the schedule: a clock, an unseeded random number, state of an earlier run"


class Diverged(Unrepeatable):
    """A repeated run took another way, so something in the program does not depend on the schedule alone."""


class Dpor(Picker):
    """The search: one schedule of each class."""

    name = "dpor"
    proves = True

    def __init__(self, labels: Labels | None = None, longest: int = LONGEST, seed: int = 0) -> None:
        super().__init__(labels, longest, seed)
        self.places: list[ChoicePoint] = []
        self._at = 0
        self._fresh = 0  # places from here on are new in this run
        self._begun = False
        self._incomplete = False
        self._first = True  # no run has ended yet
        self._about: OptionalWait | None = None  # what is being drawn
        self._at_once: set[str] = set()  # which waits may last in the first run
        self._whole = 0
        self.own = 0
        """Places before this one belong to the tree (`branches.py`), and races to reverse there go into `asked`."""
        self.asked: dict[ToTurn, None] = {}
        self._anew = False
        self.shares: list[float] = []
        """For each run log2 of its share of the tree, by the choices that its places had when it ended."""
        self.left_out = 0
        """The number of whole runs before the search began again. It may see their classes a second time."""

    # ---- between runs

    def begin(self) -> bool:
        super().begin()
        self._at = 0
        if not self._begun:
            self._begun = True
            return True
        return not self.over

    @property
    def over(self) -> bool:
        """Whether this search is done: nothing is left, or the search has to begin again elsewhere."""
        return self.exhausted or self.bounded or self._anew

    def end(self, whole: bool) -> None:
        self._incomplete |= self.too_long
        self._whole += whole
        places = self.places
        if whole and self._at < len(places):
            raise Diverged(
                f"a repeated schedule ended after choice {self._at} and should go on with {places[self._at].chosen!r}. "
                f"{WHY}"
            )
        if self.failure_known:
            self._anew = self.own > 0
            self._begin_anew()
            self._at_once.clear()
            self._first, self._incomplete = True, False
            self.left_out = self._whole
            return
        if whole or self.redundant:
            self._look_at_waits(whole)
        if self._first:
            self._first = False
            if self._at_once:
                return
        self.shares.append(-sum(log2(len(place.choices())) for place in places))
        while len(places) > self.own:
            place = places[-1]
            place.tried[place.chosen] = place.step.footprint if place.step is not None else ()
            another = place.next()
            if another is not None:
                place.chosen = another
                self._fresh = len(places) - 1
                return
            places.pop()
        self.exhausted, self.bounded = not self._incomplete, self._incomplete

    def state(self) -> DporState:
        """Returns the state between two runs as plain data."""
        places = [one.state() for one in self.places]
        fail, anew = self.known_to_fail | self.failure_known, self._anew
        flags = self._begun, self._incomplete, self._first
        return DporState(places, self._fresh, *flags, sorted(self._at_once), sorted(fail), self.own, anew)

    def resume(self, state: DporState) -> None:
        """Continues from a state. It does not change `state`."""
        self._fresh, self._begun, self._incomplete, self._first = state[1:5]
        self._at_once, self.known_to_fail, self.own = {*state.at_once}, frozenset(state.known_to_fail), state.own
        self.places = [ChoicePoint.of(one) for one in state.places]

    # ---- what the machine asks

    def pick(self, candidates: Sequence[Candidate]) -> int:
        at = self._at
        if at < self._fresh and (known := self.places[at].step) is not None:
            label = known.label  # the run equals the last one up to here, so the order is known
            for index, one in enumerate(candidates):
                if one.label == label:
                    self._at = at + 1
                    self.order.take(known)
                    one.causes = known.causes
                    self.schedule.append(label)
                    return index
        index = super().pick(candidates)
        step = self.order.steps[-1]
        step.at = at
        self.places[at].step = step
        if at >= self._fresh and step.races:
            self._turn_round(step.label, step.races, step.causes, at, step.footprint)
        return index

    def select(self, candidates: Sequence[Candidate]) -> int:
        at, labels = self._at, [candidate.label for candidate in candidates]
        if at < len(self.places):
            self._at = at + 1
            return self._repeat(self.places[at].chosen, labels)
        sleep = self._asleep()
        awake = [candidate for candidate in candidates if candidate.label not in sleep] if sleep else candidates
        if not awake:
            self.redundant = True
            raise CutOff("redundant")
        chosen = awake[ordinary(awake)].label
        self.places.append(ChoicePoint(labels, sleep, chosen))
        self._at = at + 1
        return labels.index(chosen)

    def drawn(self, label: str, options: Sequence[str]) -> int:
        at = self._at
        if at == len(self.places):
            place = ChoicePoint(list(options), self._asleep(), options[0])
            if self._about is None:
                place.todo = place.options
            elif label in self._at_once:
                place.chosen = options[-1]
                place.todo = [place.chosen]
            self.places.append(place)
        self.places[at].wait = self._about
        self._at = at + 1
        return self._repeat(self.places[at].chosen, options)

    def waits(self, wait: OptionalWait) -> bool:
        self._about = wait
        try:
            return super().waits(wait)
        finally:
            self._about = None

    def lost(self, candidates: Sequence[Candidate]) -> None:
        self.blocked(candidates)

    def blocked(self, candidates: Sequence[Candidate]) -> None:
        if self._at < len(self.places):
            return  # noted when this place was new
        for one in candidates:
            footprint = tuple(one.touches())
            causes, races = self.order.before(footprint, one.causes)
            self._turn_round(one.label, races, causes, self._at, footprint)

    # ---- inside

    def _look_at_waits(self, whole: bool) -> None:
        """Finds the draws of the run that have to be tried with their other answer, too."""
        drawn = []
        for at, place in enumerate(self.places):
            wait, place.wait = place.wait, None
            if wait is not None and (wait.counts or not whole):
                drawn.append((at, place, wait))
        left = lasting([wait for *_, wait in drawn])
        if left and self._first:
            self._at_once = {wait.label for wait in left}
            self.left_out = self._whole
            self._begin_anew()
        for at, place, wait in drawn:
            if wait not in left and place.chosen == place.options[0]:
                continue
            if at < self.own:
                self.asked[ToTurn(at, None)] = None
            else:
                place.todo = place.options

    def _begin_anew(self) -> None:
        self.places.clear()
        self._fresh = 0

    def _repeat(self, chosen: str, options: Sequence[str]) -> int:
        try:
            return options.index(chosen)
        except ValueError:
            raise Diverged(
                f"choice {self._at} of a repeated schedule should be {chosen!r}, "
                f"possible are {', '.join(options)}. {WHY}"
            ) from None

    def _asleep(self) -> dict[str, Footprint]:
        """The steps that slept or were tried at the last place, without those that conflict with the chosen one."""
        if not self.places:
            return {}
        last = self.places[-1]
        if last.step is None:  # a draw conflicts with nothing
            return last.sleep
        footprint = last.step.footprint
        both = {**last.sleep, **last.tried}
        return {label: fp for label, fp in both.items() if label != last.chosen and not overlap(fp, footprint)}

    def _turn_round(self, label: str, races: list[Step], causes: int, end: int, footprint: Footprint) -> None:
        """Reverses races. For each earlier step of `races`, the search has to try this step, or one that it needs, at
        the place of the earlier one. `end`: the place of this step. A time-out may need a death that takes other ops
        away, and the order does not show this. So if the reversal of a time-out is impossible, the search tries all
        options of the place.
        """
        for other in races:
            place = self.places[other.at]
            # Steps after `other` that do not come after it, and this one: which of them can be first?
            since, first = 0, []
            for between in self.places[other.at + 1 : end]:
                one = between.step
                if one is not None and not one.causes & other.bit:
                    if not one.causes & since:
                        first.append(one.label)
                    since |= one.bit
            if not causes & since:
                first.append(label)
            if not any(one in place.todo for one in first):
                enabled = next((one for one in first if one in place.options), None)
                if other.at < self.own:
                    if enabled is not None or (TIME, "w") in footprint:
                        self.asked[ToTurn(other.at, tuple(first) if enabled is not None else None)] = None
                elif enabled is not None:  # otherwise only `other` made it possible
                    place.todo.append(enabled)
                elif (TIME, "w") in footprint:
                    place.todo += [one for one in place.options if one not in place.todo]
