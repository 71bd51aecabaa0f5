"""A capture in progress: the calls that it keeps, and the calls that it forbids. All backends share it.

During a capture, `Stream.capture` is set on the captured stream and on those that join it. They pass their calls to
this module, and the device runs none of them. `dpsim.backend.graphs.kept` stores them for replays. A CUDA device
receives the calls as well, because it captures the graph itself.

CUDA forbids some calls during a capture (CUDA C++ Programming Guide, CUDA Graphs, "Prohibited and unhandled
operations"). Its error codes are:

    900  an awaited call, or a wait for captured work                  904  no wait at the end for a joined stream
    901  any call after such an error                                  905  a wait for an event from outside
    902  a capture within a capture                                    907  an event of a capture used outside
    908  the end of a capture that another host thread began
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from sys import _getframe
from types import FrameType
from typing import Any, NoReturn, Protocol

from dpsim.backend.graphs.branches import Branches, Captured, CapturedPoint, Graphed, Recorded
from dpsim.backend.graphs.capture_pool import CapturePool
from dpsim.backend.graphs.kept import (
    KeptCall,
    KeptCollective,
    KeptFlagWait,
    KeptLaunch,
    KeptMark,
    KeptTransfers,
    KeptWait,
)
from dpsim.backend.graphs.kernel_call import KernelCall
from dpsim.backend.graphs.replaying import CallMemory, Communicator
from dpsim.backend.hosts.threads import JournaledFlag
from dpsim.backend.journal.issue import Issue
from dpsim.backend.journal.journal import Journal
from dpsim.backend.memory.buffers import INSTEAD
from dpsim.contract.interface import Buffer, CaptureError, Frozen, Kernel
from dpsim.contract.kinds import FOR_DEVICE
from dpsim.contract.ops import CaptureMode


class Keeping(Graphed, Protocol):
    """The methods of a graph that its capture uses."""

    @property
    def captures(self) -> bool:
        """Whether the device itself captures the calls, too."""

    def frozen(self, buffer: Buffer) -> Buffer:
        """Returns the buffer with its present memory."""


LEARNS = {
    "read": "reads a buffer",
    "ask": "asks for an event",
    "take": "looks into a mailbox",
    "receive_any": "starts a receive",
    "look": "asks for a collective or transfer",
    "look up": "looks into a store, or for one",
}
"""Awaited calls that a capture forbids, by kind, in words for the error."""


class GraphCapture(CapturePool):
    """One capture of a graph."""

    def __init__(self, graph: Keeping, journal: Journal, stream: Captured, mode: CaptureMode) -> None:
        super().__init__(journal, graph.pool)
        self.graph = graph
        self.mode = mode
        self.thread = journal.thread
        self.origin = stream
        self._invalid = False
        self._branches = Branches(self)
        self._seqs: dict[Any, int] = {}
        self._group: KeptTransfers | None = None
        self._branches.join(stream)

    @cached_property
    def size(self) -> int:
        """The number of records that a replay writes, without allocs and frees. Read it after the capture."""
        return sum(call.size for call in self.calls)

    # ---- forbidden calls

    def refuse(self, code: int, message: str, cure: str = "") -> NoReturn:
        """Raises CaptureError, and makes the capture invalid."""
        if self._invalid:
            code, message, cure = 901, f"{message}; the capture is invalid since an error before", ""
        self._invalid = True
        raise CaptureError(code, f"{message}, while graph {self.graph.name} is captured{cure}")

    def check(self, journal: Journal, call: str, site: str) -> None:
        """Refuses a call that gets data from the device or from a peer. In the modes "thread_local" and "relaxed",
        calls of other host threads are allowed. A second capture is refused in every mode, even if its thread was about
        to begin when this capture began.
        """
        if call == "capture":
            self.refuse(902, f"{site}: another capture begins")
        if call not in LEARNS and not call.startswith("host "):
            return
        if journal.thread != self.thread and self.mode != "global":
            return
        if call in FOR_DEVICE and self.mode == "relaxed":  # other checks refuse captured events and buffers
            return
        what = LEARNS.get(call) or f"starts a {call}"
        self.refuse(900, f"{site}: the host {what}", INSTEAD)

    def valid(self, site: str) -> None:
        if self._invalid:
            self.refuse(901, f"{site}: nothing is kept any more")

    def finish(self) -> None:
        """Ends the block. Raises CaptureError if the capture gives no graph."""
        self.valid("end")
        if self.journal.thread != self.thread and self.mode != "relaxed":
            cure = f"; end it in thread {self.thread}, which began it, or capture in mode relaxed"
            self.refuse(908, f"the capture is ended by thread {self.journal.thread}", cure)
        for name in self._branches.unjoined(self.origin.name):
            last = next(call for call in reversed(self.calls) if call.stream == name)
            where, own = f"its last call, {last.site} at {last.where}", self.origin.name
            cure = f"; before the end, stream {own} has to wait for an event recorded on {name} after {where}"
            self.refuse(904, f"stream {name} joined and was not joined again", cure)

    def leave(self) -> None:
        """Ends the capture, with or without a graph."""
        self.under_way = False
        self._branches.leave()
        self.release_late()

    # ---- streams and events

    def _add(self, stream: str, kept: KeptCall) -> None:
        self._branches.advance(stream)
        self.calls.append(kept)

    def record(self, stream: Captured, event: Recorded, frame: FrameType) -> None:
        """A stream of the capture records an event."""
        self.valid("record")
        where, _ = self._keep(stream, "mark", "record", (stream.name, event.number), frame)
        kept = KeptMark(stream.name, "record", where)
        event.point = CapturedPoint(self, kept, self._branches.clock(stream.name))
        self.calls.append(kept)

    def wait(self, stream: Captured, event: Recorded, frame: FrameType) -> None:
        """A stream waits for an event; the stream or the event belongs to this capture."""
        self.valid("wait")
        point = event.point
        if point is None or point.capture is not self:
            where = "" if point is None else f" in the capture of graph {point.capture.graph.name}"
            cure = "; wait before the capture begins, or for an event that is recorded within"
            self.refuse(905, f"stream {stream.name} waits for an event that was recorded outside{where}", cure)
        self._branches.wait(stream, point.clock)
        where, _ = self._keep(stream, "wait", "wait", (stream.name, event.number), frame)
        self.calls.append(KeptWait(stream.name, "wait", where, point.kept))
        if self.graph.captures:
            stream._wait(event)

    def wait_flag(self, stream: Captured, flag: JournaledFlag, site: str, frame: FrameType) -> None:
        """A stream of the capture waits for a flag; each replay will wait, too."""
        self.valid(site)
        where, delay = self._keep(stream, "flag_wait", site, (stream.name, flag.name), frame)
        if self.graph.captures:
            if delay:
                stream._spin(delay)
            stream._wait_flag(flag)
        self._add(stream.name, KeptFlagWait(stream.name, site, where, flag, delay))

    def _keep(
        self, stream: Captured, call: str, site: str, fields: tuple[Any, ...], frame: FrameType
    ) -> tuple[str, int]:
        return self.journal.keep(stream.name, self.graph.name, call, site, fields, frame)

    # ---- work

    def launch(
        self,
        stream: Captured,
        site: str,
        kernel: Kernel,
        reads: Sequence[Buffer],
        writes: Sequence[Buffer],
        args: tuple[Frozen, ...],
        cost: int | None,
    ) -> None:
        self.valid(site)
        journal = self.journal
        memory = CallMemory(reads), CallMemory(writes)
        fields = stream.name, memory[0].now(), memory[1].now()
        where, delay = self._keep(stream, "launch", site, fields, _getframe(2))
        if self.graph.captures:
            if delay:
                stream._spin(delay)
            stream._launch(KernelCall((journal.rank, site, journal.ordinal), kernel, reads, writes, args, cost))
            reads = writes = ()  # the device captures them
        call = KernelCall(
            (journal.rank, site, journal.ordinal),
            kernel,
            [self.graph.frozen(one) for one in reads],
            [self.graph.frozen(one) for one in writes],
            args,
            cost,
        )
        memory[1].scratch = self.scratch(stream, site, where)
        self._add(stream.name, KeptLaunch(stream.name, site, where, memory, call, delay))

    def collective(
        self,
        communicator: Communicator,
        issue: Issue,
        output: Buffer,
        source: Buffer,
        stream: Captured,
        site: str,
        memory: tuple[CallMemory, CallMemory],
    ) -> None:
        self.valid(site)
        name = communicator.name

        def form(one: Issue) -> tuple[Any, ...]:
            seq = self._next(name)
            return (
                stream.name, name, seq, one.op, one.count, one.dtype, one.root, one.reduce, one.sizes,
                memory[0].now(), memory[1].now(),
            )  # fmt: skip

        where, issues = self.journal.keep_issue(
            stream.name, self.graph.name, "collective", site, issue, form, _getframe(3)
        )
        if self.graph.captures:
            communicator._put(issues, output, source, stream)
            buffers = None
        else:
            frozen = self.graph.frozen(output)
            buffers = frozen, frozen if source is output else self.graph.frozen(source)
        memory[1].scratch = self.scratch(stream, site, where)
        for one in issues:
            self._add(stream.name, KeptCollective(stream.name, site, where, communicator, one, memory, buffers))

    def transfer(
        self,
        communicator: Communicator,
        issue: Issue,
        buffer: Buffer,
        stream: Captured,
        site: str,
        memory: tuple[CallMemory, CallMemory],
    ) -> None:
        self.valid(site)
        name = communicator.name

        def form(one: Issue) -> tuple[Any, ...]:
            seq = self._next((name, one.op, one.peer))
            return (
                stream.name, name, seq, one.op, one.count, one.dtype, one.peer, one.group,
                memory[0].now(), memory[1].now(),
            )  # fmt: skip

        where, issues = self.journal.keep_issue(
            stream.name, self.graph.name, "transfer", site, issue, form, _getframe(3)
        )
        if self.graph.captures:
            communicator._move(issues, buffer, stream)
        kept = self._group
        if kept is None:
            kept = KeptTransfers(stream.name, site, where, communicator, grouped=False)
        for one in issues:
            frozen = None if self.graph.captures else self.graph.frozen(buffer)
            kept.moves.append((site, where, one, memory, frozen))
        if self._group is None and issues:
            self._add(stream.name, kept)

    def open(self, communicator: Communicator, stream: Captured) -> None:
        """Begins a coalesced group."""
        self._group = KeptTransfers(stream.name, "group", "", communicator, grouped=True)

    def close(self) -> None:
        group, self._group = self._group, None
        if group is not None and group.moves:
            self._add(group.stream, group)

    def _next(self, line: Any) -> int:
        seq = self._seqs.get(line, 0)
        self._seqs[line] = seq + 1
        return seq
