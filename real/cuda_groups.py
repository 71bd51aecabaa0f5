"""Device communicators of one rank over NCCL, for one job. `real.cuda_streams` explains in which order their operations
run.
"""

from __future__ import annotations

from typing import Any, NoReturn

from dpsim.backend.journal.issue import Issue
from dpsim.backend.memory.buffers import of_this_backend
from dpsim.contract.interface import Buffer, Stream
from real import nccl_calls
from real.calls import NATIVE
from real.communicators import Group
from real.cuda_errors import refuse_captured
from real.cuda_order import CommunicatorOrder, after
from real.cuda_streams import CudaStream
from real.lazy import FirstUse
from real.rank import CollectiveError, RealRank, flat, tensor
from real.waiting import Unfinished


class CudaCommunicator(FirstUse):
    """Collectives and transfers over NCCL, on the stream that the program names."""

    __slots__ = ("_captured", "_give_up", "_moves", "_nccl", "_number", "_rank", "_seq", "broken", "eager", "seen")

    def __init__(self, rank: RealRank, group: Group) -> None:
        super().__init__(rank.journal, group, rank.patience)
        self._give_up = rank.patience.give_up
        self._rank = rank
        self._nccl = group
        self.eager = CommunicatorOrder()
        self._captured = CommunicatorOrder()
        self._seq = self._number = self.seen = 0
        self.broken = False
        self._moves: list[tuple[Issue, Any]] | None = None

    def begin_capture(self) -> None:
        """A capture begins: its first operation waits for no operation outside."""
        self._captured = CommunicatorOrder()

    def _put(self, issues: list[Issue], output: Buffer, source: Buffer, stream: Stream) -> None:
        if self.made is not None:
            self.made.meet(self.ranks)
        for issue in issues:
            in_place = nccl_calls.IN_PLACE.get(issue.op) if source is output and not issue.altered else None
            if issue.dtype not in NATIVE:
                in_place = None
            on = self._begin(stream, issue.delay_ns)
            try:
                if in_place is not None:  # the common case
                    in_place(self._nccl, issue, tensor(output))
                else:
                    given = flat(source)
                    nccl_calls.start(self._nccl, issue, given, given if source is output else flat(output))
            except (RuntimeError, ValueError) as error:
                self._fail(issue, self._seq, error)
            self._end(on)
            self._seq += 1

    def _move(self, issues: list[Issue], buffer: Buffer, stream: Stream) -> None:
        memory = flat(buffer)
        for issue in issues:
            if self.made is not None:
                self.made.meet(self.makes(issue))
            if self._moves is not None:
                self._moves.append((issue, memory))
                continue
            on = self._begin(stream, issue.delay_ns)
            try:
                nccl_calls.start(self._nccl, issue, memory, memory)
            except (RuntimeError, ValueError) as error:
                self._fail(issue, None, error)
            self._end(on)

    def _open(self, stream: Stream) -> None:
        self._moves = []

    def _close(self, stream: Stream) -> None:
        moves, self._moves = self._moves or [], None
        if moves:
            on = self._begin(stream, sum(issue.delay_ns for issue, _ in moves))
            try:
                nccl_calls.exchange(self._nccl, moves)
            except (RuntimeError, ValueError) as error:
                self._fail(moves[0][0], None, error)
            self._end(on)

    def _abort(self) -> None:
        """ncclCommAbort ends the kernels that wait for peers. A separate thread calls it, since it may take long."""
        order = self.eager
        if order.last is not None and order.last.owed:
            order.last.pay()
        self.broken = self.broken or (order.mark is not None and not order.mark.query())
        self._rank.break_off(self._nccl.process_group)

    def _begin(self, stream: Stream, delay_ns: int) -> CudaStream:
        if self.aborted:  # only a graph replay reaches this line after an abort
            raise self.error(self.name)
        on = stream if isinstance(stream, CudaStream) else of_this_backend(stream, CudaStream)
        if self._give_up.is_set():  # a host that never waits must get the error here
            raise Unfinished
        if delay_ns:
            on._spin(delay_ns)
        if on.owed:
            on.pay()
        order = self.eager if on.capture is None else self._captured
        if order.last is not on and order.last is not None:
            if order.last.owed:
                order.last.pay()
            on.handle.wait_event(order.mark)
            if order.behind:
                on.behind = after(on.behind, order.behind)
        on.enter()
        return on

    def _end(self, on: CudaStream) -> None:
        """Records always the same event: a stream's earlier wait for it refers to the earlier record."""
        order = self.eager if on.capture is None else self._captured
        if order.mark is None:
            order.mark = on.calls.event()
        order.mark.record(on.handle)
        order.last = on
        if order is self.eager and self.journal.shared.aborts:
            self.count(on)

    def owe(self, on: CudaStream) -> None:
        """Makes this the communicator's last operation; `CudaStream.pay` will record its event."""
        self.eager.last = on
        if self.journal.shared.aborts:
            self.count(on)

    def count(self, on: CudaStream) -> None:
        """Counts this operation in the stream's order, which an abort needs."""
        self._number += 1
        on.behind = self.eager.behind = after(on.behind, {self: self._number})

    def _fail(self, issue: Issue, seq: int | None, error: Exception) -> NoReturn:
        if self._give_up.is_set():  # the communicator was aborted during this call
            raise Unfinished from error
        if self.aborted:  # another thread of the program aborted it
            raise self.error(self.name) from error
        refuse_captured(self.journal, error, f"{self.name}: {issue.op}")
        raise CollectiveError.of(self.name, seq, self.journal.rank, issue, error) from error
