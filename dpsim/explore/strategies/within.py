"""All schedules within bounds: at most N preemptions, at most N late deliveries.

    search("within preemptions=1 late_deliveries=2")

What counts is a matter of the schedule alone, step by step:

* a **preemption** is a step of another actor, although the actor of the step before could go on. An actor is a rank
  with its devices, a service, or a communicator, as the label of a step says. Deliveries and deaths are of no actor:
  they neither preempt nor are preempted;
* a message is a **late delivery** if it could be delivered, and a step that is no delivery came first. Each message
  counts once.

What a draw decides does not count, and all its options are tried.

A bound on schedules is none on classes. One schedule of a class may be within it, and another beyond. So what DPOR
leaves out may be what is within. Its sleep sets and its backtrack points choose one schedule of a class without a look
at the bound. Bounded DPOR (Coons, Musuvathi and McKinley, OOPSLA 2013) adds points and gives up sleep sets. Here there
is no DPOR. The search is depth first over all choices within the bounds. One rule alone cuts it off: it has met the
class of the steps so far. The actor at its turn and the late messages have to be the same, and no bound may have been
used more. Then what can follow is the same, and was tried. This is the happens-before caching of CHESS (Musuvathi and
Qadeer, PLDI 2007). It meets each such state once, and so costs more runs than DPOR where nearly all
schedules are within the bounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from dpsim.contract.schedule import Candidate, CutOff, actor
from dpsim.explore.order import Labels
from dpsim.explore.strategies.base import LONGEST, Picker
from dpsim.explore.strategies.dpor import WHY, Diverged

NAME = "within"


class BoundUse(NamedTuple):
    """How much of each bound, or what it costs, or the bounds themselves."""

    preemptions: int = 0
    late_deliveries: int = 0

    def within(self, most: BoundUse) -> bool:
        return self.preemptions <= most.preemptions and self.late_deliveries <= most.late_deliveries

    def plus(self, other: BoundUse) -> BoundUse:
        return BoundUse(self.preemptions + other.preemptions, self.late_deliveries + other.late_deliveries)


def is_delivery(label: str) -> bool:
    """Whether a step brings a message into a mailbox.

    >>> is_delivery("rank 3 delivers box[2]"), is_delivery("rank 3 box[2]")
    (True, False)
    """
    return label.split(" ")[2:3] == ["delivers"]


def of_no_actor(candidate: Candidate) -> bool:
    """Deliveries, and what takes the chance to happen from others."""
    return candidate.disables or is_delivery(candidate.label)


class BoundedPlace:
    """A choice of the present schedule: what is within the bounds there, and which of it is tried now."""

    __slots__ = ("at", "options")

    def __init__(self, options: list[str]) -> None:
        self.options = options
        self.at = 0


class Within(Picker):
    """Every class that has a schedule within the bounds. `beyond`: something was left out for a bound."""

    name = NAME
    proves = True

    def __init__(self, most: BoundUse, labels: Labels | None = None, longest: int = LONGEST) -> None:
        super().__init__(labels, longest)
        self.most = most
        self.beyond = False
        self._places: list[BoundedPlace] = []
        self._met: dict[tuple[int, str, frozenset[str]], list[BoundUse]] = {}
        self._begun = self._over = self._incomplete = False
        self._at = self._prefix = 0
        self._actor = ""
        self._late: frozenset[str] = frozenset()
        self._used = BoundUse()

    @property
    def exhausted(self) -> bool:  # type: ignore[override]
        return self._over and not self._incomplete and not self.beyond

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        return self._over and (self._incomplete or self.beyond)

    # ---- between runs

    def begin(self) -> bool:
        super().begin()
        self._at = self._prefix = 0
        self._actor, self._late, self._used = "", frozenset(), BoundUse()
        if not self._begun:
            self._begun = True
            return True
        return not self._over

    def end(self, whole: bool) -> None:
        self._incomplete |= self.too_long
        if self.heard_to_fail:  # from now on there are more choices
            self._places.clear()
            self._met.clear()
            self._incomplete = self.beyond = False
            return
        while self._places:
            self._places[-1].at += 1
            if self._places[-1].at < len(self._places[-1].options):
                return
            self._places.pop()
        self._over = True

    # ---- what the machine asks

    def pick(self, candidates: Sequence[Candidate]) -> int:
        index = super().pick(candidates)
        step = self.order.steps[-1]
        self._prefix ^= _digest(f"{step.bit:x} {step.causes:x}")
        return index

    def select(self, candidates: Sequence[Candidate]) -> int:
        labels = [candidate.label for candidate in candidates]
        if self._at == len(self._places):
            if self._is_met():
                self.redundant = True
                raise CutOff("redundant")
            costs = [(self._used.plus(self._cost(one, candidates)), one) for one in candidates]
            inside = [(sum(used), one.disables, one.label) for used, one in costs if used.within(self.most)]
            self.beyond |= len(inside) < len(labels)
            self._places.append(BoundedPlace([label for *_, label in sorted(inside, key=lambda one: one[:2])]))
        index = self._repeat(labels)
        self._take(candidates[index], candidates)
        return index

    def drawn(self, label: str, options: Sequence[str]) -> int:
        if self._at == len(self._places):
            self._places.append(BoundedPlace([*options]))
        index = self._repeat(options)
        self._prefix ^= _digest(f"{label}: {options[index]}")
        return index

    # ---- inside

    def _repeat(self, options: Sequence[str]) -> int:
        place = self._places[self._at]
        self._at += 1
        chosen = place.options[place.at]
        if chosen not in options:
            possible = ", ".join(options)
            raise Diverged(
                f"step {self._at} of a repeated schedule should be {chosen!r}, possible are {possible}. {WHY}"
            )
        return options.index(chosen)

    def _cost(self, one: Candidate, candidates: Sequence[Candidate]) -> BoundUse:
        """What it costs to choose this one now."""
        could_go_on = any(not of_no_actor(other) and actor(other.label) == self._actor for other in candidates)
        preempts = could_go_on and not of_no_actor(one) and actor(one.label) != self._actor
        return BoundUse(int(preempts), len(self._made_late(one, candidates)))

    def _made_late(self, one: Candidate, candidates: Sequence[Candidate]) -> set[str]:
        if is_delivery(one.label):
            return set()
        return {other.label for other in candidates if is_delivery(other.label)} - self._late

    def _take(self, one: Candidate, candidates: Sequence[Candidate]) -> None:
        self._used = self._used.plus(self._cost(one, candidates))
        self._late = (self._late | self._made_late(one, candidates)) - {one.label}
        if not of_no_actor(one):
            self._actor = actor(one.label)

    def _is_met(self) -> bool:
        """Whether all that can follow was tried, with no more of a bound used. Notes that it is being tried."""
        met = self._met.setdefault((self._prefix, self._actor, self._late), [])
        if any(one.within(self._used) for one in met):
            return True
        met[:] = [one for one in met if not self._used.within(one)]
        met.append(self._used)
        return False


def _digest(text: str) -> int:
    """Steps are a set, and so their digests are joined by exclusive or. 128 bits: two sets do not meet by chance."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big")


def within(words: str, labels: Labels | None = None, longest: int = LONGEST) -> Within:
    """By name, with its bounds. Raises ValueError for what is none. A bound that is left out does not bind.

    >>> within("within preemptions=1").most
    BoundUse(preemptions=1, late_deliveries=1000000000)
    """
    given = {}
    for part in words.split(" ")[1:]:
        key, _, number = part.partition("=")
        if key not in BoundUse._fields or not number.isdecimal():
            raise ValueError(f"{part!r} is no bound; expected one of {', '.join(BoundUse._fields)}, = and a number")
        given[key] = int(number)
    return Within(BoundUse(**{key: given.get(key, UNBOUND) for key in BoundUse._fields}), labels, longest)


UNBOUND = 1_000_000_000
