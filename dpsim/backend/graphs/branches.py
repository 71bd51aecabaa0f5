"""The streams of a capture: which streams joined it, and for which of them the captured stream waited again.

A stream joins a capture when it waits for an event of the capture. When the capture ends, the captured stream must come
after all calls on the joined streams (CUDA error 904 otherwise). The file decides this by vector clocks: the clock of a
stream counts, for each stream, the calls that precede its next call.

    main    launch a; e = record      .                    wait f; launch c
    side              wait e; launch b; f = record                              main comes after all of side: no error
"""

from __future__ import annotations

from types import FrameType
from typing import Any, NamedTuple, NoReturn, Protocol

from dpsim.backend.graphs.kept import KeptMark
from dpsim.backend.graphs.replaying import Target
from dpsim.backend.journal.fault_injector import Lawful
from dpsim.backend.memory.pools import GraphPool
from dpsim.contract.interface import CaptureError


class Graphed(Protocol):
    """The fields of a graph that a capture uses: its name, and its memory pool."""

    name: str
    pool: GraphPool


class UnderWay(Protocol):
    """The methods of a capture that its streams use."""

    under_way: bool

    @property
    def graph(self) -> Graphed:
        """The graph of the capture."""

    def refuse(self, code: int, message: str) -> NoReturn:
        """Raises CaptureError."""

    def wait(self, stream: Any, event: Any, frame: FrameType) -> None:
        """A stream waits for an event of the capture."""


class Captured(Target, Protocol):
    """A stream that a program can capture."""

    home: str
    capture: Any


class CapturedPoint(NamedTuple):
    """The point in a capture at which an event was recorded. `clock`: how many calls of each stream came before."""

    capture: UnderWay
    kept: KeptMark
    clock: dict[str, int]


class Recorded(Protocol):
    """The fields of an event that a capture uses."""

    number: int
    point: CapturedPoint | None


def captured_event(event: Recorded, site: str, under_way: Lawful | None) -> CaptureError:
    """Returns the error for the use of an event that a capture recorded. `under_way`: the present capture, if any."""
    assert event.point is not None
    capture = event.point.capture
    if capture.under_way:
        capture.refuse(907, f"{site}: the host asks for an event of the capture that is under way")
    prefix = (
        f"{site}: the event was recorded in the capture of graph {capture.graph.name}, and is no use outside; record "
    )
    if under_way is not None:
        under_way.refuse(907, f"{prefix}one behind the replay")
    return CaptureError(907, f"{prefix}one behind the replay")


class Branches:
    """The streams of one capture, including the captured one."""

    def __init__(self, capture: UnderWay) -> None:
        self._capture = capture
        self._streams: dict[str, Captured] = {}
        self._clocks: dict[str, dict[str, int]] = {}

    def join(self, stream: Captured) -> None:
        """A stream joins: the capture keeps its calls from now on."""
        self._streams[stream.name] = stream
        self._clocks[stream.name] = {}
        stream.capture, stream.home = self._capture, f"{stream.name}@{self._capture.graph.pool.name}"

    def leave(self) -> None:
        """The capture is over: its streams run their calls again."""
        for stream in self._streams.values():
            stream.capture, stream.home = None, stream.name

    def advance(self, stream: str) -> None:
        """Counts a call on a stream."""
        clock = self._clocks[stream]
        clock[stream] = clock.get(stream, 0) + 1

    def clock(self, stream: str) -> dict[str, int]:
        """Returns how many calls of each stream precede the next call of this stream."""
        return dict(self._clocks[stream])

    def wait(self, stream: Captured, clock: dict[str, int]) -> None:
        """Orders a stream after a point. If the stream was not in the capture, it joins."""
        if stream.capture is None:
            self.join(stream)
        own = self._clocks[stream.name]
        for name, count in clock.items():
            own[name] = max(own.get(name, 0), count)

    def unjoined(self, origin: str) -> list[str]:
        """Returns the streams with calls after which the captured stream does not come."""
        known = self._clocks[origin]
        return [name for name, clock in self._clocks.items() if known.get(name, 0) < clock.get(name, 0)]
