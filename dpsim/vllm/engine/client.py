"""Waves and load as one front end sees them: which engine gets a request, and what the coordinator learns (2.2, 2.5).

A front end knows waves and the requests of other front ends from the coordinator's last message, so they may be
stale. A request carries the wave that its front end believes in, and the engine judges it by that.

    >>> client = ClientView(engines=[0, 1, 2])
    >>> client.heard(((0, 3), (1, 0), (0, 4)), wave=2, running=False)
    >>> client.send()  # engine 0 has the least of 4 * waiting + running; the coordinator wakes idle engines
    Sending(engine=0, wave=2, first_request=FirstRequest(exclude=0, wave=2))
    >>> client.send()  # a sent request counts as waiting, and all engines are awake
    Sending(engine=1, wave=2, first_request=None)

Since 0.28 a front end takes the larger of two loads. One is its own requests that have not ended, times the number of
front ends. The other is the published requests of an engine. Requests that wait weigh more where the KV cache is more
than half full. The next search begins at the next engine:

    >>> client = ClientView033(engines=[0, 1, 2])
    >>> client.heard(((2, 3, 0.75), (0, 6, 0.9), (0, 7, 0.0)), wave=2, running=True)
    >>> client.score(0), client.choose()  # 5 requests, and 2 * 6 * 0.25
    (8.0, 1)

The engines of a front end decide who balances the load (`engines_of`):

    internal    all: the front end balances
    hybrid      those of its node: it balances among them, and an outer balancer among nodes
    external    its own: an outer balancer decides

    ClientView       0.14, 0.24: 4 * waiting + running, from a fixed first engine
    ClientView028    0.28, 0.31: the larger load, from the engine behind the last first one
    ClientView033    0.33: the same without `FirstRequest`, as the engine informs the coordinator itself

Sources: specification chapter 2.5; the effects of a named engine and of an abort by the engine's own text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

from dpsim.vllm.engine.coordination import Counts, FirstRequest, Load

Balancing = Literal["internal", "hybrid", "external"]

WAITING_WEIGHT = 4
"""The number of running requests that weigh as much as one that waits, before 0.28."""

PRESSURE_WEIGHT, NO_PRESSURE = 6.0, 0.5
"""Since 0.28: the weight of a waiting request for each unit of usage of the KV cache above the second number."""


def engines_of(balancing: Balancing, nodes: Sequence[Sequence[int]], own: int) -> tuple[int, ...]:
    """The engines of a front end. `nodes`: the engines of each node; `own`: an engine at the front end's place.

    >>> [engines_of(balancing, [[0, 1], [2, 3]], own=2) for balancing in ("internal", "hybrid", "external")]
    [(0, 1, 2, 3), (2, 3), (2,)]
    """
    if balancing == "external":
        return (own,)
    return tuple(engine for node in nodes for engine in node if balancing == "internal" or own in node)


class Sending(NamedTuple):
    """`first_request`: the message to the coordinator, or None."""

    engine: int
    wave: int
    first_request: FirstRequest | None


class ClientView:
    """One front end's view. `engines`: those that it uses; `index` of `clients`: its number among all front ends."""

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

    def heard(self, counts: Counts | None, wave: int, running: bool) -> None:
        """Take over a message of the coordinator. `counts`: of all engines of the group, None if it has none."""
        self.current_wave, self.engines_running = wave, running
        if counts is not None:
            self.load = {engine: counts[engine] for engine in self.engines}

    def choose(self) -> int:
        """The engine with the least load. Front ends start the search at different ones, so equal loads spread."""
        return min(self.engines[self._offset :] + self.engines[: self._offset], key=self.score)

    def send(self, engine: int | None = None) -> Sending:
        """Send a request to the named engine, or to a chosen one. A named one changes no published count."""
        to = self.choose() if engine is None else engine
        if engine is None:
            self._chosen(to)
        if to in self.in_flight:
            self.in_flight[to] += 1
        return Sending(to, self.current_wave, self._first_request(to))

    def ended(self, engine: int) -> None:
        """Note that a request of this front end has its last output, or was aborted."""
        if engine in self.in_flight:
            self.in_flight[engine] -= 1

    def score(self, engine: int) -> float:
        """The load of an engine; `choose` takes the least."""
        waiting, running, *_ = self.load[engine]
        return float(WAITING_WEIGHT * waiting + running)

    def _chosen(self, engine: int) -> None:
        """Until counts arrive, the request counts as waiting once for each front end, as all send alike, unseen."""
        waiting, *others = self.load[engine]
        self.load[engine] = (waiting + self.clients, *others)

    def _first_request(self, engine: int) -> FirstRequest | None:
        if self.engines_running:
            return None
        self.engines_running = True
        return FirstRequest(engine, self.current_wave)


class ClientView028(ClientView):
    """0.28, 0.31: own requests count until they end, whatever the coordinator publishes."""

    idle: ClassVar[Load] = (0, 0, 0.0)

    def score(self, engine: int) -> float:
        waiting, running, usage = self.load[engine]
        load: float = max(self.clients * self.in_flight[engine], waiting + running)
        return load + float(waiting * PRESSURE_WEIGHT * max(0.0, usage - NO_PRESSURE))

    def _chosen(self, engine: int) -> None:
        """Start the next search one engine further, so that equal loads go round."""
        super()._chosen(engine)
        self._offset = (self._offset + 1) % len(self.engines)


class ClientView033(ClientView028):
    """0.33: the engine informs the coordinator itself."""

    def _first_request(self, engine: int) -> FirstRequest | None:
        return None
