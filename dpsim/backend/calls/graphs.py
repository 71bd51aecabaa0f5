"""CUDA graphs: a program captures calls once and replays them as a whole. This file has what is the same on every
backend.

During its capture, a graph keeps the plain calls of the program (`dpsim.backend.graphs.capture`). A replay makes them
again (`dpsim.backend.graphs.kept`). It writes one `replay` record and then the ordinary records of these calls, so each
check can read them. The simulation and gloo issue the kept calls one by one. A CUDA device replays its own captured
graph, and this module only writes the records.

In a replay, the calls of the captured stream run on the stream of the replay. Streams that joined the capture become
*branches* of the graph, such as "side@decode", which only events of the capture order.

    replay 3 of decode on main
        launch a on main; record e on main; side@decode waits for e; launch b on side@decode; ...

Replays of one graph run one after the other: a replay waits for the one before, even on another stream.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from sys import _getframe
from types import FrameType, TracebackType
from typing import Any, NoReturn, Protocol

from dpsim.backend.calls.streams import JournaledEvent, JournaledStream
from dpsim.backend.graphs.capture import GraphCapture
from dpsim.backend.graphs.replaying import Names, Replaying
from dpsim.backend.journal.graph_records import Row
from dpsim.backend.journal.injection import RankDied, RankHung
from dpsim.backend.journal.journal import Journal
from dpsim.backend.memory.buffers import of_this_backend
from dpsim.backend.memory.pools import GraphPool
from dpsim.contract.interface import Buffer, Graph, Stream
from dpsim.contract.ops import CaptureMode


class GraphOwner(Protocol):
    """The methods of a rank that a graph uses."""

    journal: Journal
    streams: dict[str, Any]
    graphs: dict[str, JournaledGraph]

    def stream(self, name: str) -> Stream:
        """Returns the stream with that name."""


MODES = "global", "thread_local", "relaxed"


class JournaledGraph(Graph):
    """A backend whose device captures by itself sets `captures` and overrides the methods that begin with _."""

    __slots__ = ("_last", "_names", "_rows", "journal", "kept", "pool", "rank", "replays")

    captures = False
    """Whether the device itself captures and replays the calls (CUDA)."""

    def __init__(self, rank: GraphOwner, name: str, pool: GraphPool) -> None:
        self.rank = rank
        self.journal = rank.journal
        self.name = name
        self.pool = pool
        self.kept: GraphCapture | None = None
        """The finished capture; None before."""
        self._names: Names | None = None
        self._rows: tuple[Names, list[Row] | None] | None = None
        self.replays = 0
        self._last: tuple[JournaledStream, JournaledEvent] | None = None

    def capture(
        self, stream: Stream, *, mode: CaptureMode = "global", site: str | None = None
    ) -> AbstractAsyncContextManager[None]:
        own = self._own(stream)
        if mode not in MODES:
            raise ValueError(f"graph {self.name}: the mode {mode!r} is none of {', '.join(MODES)}")
        return Capturing(self, own, mode, site or f"{self.name}.capture")

    def replay(self, stream: Stream, site: str) -> None:
        own: JournaledStream = of_this_backend(stream, JournaledStream)
        kept, journal = self.kept, self.journal
        if own.journal.shared is not journal.shared:
            self._own(stream)  # raises an error that names the mistake
        if kept is None:
            raise RuntimeError(
                f"{site}: graph {self.name} was not captured, so there is nothing to replay. Capture it in a block, "
                "async with graph.capture(stream); a capture counts if the block ends without an error"
            )
        if own.capture is not None:
            own.capture.refuse(900, f"{site}: graph {self.name} is replayed on a stream that is captured")
        if self._last is not None and self._last[0] is not own:
            own._wait_at(self._last[1], _getframe(1))
        delay = journal.note("replay", site, (own.name, self.name, self.replays, kept.size))
        if delay:
            own._spin(delay)
        self.replays += 1
        self._put(own, kept)
        number = journal.number("event")
        self._last = own, self._passed(own, number)
        journal.again("mark", "record", journal.place(site), (own.name, number))

    def _own(self, stream: Stream) -> JournaledStream:
        own: JournaledStream = of_this_backend(stream, JournaledStream)
        if own.journal.shared is not self.journal.shared:
            mine, other = self.journal.rank, own.journal.rank
            raise ValueError(f"graph {self.name} is of rank {mine}, and the stream {own.name} of rank {other}")
        return own

    def names(self, origin: str, target: str) -> Names:
        """Returns the streams of a replay: the same object as in the last replay, if it was on the same stream."""
        if self._names is None or self._names[origin] != target:
            self._names = Names(self.name, origin, target)
        return self._names

    def branches(self) -> list[str]:
        """Returns the branch names of the streams that joined the capture, in its replays so far."""
        if self._names is None or self.kept is None:
            return []
        return [name for stream, name in self._names.items() if stream != self.kept.origin.name]

    def frozen(self, buffer: Buffer) -> Buffer:
        """Returns the buffer with its present memory, for replays after the program freed it."""
        return buffer

    def _passed(self, stream: JournaledStream, number: int) -> JournaledEvent:
        return stream._record(number, True)

    def _begin(self, stream: JournaledStream, mode: CaptureMode) -> None:
        """The device begins to capture."""

    def _end(self) -> None:
        """The device ends its capture and keeps the result."""

    def _abandon(self) -> None:
        """The device drops its capture."""

    def _put(self, stream: JournaledStream, kept: GraphCapture) -> None:
        self._launch(stream, kept)
        if self.captures and not self.pool.memories:
            rows = self._rows_for(kept, stream)
            if rows is not None:
                self.journal.rows(rows)
                return
        replayed = GraphReplay(self, kept.origin.name, stream)
        self.pool.overwrite(kept.memories, self.journal)
        for call in kept.calls:
            call.again(replayed)
        self.pool.loosen(kept.memories)

    def _rows_for(self, kept: GraphCapture, stream: JournaledStream) -> list[Row] | None:
        names = self.names(kept.origin.name, stream.name)
        if self._rows is None or self._rows[0] is not names:
            made = [call.row(names) for call in kept.calls]
            rows = [row for row in made if row is not None]
            self._rows = names, rows if len(rows) == len(made) else None
        return self._rows[1]

    def _launch(self, stream: JournaledStream, kept: GraphCapture) -> None:
        """The device replays its captured graph."""

    def _branch(self, name: str) -> JournaledStream:
        branch: JournaledStream = of_this_backend(self.rank.stream(name), JournaledStream)
        return branch


class Capturing(AbstractAsyncContextManager[None]):
    """The `async with` block in which a program captures a graph."""

    def __init__(self, graph: JournaledGraph, stream: JournaledStream, mode: CaptureMode, site: str) -> None:
        self._graph = graph
        self._stream = stream
        self._mode: CaptureMode = mode
        self._site = site
        self._capture: GraphCapture | None = None

    def __await__(self) -> NoReturn:
        raise TypeError(self._block("awaited"))

    def __enter__(self) -> NoReturn:
        raise TypeError(self._block("entered by with"))

    def __exit__(self, *error: object) -> None:
        """Not used: Python looks for this method before it enters the block."""

    def _block(self, wrong: str) -> str:
        return f"{self._site}: the capture is {wrong}; it is a block: async with graph.capture(stream)"

    async def __aenter__(self) -> None:
        graph, journal, site, frame = self._graph, self._graph.journal, self._site, _getframe(1)
        if journal.shared.capture is not None:
            journal.shared.capture.refuse(902, f"{site}: another capture begins")
        if graph.kept is not None:
            raise RuntimeError(f"{site}: graph {graph.name} was captured already; capture under another name")
        branches = {name for one in graph.rank.graphs.values() for name in one.branches()}  # their replays join them
        for one in [stream for name, stream in graph.rank.streams.items() if name not in branches]:
            with journal.shared.issuing:
                if journal.turn is not None:
                    journal.come("record")
                work = one._record_else(None, frame).synchronize_at(site, frame)
            await work
        with journal.shared.issuing:
            self._note("begin", frame, 0)
            self._capture = GraphCapture(graph, journal, self._stream, self._mode)
            journal.shared.capturing(self._capture)
            try:
                graph._begin(self._stream, self._mode)
            except BaseException:
                self._leave("abandon", frame)
                raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        graph, capture, frame = self._graph, self._capture, _getframe(1)
        assert capture is not None
        done = False
        with self._graph.journal.shared.issuing:
            try:
                if error is None:
                    capture.finish()
                    graph._end()
                    graph.kept, done = capture, True
            finally:
                if not done:
                    graph._abandon()
                self._leave("end" if done else "abandon", frame, isinstance(error, RankDied | RankHung | GeneratorExit))

    def _leave(self, what: str, frame: FrameType, dead: bool = False) -> None:
        """Ends the capture. If the rank is dead, or the run ends within the block, it writes no record."""
        assert self._capture is not None
        self._graph.journal.shared.capturing(None)
        self._capture.leave()
        if not dead:
            self._note(what, frame, self._capture.size)

    def _note(self, what: str, frame: FrameType, calls: int) -> None:
        graph = self._graph
        fields = self._stream.name, graph.name, what, self._mode, graph.pool.name, calls
        graph.journal.note_at("capture", self._site, fields, frame)


class GraphReplay(Replaying):
    """One replay, on the stream `target`, of a graph that was captured on the stream `origin`."""

    def __init__(self, graph: JournaledGraph, origin: str, target: JournaledStream) -> None:
        self.journal = graph.journal
        self.issues = not graph.captures
        self.marks = {}
        self._graph = graph
        self.names = graph.names(origin, target.name)
        self._streams = {origin: target}

    def on(self, stream: str) -> JournaledStream:
        own = self._streams.get(stream)
        if own is None:
            own = self._streams[stream] = self._graph._branch(self.names[stream])
        return own
