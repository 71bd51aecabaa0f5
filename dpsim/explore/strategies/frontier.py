"""The choices of a search within bounds that are still to be run, and which of them several searches share out.

    frontier = SharedFrontier()
    while (share := frontier.next(64)) is not None:        # there may be several at a time
        chosen = within("within late_deliveries=1")
        chosen.resume(share.state)
        ...                                                 # a run for each of its nodes
        counts = frontier.take(share.number, chosen.state())
    frontier.over

A *node* is a choice that no run has taken: the first choices of an earlier run (its trunk), and another one after them.
A run follows a node, and then takes the cheapest choice everywhere. At each place that it is the first to reach, the
other choices become nodes. So each choice at each place is run once.

Nodes have *layers*: how much of the bounds is used with their choice. A layer begins when the layer before it is over.
So a run that reaches a place first has used the least there, whatever the order of runs is. Hence the number of
schedules and of classes is the same for one search and for many, which share what was met.

What was met up to the moment a share is made goes with it, so that its runs can end early. What other shares meet
meanwhile it does not know. Then the same place is in two results, and the later one does not count (`take`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Met: TypeAlias = "dict[int, list[BoundUse]]"
"""By what tells places apart: how much of each bound was used there. No use is within another."""

WINDOW = 16
"""Shares under way: more of them know less of each other."""

LEAST = 32
"""Nodes of a share, if there are that many."""


class BoundUse(NamedTuple):
    """How much of each bound, or what it costs, or the bounds themselves."""

    preemptions: int = 0
    late_deliveries: int = 0

    def within(self, most: BoundUse) -> bool:
        return self.preemptions <= most.preemptions and self.late_deliveries <= most.late_deliveries

    def plus(self, other: BoundUse) -> BoundUse:
        return BoundUse(self.preemptions + other.preemptions, self.late_deliveries + other.late_deliveries)


class Node(NamedTuple):
    """The choices of `trunk` before `at`, and then `option`. Without an option it is the first run of all."""

    trunk: tuple[str, ...]
    at: int
    option: str | None

    def words(self) -> tuple[str, ...]:
        return () if self.option is None else (*self.trunk[: self.at], self.option)


ROOT = Node((), 0, None)


class NewPlace(NamedTuple):
    """A place that a run was the first to reach, as far as it knows. `key`: None for a draw, which belongs to the
    choice before it. `others`: what it did not take, each with its layer.
    """

    at: int
    key: int | None
    used: BoundUse
    others: list[tuple[int, str]]


class RunRecord(NamedTuple):
    """`trunk`: what was chosen at each place. `whole`: the run was not cut off."""

    trunk: tuple[str, ...]
    places: list[NewPlace]
    whole: bool


class WithinState(NamedTuple):
    """What a share starts with."""

    nodes: list[Node]
    known_to_fail: list[int]
    met: Met

    def bare(self) -> WithinState:
        """Without what follows from the results of other shares."""
        return self._replace(met={})


class WithinDone(NamedTuple):
    """What came of a share. `left`: nodes that were not run. `incomplete`: runs grew too long. `beyond`: something was
    left out for a bound. `anew`: a kernel of another rank raises, so there are more choices from the first step on.
    """

    records: list[RunRecord]
    left: list[Node]
    incomplete: bool
    beyond: bool
    known_to_fail: list[int]
    anew: bool


def is_met(met: Met, key: int, used: BoundUse) -> bool:
    """Whether all that can follow a place is run anyway, with no more of a bound used. Else notes the place."""
    known = met.setdefault(key, [])
    if any(one.within(used) for one in known):
        return True
    known[:] = [one for one in known if not used.within(one)]
    known.append(used)
    return False


class Frontier:
    """Nodes, layer by layer; in a layer the newest comes first."""

    def __init__(self, nodes: Sequence[Node] = (ROOT,)) -> None:
        self._layers = {0: [*nodes]} if nodes else {}

    def __len__(self) -> int:
        """All nodes that are known."""
        return sum(map(len, self._layers.values()))

    @property
    def lowest(self) -> int | None:
        """The layer that comes next; None if there is no node."""
        return min(self._layers, default=None)

    def count(self, layer: int) -> int:
        return len(self._layers.get(layer, ()))

    def pop(self) -> Node | None:
        """A node of the lowest layer; None if there is none."""
        layer = self.lowest
        if layer is None:
            return None
        node = self._layers[layer].pop()
        if not self._layers[layer]:
            del self._layers[layer]
        return node

    def put(self, layer: int, nodes: Sequence[Node]) -> None:
        if nodes:
            self._layers.setdefault(layer, []).extend(nodes)

    def add(self, trunk: tuple[str, ...], place: NewPlace) -> None:
        """The other choices of a new place."""
        for layer, option in reversed(place.others):
            self.put(layer, [Node(trunk, place.at, option)])


class Share(NamedTuple):
    """Some nodes, of one layer."""

    number: int
    state: WithinState
    layer: int

    def schedules(self, most: int) -> int:
        """How many to run of it."""
        return len(self.state.nodes)


class SharedFrontier:
    """A frontier that several searches share out."""

    def __init__(self) -> None:
        self._frontier = Frontier()
        self._met: Met = {}
        self._running: dict[int, Share] = {}
        self._made = 0
        self._known_to_fail: list[int] = []
        self.incomplete = False
        """Runs were cut off, or something was left out for a bound."""

    @property
    def over(self) -> bool:
        return not self._frontier and not self._running

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def open(self) -> int:
        """Nodes that were not given out."""
        return len(self._frontier)

    def next(self, most: int) -> Share | None:
        """At most this number of nodes; None if there are none now."""
        layer = self._frontier.lowest
        under_way = next(iter(self._running.values()), None)
        if layer is None or len(self._running) == WINDOW or (under_way is not None and under_way.layer < layer):
            return None
        number = min(most, max(LEAST, self._frontier.count(layer) // WINDOW), self._frontier.count(layer))
        nodes = [node for _ in range(number) if (node := self._frontier.pop()) is not None]
        met = {key: [*known] for key, known in self._met.items()}
        share = Share(self._made, WithinState(nodes, self._known_to_fail, met), layer)
        self._made += 1
        self._running[share.number] = share
        return share

    def take(self, number: int, done: WithinDone) -> list[bool]:
        """For each whole run of a share whether it counts: another share may have met the same place before. A share of
        before a new beginning adds no nodes.
        """
        share = self._running.pop(number, None)
        if share is None:
            return [True for one in done.records if one.whole]
        self.incomplete |= done.incomplete or done.beyond
        if done.anew:
            self._running.clear()
            self._met.clear()
            self._frontier, self._known_to_fail, self.incomplete = Frontier(), done.known_to_fail, False
            return [True for one in done.records if one.whole]
        self._frontier.put(share.layer, done.left)
        counts = []
        for record in done.records:
            first = self._add(record)
            if record.whole:
                counts.append(first)
        return counts

    def _add(self, record: RunRecord) -> bool:
        """Make nodes of the places that no run has reached before; whether the last place is one of them."""
        first = True
        for place in record.places:
            if place.key is not None:
                first = not is_met(self._met, place.key, place.used)
            if first:
                self._frontier.add(record.trunk, place)
        return first
