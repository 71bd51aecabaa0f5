"""A front end's view of waves and load: to which engine it sends a request, and when it informs the coordinator.

Counts and wave come from the coordinator, and may be out of date. The engine compares the wave of a request with its
own (specification 2.2 and 2.5).

    >>> client = ClientView(engines=[0, 1, 2])
    >>> client.update_counts(((0, 3), (1, 0), (0, 4)), wave=2, running=False)
    >>> client.send()  # engine 0 has the least of 4 * waiting + running; the coordinator wakes idle engines
    Sending(engine=0, wave=2, first_request=FirstRequest(exclude=0, wave=2))
    >>> client.send()  # a sent request counts as waiting, and all engines are awake
    Sending(engine=1, wave=2, first_request=None)

Since 0.28, the load is the larger of the published requests, and of the front end's own unfinished ones times the front
ends. If the KV cache is more than half full, waiting requests count more. The next search starts one engine further:

    >>> client = ClientView033(engines=[0, 1, 2])
    >>> client.update_counts(((2, 3, 0.75), (0, 6, 0.9), (0, 7, 0.0)), wave=2, running=True)
    >>> client.score(0), client.choose()  # 5 requests, and 2 * 6 * 0.25
    (8.0, 1)

A front end chooses among these engines (`engines_of`), by who balances the load:

    internal    all: the front end balances
    hybrid      those of its node: it balances among them, and an outer balancer among nodes
    external    its own: an outer balancer decides

Sources: specification 2.5; the engine's own code for the effects of an abort and of a request for a named engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

from dpsim.vllm.engine.coordination import Counts, FirstRequest, Load

Balancing = Literal["internal", "hybrid", "external"]

WAITING_WEIGHT = 4
"""Before 0.28, a waiting request counts as much as this number of running ones."""

PRESSURE_WEIGHT, NO_PRESSURE = 6.0, 0.5
"""Since 0.28, each waiting request adds the first number times the KV cache usage above the second number."""


def engines_of(balancing: Balancing, nodes: Sequence[Sequence[int]], own: int) -> tuple[int, ...]:
    """The engines among which a front end chooses. `nodes`: the engines of each node. `own`: an engine on the front
    end's node.

        >>> [engines_of(balancing, [[0, 1], [2, 3]], own=2) for balancing in ("internal", "hybrid", "external")]
        [(0, 1, 2, 3), (2, 3), (2,)]
    """
    if balancing == "external":
        return (own,)
    return tuple(engine for node in nodes for engine in node if balancing == "internal" or own in node)


class Sending(NamedTuple):
    """Where a front end sends a request. `first_request`: the message to the coordinator, or None."""

    engine: int
    wave: int
    first_request: FirstRequest | None


class ClientView:
    """The view of one front end. `engines`: those among which it chooses. `index`: its number among the `clients` front
    ends.
    """

    idle: ClassVar[Load] = (0, 0)
    """The load that an engine without requests publishes."""

    def __init__(self, engines: Sequence[int], index: int = 0, clients: int = 1) -> None:
        self.engines = tuple(engines)
        self.clients = clients
        self.current_wave = 0
        self.engines_running = False
        self.load = dict.fromkeys(engines, self.idle)
        """Waiting and running requests of an engine, and since 0.28 the usage of its KV cache."""
        self.in_flight = dict.fromkeys(engines, 0)
        """Requests of this front end on each engine that have not ended."""
        self._offset = len(self.engines) * index // clients

    def update_counts(self, counts: Counts | None, wave: int, running: bool) -> None:
        """Store a message of the coordinator. `counts`: the load of all engines of the group; None if the message has
        no counts.
        """
        self.current_wave, self.engines_running = wave, running
        if counts is not None:
            self.load = {engine: counts[engine] for engine in self.engines}

    def choose(self) -> int:
        """The engine with the least load. Front ends start the search at different engines, so requests spread if loads
        are equal.
        """
        return min(self.engines[self._offset :] + self.engines[: self._offset], key=self.score)

    def send(self, engine: int | None = None) -> Sending:
        """Send a request to the engine `engine`, or to a chosen one if it is None. A named engine's published counts do
        not change.
        """
        to = self.choose() if engine is None else engine
        if engine is None:
            self._chosen(to)
        if to in self.in_flight:
            self.in_flight[to] += 1
        return Sending(to, self.current_wave, self._first_request(to))

    def ended(self, engine: int) -> None:
        """Record that a request of this front end has its last output, or was aborted."""
        if engine in self.in_flight:
            self.in_flight[engine] -= 1

    def score(self, engine: int) -> float:
        """The load of an engine. The front end chooses the engine with the least load."""
        waiting, running, *_ = self.load[engine]
        return float(WAITING_WEIGHT * waiting + running)

    def _chosen(self, engine: int) -> None:
        """Until new counts arrive, the request waits once for each front end: each sends about as many."""
        waiting, *others = self.load[engine]
        self.load[engine] = (waiting + self.clients, *others)

    def _first_request(self, engine: int) -> FirstRequest | None:
        if self.engines_running:
            return None
        self.engines_running = True
        return FirstRequest(engine, self.current_wave)


class ClientView028(ClientView):
    """Releases 0.28 and 0.31: own requests count until they end, whatever counts the coordinator publishes."""

    idle: ClassVar[Load] = (0, 0, 0.0)

    def score(self, engine: int) -> float:
        waiting, running, usage = self.load[engine]
        load: float = max(self.clients * self.in_flight[engine], waiting + running)
        return load + float(waiting * PRESSURE_WEIGHT * max(0.0, usage - NO_PRESSURE))

    def _chosen(self, engine: int) -> None:
        """Also start the next search one engine further, so that engines of equal load get requests in turn."""
        super()._chosen(engine)
        self._offset = (self._offset + 1) % len(self.engines)


class ClientView033(ClientView028):
    """Release 0.33: the front end sends no `FirstRequest`, because the engine informs the coordinator."""

    def _first_request(self, engine: int) -> FirstRequest | None:
        return None
