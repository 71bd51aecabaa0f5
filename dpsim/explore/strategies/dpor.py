"""All schedules, one of each class: source-DPOR with sleep sets, by running again.

Two schedules that differ only in the order of steps that commute show the same. So of each class one is enough, and the
way to a new class is to turn a *race* round. After each run the search looks at its races. For steps e and f that race,
f has to be tried where e was chosen. If f needs steps after e, the first of these is tried instead. The search leaves a
place when all that had to be tried there was tried. When no place is left, every class has been seen, and what no run
showed does not happen.

A step that the search tried at a place *sleeps* at later places. The search does not try it there again until a step
that conflicts with it has happened. A run in which everything sleeps is cut off and counted as redundant.

Three rules beyond the textbook, without which a proof was wrong (each has a world in tests/worlds that shows it):

* an acquire that cannot have what it wants is raced with those that could (`blocked`): it may never happen, and then it
  would never race;
* what takes possibilities away from others (a kill) is chosen last unless a race asks for it. So the run shows what it
  can take away;
* a draw is a separate place, at which every option is tried. An op may wait that need not (rendezvous, not eager). That
  option is tried only where a run has shown that the wait may last without end. A wait that ends shows nothing new: it
  equals a late end of the op (`dpsim.sim.hosts.early_ends`).

These waits of a run may last: for each, the last of its peers did not come, or came *after* one of these ops
(`lasting`). Two hosts that send before they receive are such a pair, each of which would do alone. What comes after an
op carries the op's bit, through edges, messages and steps that conflict.

Why that is enough: let S be the ops that wait without end in a run R. Let them all go on instead, and R goes on to a
run T, in which no op waits. The search explores T like any other run, and all of S may last in T. For R ended only when
nothing could happen any more. If the last peer of one could have come without any of S, it would have come in R. So at
the first place of T at which one of S was drawn, its wait is tried. Behind it lies a run in which this one waits and
the rest of S goes on. All of S may last there, too, and so on up to R. A run that was cut off says nothing of its
draws: its class is seen in another run, or is not judged.

If waits may last in the very first run, the second run tries them all at once, and the search begins anew with it. If
they have to wait together to last, as in a ring, the search would otherwise find that only at its end.

A kernel that raises stops its device. Which of the other work there has ended by then is a choice, and costs a step for
each piece of that work. So it is a choice only for ranks of which a run has shown that a kernel raises. With the first
such run of a rank the search begins anew.

A label, and not an actor, identifies an op: it is the same op in every run. So a run repeats the first steps of the
run before it, and the search need not put them in order again.

Prior art: Abdulla, Aronis, Jonsson and Sagonas, "Source Sets" (JACM, 2017); Godefroid's sleep sets (1996); Mc SimGrid.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from dpsim.contract.schedule import TIME, Candidate, CutOff, Footprint, OptionalWait, Unrepeatable
from dpsim.explore.order import Labels, Step, lasting, overlap
from dpsim.explore.strategies.base import LONGEST, Picker
from dpsim.explore.strategies.places import ChoicePoint, DporState, PlaceState, ToTurn
from dpsim.explore.strategies.walks import ordinary

WHY = "Something in the run is no function of the schedule: a clock, an unseeded random number, state of an earlier run"


class Diverged(Unrepeatable):
    """A run that was repeated went another way: something in it is not a function of the schedule."""


class Dpor(Picker):
    """Every class once."""

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
        """Places before are another's (`dpsim.explore.strategies.branches`): what has to be tried there is `asked`."""
        self.asked: dict[ToTurn, None] = {}
        self._anew = False
        self.shares: list[float] = []
        """Of each run: log2 of its share of the tree, by what is known of the places when it ends."""
        self.left_out = 0
        """How many whole runs the search forgot, as it began anew after them. It may see their classes again."""

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
        """Whether nothing is left, or another one has to begin anew."""
        return self.exhausted or self.bounded or self._anew

    def end(self, whole: bool) -> None:
        self._incomplete |= self.too_long
        self._whole += whole
        places = self.places
        if whole and self._at < len(places):
            raise Diverged(
                f"a repeated schedule ended after step {self._at} and should go on with {places[self._at].chosen!r}. "
                f"{WHY}"
            )
        if self.heard_to_fail:
            self._anew = self.own > 0
            self._begin_anew()
            self._at_once.clear()
            self._first, self._incomplete = True, False
            self.left_out = self._whole
            return
        drawn = [(at, place, place.wait) for at, place in enumerate(places) if place.wait is not None]
        if whole and drawn:
            left = lasting([wait for *_, wait in drawn])
            if left and self._first:
                self._at_once = {wait.label for wait in left}
                self.left_out = self._whole
                self._begin_anew()
            for at, place, wait in drawn:
                place.wait = None
                if wait in left and at < self.own:
                    self.asked[ToTurn(at, None)] = None
                elif wait in left:
                    place.todo = place.options
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
        """Where it stands between two runs, as plain data."""
        places = [
            PlaceState(
                one.options, one.sleep, one.chosen, one.todo, one.tried, one.step.footprint if one.step else None
            )
            for one in self.places
        ]
        fail, anew = self.known_to_fail | self.heard_to_fail, self._anew
        flags = self._begun, self._incomplete, self._first
        return DporState(places, self._fresh, *flags, sorted(self._at_once), sorted(fail), self.own, anew)

    def resume(self, state: DporState) -> None:
        """Go on from there. The state stays as it is."""
        self._fresh, self._begun, self._incomplete, self._first = state[1:5]
        self._at_once, self.known_to_fail, self.own = {*state.at_once}, frozenset(state.known_to_fail), state.own
        self.places = []
        for one in state.places:
            place = ChoicePoint(one.options, one.sleep, one.chosen)
            place.todo, place.tried = [*one.todo], {**one.tried}
            self.places.append(place)

    # ---- what the machine asks

    def pick(self, candidates: Sequence[Candidate]) -> int:
        at = self._at
        if at < self._fresh and (known := self.places[at].step) is not None:
            label = known.label  # as in the last run, up to here: its order is known
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
                place.todo = place.options[::-1]
                place.chosen = place.todo[0]
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
            return  # recorded when this point was new
        for one in candidates:
            footprint = tuple(one.touches())
            causes, races = self.order.before(footprint, one.causes)
            self._turn_round(one.label, races, causes, self._at, footprint)

    # ---- inside

    def _begin_anew(self) -> None:
        """The next run is a first one: nothing in it is repeated."""
        self.places.clear()
        self._fresh = 0

    def _repeat(self, chosen: str, options: Sequence[str]) -> int:
        try:
            return options.index(chosen)
        except ValueError:
            raise Diverged(
                f"step {self._at} of a repeated schedule should be {chosen!r}, possible are {', '.join(options)}. {WHY}"
            ) from None

    def _asleep(self) -> dict[str, Footprint]:
        """What sleeps at the next place: what slept or was tried at the last one, unless it conflicts with what was
        chosen there.
        """
        if not self.places:
            return {}
        last = self.places[-1]
        if last.step is None:  # a draw conflicts with nothing
            return last.sleep
        footprint = last.step.footprint
        both = {**last.sleep, **last.tried}
        return {label: fp for label, fp in both.items() if label != last.chosen and not overlap(fp, footprint)}

    def _turn_round(self, label: str, races: list[Step], causes: int, end: int, footprint: Footprint) -> None:
        """For each step that this one races with: see to it that this one, or what it needs, is tried in its place.
        `end`: the place of this one. A time-out may need a death that takes other ops away, and no order tells of
        that. Where it was not possible, all options are tried.
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
                elif enabled is not None:  # else only `other` made it possible
                    place.todo.append(enabled)
                elif (TIME, "w") in footprint:
                    place.todo += [one for one in place.options if one not in place.todo]
