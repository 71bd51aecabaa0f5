"""Replays at once: finds replays of two graphs that use one communicator, on two streams that nothing orders.

    rank 0   replay g on s (all_reduce on dp)      replay k on t (all_reduce on dp)         ->   both, "on dp"
    rank 0   replay g on s    t waits for s        replay k on t                            ->   nothing

The simulation runs the calls of a communicator in the order of issue, on whatever streams and in whatever graphs. NCCL
promises this, also for several graphs in flight. RCCL deadlocks where the transport needs the host (ROCm/rccl issue
2179). So such a pair is no mistake of the program on every library, and no finding. A verdict names it
(`dpsim.campaign.assumptions`).

The order here is that of one rank alone: its streams, its events, and what its host waited for. An order that comes
from another rank or from another host thread counts as none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from dpsim.contract.kinds import FOR_DEVICE, MEETS
from dpsim.contract.ops import (
    ADDRESS,
    CAPTURE_WHAT,
    COMMUNICATOR,
    EVENT,
    GRAPH,
    KEPT_CALL,
    KEPT_FIELDS,
    KIND,
    LEARNED_OUTCOME,
    REPLAY_CALLS,
    SITE,
    STREAM,
    THREAD,
    WHERE,
    RawRecord,
)
from dpsim.contract.rules.replay_frame import UNCOUNTED

Clock: TypeAlias = dict[str, int]
"""For each stream, the number of its ops that happened before a point."""


class OneReplay(NamedTuple):
    """A replay: where it was issued, its graph, and its place among the ops of its stream."""

    place: str
    graph: str
    stream: str
    number: int


class AtOnce(NamedTuple):
    """Two replays, in the order of issue, and the communicator that both use."""

    first: str
    second: str
    communicator: str

    def __str__(self) -> str:
        """
        >>> str(AtOnce("go, a.py:3", "on, a.py:4", "dp"))
        'go, a.py:3, and on, a.py:4, on dp'
        """
        return f"{self.first}, and {self.second}, on {self.communicator}"


def pairs(journal: list[RawRecord]) -> Iterator[AtOnce]:
    """Yields each such pair of a rank's journal. A replay pairs with the last one of each other graph and stream."""
    if len({raw[STREAM] for raw in journal if raw[KIND] == "replay"}) > 1:
        yield from _Order().go(journal)


class _Order:
    """What happened before the present points of the streams and host threads of one rank."""

    def __init__(self) -> None:
        self._streams: dict[str, Clock] = {}
        self._hosts: dict[str, Clock] = {}
        self._events: dict[int, Clock] = {}
        self._asked: dict[tuple[str, str, int], Clock] = {}
        self._uses: dict[str, set[str]] = {}
        """The communicators of each graph."""
        self._kept: set[str] = set()
        self._last: dict[tuple[str, str, str], OneReplay] = {}
        """By communicator, graph and stream: the last replay."""

    def go(self, journal: list[RawRecord]) -> Iterator[AtOnce]:
        left = 0
        for raw in journal:
            kind = raw[KIND]
            if left:  # a replay is one op here, with all of its calls
                left -= kind not in UNCOUNTED
            elif kind == "replay":
                left = raw[REPLAY_CALLS] + 1
                yield from self._replay(raw)
            else:
                self._note(raw)

    def _note(self, raw: RawRecord) -> None:
        kind = raw[KIND]
        if kind == "kept":
            if raw[KEPT_CALL] in MEETS:
                self._kept.add(raw[KEPT_FIELDS][COMMUNICATOR - (WHERE + 1)])
        elif kind == "capture":
            if raw[CAPTURE_WHAT] == "end":
                self._uses[raw[GRAPH]] = self._kept
            self._kept = set()
        elif kind == "mark":
            self._events[raw[EVENT]] = dict(self._stream(raw))
        elif kind == "wait":
            _join(self._stream(raw), self._events.get(raw[EVENT], {}))
        elif kind in FOR_DEVICE:
            asked = self._stream(raw) if kind == "read" else self._events.get(raw[EVENT], {})
            self._asked[raw[ADDRESS]] = dict(asked)
        elif kind == "learned":
            asked = self._asked.pop(raw[ADDRESS], {})
            if raw[LEARNED_OUTCOME] is not False:  # else a query found that the event had not passed
                _join(self._hosts.setdefault(raw[THREAD], {}), asked)

    def _stream(self, raw: RawRecord) -> Clock:
        clock = self._streams.setdefault(raw[STREAM], {})
        _join(clock, self._hosts.get(raw[THREAD], {}))
        return clock

    def _replay(self, raw: RawRecord) -> Iterator[AtOnce]:
        clock, stream, graph = self._stream(raw), raw[STREAM], raw[GRAPH]
        clock[stream] = clock.get(stream, 0) + 1
        own = OneReplay(f"{raw[SITE]}, {raw[WHERE]}", graph, stream, clock[stream])
        uses = self._uses.get(graph, set())
        for (communicator, *_), other in self._last.items():
            unlike = communicator in uses and other.graph != graph and other.stream != stream
            if unlike and clock.get(other.stream, 0) < other.number:
                yield AtOnce(other.place, own.place, communicator)
        for communicator in sorted(uses):
            self._last[communicator, graph, stream] = own


def _join(clock: Clock, other: Any) -> None:
    for stream, number in other.items():
        clock[stream] = max(number, clock.get(stream, 0))
