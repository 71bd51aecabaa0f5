"""The open choices of a search within bounds, and how several searches share them.

    frontier = SharedFrontier()
    while (share := frontier.next(64)) is not None:        # several shares may be given out at a time
        chosen = within("within late_deliveries=1")
        chosen.resume(share.state)
        ...                                                 # a run for each of its nodes
        counts = frontier.take(share.number, chosen.state())
    frontier.over

A *place* is a point of a schedule at which the search chose the next event. A *node* is a choice that no run has taken:
the first choices of an earlier run (its *trunk*), and then another option. A run follows a node, and then takes the
cheapest option at each place. At each place that it is the first to reach, the other options become nodes.

A *layer* has the nodes whose choices use the same of the bounds. It begins when the layer before it is over. So the run
that reaches a place first has used the least there, and any number of searches finds the same schedules and classes.

A share carries the places that were known when it was made. If two shares find the same place meanwhile, the later one
does not count (`take`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Met: TypeAlias = "dict[int, list[BoundUse]]"
"""For each key of a place, how much of each bound was used there. No entry is within another one."""

WINDOW = 16
"""The most shares that are given out at a time. More shares would know less of each other."""

LEAST = 32
"""A share has at least this number of nodes, if the layer has them and the search asks for them."""


class BoundUse(NamedTuple):
    """Numbers of preemptions and late deliveries: those of a place, the cost of a choice, or the bounds themselves."""

    preemptions: int = 0
    late_deliveries: int = 0

    def within(self, most: BoundUse) -> bool:
        """Returns whether no number exceeds that of `most`."""
        return self.preemptions <= most.preemptions and self.late_deliveries <= most.late_deliveries

    def plus(self, other: BoundUse) -> BoundUse:
        return BoundUse(self.preemptions + other.preemptions, self.late_deliveries + other.late_deliveries)


class Node(NamedTuple):
    """An open choice: `trunk` before the place `at`, and there `option`, which is None for the first run."""

    trunk: tuple[str, ...]
    at: int
    option: str | None

    def words(self) -> tuple[str, ...]:
        """Returns the words of the schedule up to this choice."""
        return () if self.option is None else (*self.trunk[: self.at], self.option)


ROOT = Node((), 0, None)


class NewPlace(NamedTuple):
    """A place that a run was the first to reach, as far as it knows. `key`: None for a draw, which belongs to the
    choice before it. `used`: of the bounds. `others`: the other options, each with its layer.
    """

    at: int
    key: int | None
    used: BoundUse
    others: list[tuple[int, str]]


class RunRecord(NamedTuple):
    """A run. `trunk`: the choice at each place. `places`: the new places. `whole`: the search did not cut it off."""

    trunk: tuple[str, ...]
    places: list[NewPlace]
    whole: bool


class WithinState(NamedTuple):
    """The state with which a share starts. `met`: the places that were known then."""

    nodes: list[Node]
    known_to_fail: list[int]
    met: Met

    def bare(self) -> WithinState:
        """Returns the state without what the results of other shares determine."""
        return self._replace(met={})


class WithinDone(NamedTuple):
    """The result of a share. `left`: nodes that were not run. `incomplete`: some runs were too long. `beyond`: the
    bounds excluded some choice. `anew`: a kernel of another rank raises, so the search has to begin again.
    """

    records: list[RunRecord]
    left: list[Node]
    incomplete: bool
    beyond: bool
    known_to_fail: list[int]
    anew: bool


def is_met(met: Met, key: int, used: BoundUse) -> bool:
    """Returns whether another run with no more of a bound explores all after a place; if not, notes the place."""
    known = met.setdefault(key, [])
    if any(one.within(used) for one in known):
        return True
    known[:] = [one for one in known if not used.within(one)]
    known.append(used)
    return False


class Frontier:
    """The open nodes, layer by layer. Within a layer, the newest comes first."""

    def __init__(self, nodes: Sequence[Node] = (ROOT,)) -> None:
        self._layers = {0: [*nodes]} if nodes else {}

    def __len__(self) -> int:
        return sum(map(len, self._layers.values()))

    @property
    def lowest(self) -> int | None:
        """The lowest layer with a node; None without nodes."""
        return min(self._layers, default=None)

    def count(self, layer: int) -> int:
        return len(self._layers.get(layer, ()))

    def pop(self) -> Node | None:
        """Removes and returns a node of the lowest layer; None without nodes."""
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
        """Adds the other options of a new place as nodes."""
        for layer, option in reversed(place.others):
            self.put(layer, [Node(trunk, place.at, option)])


class Share(NamedTuple):
    """Some nodes of one layer, given out to one search."""

    number: int
    state: WithinState
    layer: int

    def schedules(self, most: int) -> int:
        """Returns the number of schedules of this share."""
        return len(self.state.nodes)


class SharedFrontier:
    """The open nodes that several searches share."""

    def __init__(self) -> None:
        self._frontier = Frontier()
        self._met: Met = {}
        self._running: dict[int, Share] = {}
        self._made = 0
        self._known_to_fail: list[int] = []
        self.incomplete = False
        """Some runs were cut off, or the bounds excluded some choice."""

    @property
    def over(self) -> bool:
        return not self._frontier and not self._running

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def open(self) -> int:
        """The number of nodes that were not given out."""
        return len(self._frontier)

    def next(self, most: int) -> Share | None:
        """Returns a share of at most this number of nodes; None if there are none now."""
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
        """Takes the result of a share. Returns for each of its whole runs whether it counts: another share may have
        found the same place before. The result of a share from before a new beginning adds no nodes.
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
        """Returns whether no run has reached the last place of this run before."""
        first = True
        for place in record.places:
            if place.key is not None:
                first = not is_met(self._met, place.key, place.used)
            if first:
                self._frontier.add(record.trunk, place)
        return first
