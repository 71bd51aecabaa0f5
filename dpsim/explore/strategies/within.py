"""All schedules within bounds: at most N preemptions, at most N late deliveries.

    search("within preemptions=1 late_deliveries=2")

The bounds count the steps of a schedule:

* a **preemption** is a step of another actor, although the actor of the step before could continue. An actor is a rank
  with its devices, a service, or a communicator. A delivery or a death belongs to no actor: it neither preempts nor is
  preempted;
* a message is a **late delivery** if it could be delivered, and a step that is no delivery came first. Each message
  counts once.

DPOR picks one schedule of a class without regard to the bound, so it may miss classes that have a schedule within it.
Bounded DPOR (Coons, Musuvathi and McKinley, OOPSLA 2013) adds backtrack points and gives up sleep sets. Here the search
runs all choices within the bounds, the cheapest first (`dpsim.explore.strategies.frontier`), and all options of a draw.

It cuts a run off in a *state* that it has met. A state is the class of the steps so far, the actor at its turn, and the
late messages. If no more of a bound is used now, another run explores all that can follow. This is the happens-before
caching of CHESS (Musuvathi and Qadeer, PLDI 2007). It costs more runs than DPOR if nearly all schedules are within the
bounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from dpsim.contract.events import actor, is_delivery
from dpsim.contract.schedule import Candidate, CutOff
from dpsim.explore.order import Labels
from dpsim.explore.strategies.base import LONGEST, Picker
from dpsim.explore.strategies.dpor import WHY, Diverged
from dpsim.explore.strategies.frontier import (
    BoundUse,
    Frontier,
    Met,
    NewPlace,
    Node,
    RunRecord,
    WithinDone,
    WithinState,
    is_met,
)

NAME = "within"


def of_no_actor(candidate: Candidate) -> bool:
    """Returns whether a step belongs to no actor: a delivery, or a step that takes possibilities away."""
    return candidate.disables or is_delivery(candidate.label)


class Within(Picker):
    """The search: every class that has a schedule within the bounds. `beyond`: the bounds excluded some choice."""

    name = NAME
    proves = True

    def __init__(self, most: BoundUse, labels: Labels | None = None, longest: int = LONGEST) -> None:
        super().__init__(labels, longest)
        self.most = most
        self.beyond = False
        self._counts = BoundUse(*(int(one < UNBOUND) for one in most))
        self._nodes = Frontier()
        self._alone = True  # no other search shares the nodes that runs find
        self._records: list[RunRecord] = []
        self._met: Met = {}
        self._node: Node | None = None
        self._digests: dict[tuple[int, int], int] = {}
        self._over = self._incomplete = self._anew = False
        self._reset(())

    def _reset(self, words: tuple[str, ...]) -> None:
        self._words = words  # to be repeated
        self._trunk: list[str] = []
        self._new: list[NewPlace] = []
        self._prefix = 0
        self._actor, self._late, self._used = "", frozenset[str](), BoundUse()

    @property
    def exhausted(self) -> bool:  # type: ignore[override]
        return self._over and not self._incomplete and not self.beyond

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        return self._over and (self._incomplete or self.beyond)

    @property
    def over(self) -> bool:
        """Whether this search is done: nothing is left, or the search has to begin again elsewhere."""
        return self._over or self._anew or (not self._alone and not self._nodes and self._node is None)

    # ---- between runs

    def begin(self) -> bool:
        super().begin()
        self._node = None if self._anew else self._nodes.pop()
        if self._node is None:
            return False
        self._reset(self._node.words())
        return True

    def end(self, whole: bool) -> None:
        self._incomplete |= self.too_long
        if whole and len(self._trunk) < len(self._words):
            raise Diverged(f"a repeated schedule ended after choice {len(self._trunk)} of {len(self._words)}. {WHY}")
        self._node = None
        if self.failure_known:  # from now on there are more choices
            self._begin_anew()
        record = RunRecord(tuple(self._trunk), self._new, whole)
        if not self._alone:
            self._records.append(record)
            return
        if self._anew:
            self._anew = False
            return
        for place in record.places:
            self._nodes.add(record.trunk, place)
        self._over = not self._nodes

    def _begin_anew(self) -> None:
        self._anew = True
        if self._alone:
            self._nodes = Frontier()
            self._met.clear()
            self._incomplete = self.beyond = False

    def resume(self, state: WithinState) -> None:
        """Runs the nodes of a share of a `SharedFrontier`, and nothing else. It does not change `state`."""
        self._alone = False
        self._nodes = Frontier(state.nodes[::-1])
        self.known_to_fail = frozenset(state.known_to_fail)
        self._met = {key: [*known] for key, known in state.met.items()}

    def state(self) -> WithinDone:
        """Returns the result of the share."""
        left = [] if self._node is None else [self._node]
        while (node := self._nodes.pop()) is not None:
            left.append(node)
        fail = sorted(self.known_to_fail | self.failure_known)
        return WithinDone(self._records, left[::-1], self._incomplete, self.beyond, fail, self._anew)

    # ---- what the machine asks

    def pick(self, candidates: Sequence[Candidate]) -> int:
        index = super().pick(candidates)
        step = self.order.steps[-1]
        self._prefix ^= self._digest_of(step.bit, step.causes)
        return index

    def select(self, candidates: Sequence[Candidate]) -> int:
        labels = [candidate.label for candidate in candidates]
        if len(self._trunk) < len(self._words):
            index = self._repeat(labels)
        else:
            if self._is_met():
                self.redundant = True
                raise CutOff("redundant")
            costs = [(self._used.plus(self._cost(one, candidates)), one) for one in candidates]
            inside = [(sum(used), one.disables, one.label) for used, one in costs if used.within(self.most)]
            self.beyond |= len(inside) < len(labels)
            (_, _, chosen), *others = sorted(inside, key=lambda one: one[:2])
            self._pass(chosen, self._key(), [(layer, label) for layer, _, label in others])
            index = labels.index(chosen)
        self._take(candidates[index], candidates)
        return index

    def drawn(self, label: str, options: Sequence[str]) -> int:
        if len(self._trunk) < len(self._words):
            index = self._repeat(options)
        else:
            index, layer = 0, sum(self._used)
            self._pass(options[0], None, [(layer, one) for one in options[1:]])
        self._prefix ^= _digest(f"{label}: {options[index]}")
        return index

    # ---- inside

    def _pass(self, chosen: str, key: int | None, others: list[tuple[int, str]]) -> None:
        self._new.append(NewPlace(len(self._trunk), key, self._used, others))
        self._trunk.append(chosen)

    def _repeat(self, options: Sequence[str]) -> int:
        chosen = self._words[len(self._trunk)]
        self._trunk.append(chosen)
        if chosen not in options:
            possible = ", ".join(options)
            raise Diverged(
                f"choice {len(self._trunk)} of a repeated schedule should be {chosen!r}, possible are {possible}. {WHY}"
            )
        return options.index(chosen)

    def _cost(self, one: Candidate, candidates: Sequence[Candidate]) -> BoundUse:
        """Returns what the choice of this candidate uses of the bounds. A number without a bound costs nothing."""
        could_go_on = any(not of_no_actor(other) and actor(other.label) == self._actor for other in candidates)
        preempts = could_go_on and not of_no_actor(one) and actor(one.label) != self._actor
        late = len(self._made_late(one, candidates))
        return BoundUse(preempts * self._counts.preemptions, late * self._counts.late_deliveries)

    def _made_late(self, one: Candidate, candidates: Sequence[Candidate]) -> set[str]:
        if is_delivery(one.label):
            return set()
        return {other.label for other in candidates if is_delivery(other.label)} - self._late

    def _take(self, one: Candidate, candidates: Sequence[Candidate]) -> None:
        self._used = self._used.plus(self._cost(one, candidates))
        self._late = (self._late | self._made_late(one, candidates)) - {one.label}
        if not of_no_actor(one):
            self._actor = actor(one.label)

    def _key(self) -> int:
        return _digest(f"{self._prefix:x} {self._actor} {sorted(self._late)}")

    def _digest_of(self, bit: int, causes: int) -> int:
        """Returns a digest of a step and its causes, by their labels, so it is equal in every process."""
        found = self._digests.get((bit, causes))
        if found is None:
            (label,), before = self.labels.named(bit), sorted(self.labels.named(causes))
            found = self._digests[bit, causes] = _digest(repr((label, before)))
        return found

    def _is_met(self) -> bool:
        """Returns whether another run explores all that can follow. Otherwise notes the state."""
        return is_met(self._met, self._key(), self._used)


def _digest(text: str) -> int:
    """Returns 128 bits of a text. A set of steps has the exclusive or of their digests, and two different sets do not
    collide by chance.
    """
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big")


def within(words: str, labels: Labels | None = None, longest: int = LONGEST) -> Within:
    """Returns the search with the bounds in its name. Raises ValueError for a name that is none. A bound that the name
    lacks does not bind.

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
