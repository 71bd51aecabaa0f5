"""The streams of a capture: which have joined it, and which were joined again.

A stream joins when it waits for an event of the capture. At the end, the captured stream must come after all calls on
the joined streams. Vector clocks decide this: the clock of a stream counts the calls of each other stream that precede
its next call.

    main    launch a; e = record      .                    wait f; launch c
    side              wait e; launch b; f = record                              main knows all of side: it is joined
"""

from __future__ import annotations

from types import FrameType
from typing import Any, NamedTuple, NoReturn, Protocol

from dpsim.backend.graphs.kept import KeptMark
from dpsim.backend.graphs.replaying import Target
from dpsim.backend.journal.graph_records import Lawful
from dpsim.backend.memory.pools import GraphPool
from dpsim.contract.interface import CaptureError


class Graphed(Protocol):
    """A graph: its name, and where its memory comes from."""

    name: str
    pool: GraphPool


class UnderWay(Protocol):
    """A capture."""

    under_way: bool

    @property
    def graph(self) -> Graphed:
        """The graph that is captured."""

    def refuse(self, code: int, message: str) -> NoReturn:
        """Raise CaptureError."""

    def wait(self, stream: Any, event: Any, frame: FrameType) -> None:
        """A stream waits for an event of it."""


class Captured(Target, Protocol):
    """A stream that can be captured."""

    home: str
    capture: Any


class CapturedPoint(NamedTuple):
    """Where an event was recorded in a capture. `clock`: how many calls of each stream came before."""

    capture: UnderWay
    kept: KeptMark
    clock: dict[str, int]


class Recorded(Protocol):
    """An event."""

    number: int
    point: CapturedPoint | None


def captured_event(event: Recorded, site: str, under_way: Lawful | None) -> CaptureError:
    """The error for the use of an event that was recorded in a capture. `under_way`: the one that lasts, if any."""
    assert event.point is not None
    capture = event.point.capture
    if capture.under_way:
        capture.refuse(907, f"{site}: the host asks for an event of the capture that is under way")
    said = (
        f"{site}: the event was recorded in the capture of graph {capture.graph.name}, and is no use outside; record "
    )
    if under_way is not None:
        under_way.refuse(907, f"{said}one behind the replay")
    return CaptureError(907, f"{said}one behind the replay")


class Branches:
    """The streams of one capture, the captured one among them."""

    def __init__(self, capture: UnderWay) -> None:
        self._capture = capture
        self._streams: dict[str, Captured] = {}
        self._clocks: dict[str, dict[str, int]] = {}

    def join(self, stream: Captured) -> None:
        """What is put on the stream is kept from now on."""
        self._streams[stream.name] = stream
        self._clocks[stream.name] = {}
        stream.capture, stream.home = self._capture, f"{stream.name}@{self._capture.graph.pool.name}"

    def leave(self) -> None:
        """The capture is over: the streams are the program's again."""
        for stream in self._streams.values():
            stream.capture, stream.home = None, stream.name

    def advance(self, stream: str) -> None:
        """A call more on a stream."""
        clock = self._clocks[stream]
        clock[stream] = clock.get(stream, 0) + 1

    def clock(self, stream: str) -> dict[str, int]:
        """What comes before the next call of a stream."""
        return dict(self._clocks[stream])

    def wait(self, stream: Captured, clock: dict[str, int]) -> None:
        """A stream comes after a point; it joins if it was none of the capture's."""
        if stream.capture is None:
            self.join(stream)
        own = self._clocks[stream.name]
        for name, count in clock.items():
            own[name] = max(own.get(name, 0), count)

    def unjoined(self, origin: str) -> list[str]:
        """The streams with calls that the captured one does not come after."""
        known = self._clocks[origin]
        return [name for name, clock in self._clocks.items() if known.get(name, 0) < clock.get(name, 0)]
