"""Waves and load as one front end sees them: to which engine a request goes, and who is told (2.2, 2.5).

What a front end knows of waves and of other front ends' requests is what the coordinator published last, so it may be
stale. A request carries the wave that its front end believes in, and the engine judges it by that.

    >>> client = ClientView(engines=[0, 1, 2])
    >>> client.heard(((0, 3), (1, 0), (0, 4)), wave=2, running=False)
    >>> client.send()  # engine 0 has the least of 4 * waiting + running; idle engines are woken through the coordinator
    Sending(engine=0, wave=2, first_request=FirstRequest(exclude=0, wave=2))
    >>> client.send()  # what was sent counts as waiting, and everybody is awake
    Sending(engine=1, wave=2, first_request=None)

Who balances the load is a question of the engines that a front end has (`engines_of`):

    internal    all: the front end balances
    hybrid      those of its node: it balances among them, and somebody outside among nodes
    external    its own: somebody outside balances

Releases: front ends of 0.33 tell nobody of a first request, for the engine does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from dpsim.vllm.engine.coordination import Counts, FirstRequest

Balancing = Literal["internal", "hybrid", "external"]

WAITING_WEIGHT = 4
"""How many running requests weigh as much as one that waits."""


def engines_of(balancing: Balancing, nodes: Sequence[Sequence[int]], own: int) -> tuple[int, ...]:
    """The engines of a front end. `nodes`: the engines of each node; `own`: an engine at the front end's place.

    >>> [engines_of(balancing, [[0, 1], [2, 3]], own=2) for balancing in ("internal", "hybrid", "external")]
    [(0, 1, 2, 3), (2, 3), (2,)]
    """
    if balancing == "external":
        return (own,)
    return tuple(engine for node in nodes for engine in node if balancing == "internal" or own in node)


class Sending(NamedTuple):
    """`first_request`: what the coordinator is told of it, None if nothing."""

    engine: int
    wave: int
    first_request: FirstRequest | None


class ClientView:
    """One front end's view. `engines`: those that it sends to; `index` of `clients`: which of all front ends it is."""

    def __init__(self, engines: Sequence[int], index: int = 0, clients: int = 1) -> None:
        self.engines = tuple(engines)
        self.clients = clients
        self.current_wave = 0
        self.engines_running = False
        self.load = dict.fromkeys(engines, (0, 0))
        """Waiting and running requests of an engine."""
        self._offset = len(self.engines) * index // clients

    def heard(self, counts: Counts | None, wave: int, running: bool) -> None:
        """What the coordinator published. `counts`: of all engines of the group, None if they are not in it."""
        self.current_wave, self.engines_running = wave, running
        if counts is not None:
            self.load = {engine: counts[engine] for engine in self.engines}

    def choose(self) -> int:
        """The engine with the least load. Front ends begin at different ones, so that they part where all are alike."""
        return min(self.engines[self._offset :] + self.engines[: self._offset], key=self._weight)

    def send(self, engine: int | None = None) -> Sending:
        """A request goes to an engine, the one that is named or chosen.

        Until counts come again it counts as waiting once for each front end: all send, and none sees the others.
        """
        to = self.choose() if engine is None else engine
        if to in self.load:
            waiting, running = self.load[to]
            self.load[to] = (waiting + self.clients, running)
        return Sending(to, self.current_wave, self._first_request(to))

    def _weight(self, engine: int) -> int:
        waiting, running = self.load[engine]
        return WAITING_WEIGHT * waiting + running

    def _first_request(self, engine: int) -> FirstRequest | None:
        if self.engines_running:
            return None
        self.engines_running = True
        return FirstRequest(engine, self.current_wave)


class ClientView033(ClientView):
    """0.33: the engine tells the coordinator itself."""

    def _first_request(self, engine: int) -> FirstRequest | None:
        return None
