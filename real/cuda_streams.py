"""CUDA streams, events, memory and device communicators of one rank, for one job.

Memory is taken and given back in the order of its stream, so what is freed can be reused by later work of the same
stream without waiting; `record_stream` is the allocator's own. Collectives are put *on the stream that is named*, and
so, in effect, are transfers (see `nccl_calls`).

NCCL wants the operations of one communicator in one order, and its streams know nothing of one another. So after each
operation an event is recorded, and an operation on another stream than the last one's begins with a wait for it: the
order of issue, as on the CPU. Within a capture the communicators have another such order: nothing there may wait for an
event of outside.

The host never waits inside CUDA. A read copies into pinned memory behind an event, and the host polls the event and
looks whether the run has been given up.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NoReturn

from dpsim.backend.buffers import JournaledBuffer, of_this_backend
from dpsim.backend.issue import Issue
from dpsim.backend.kernel_call import KernelCall, KernelError
from dpsim.backend.streams import JournaledEvent, JournaledStream
from dpsim.backend.work import Outcome
from dpsim.interface import Aborted, Buffer, HostArray, Stream
from dpsim.ops import DType
from real import nccl_calls
from real.communicators import Group
from real.cuda_calls import CudaCalls, Landing
from real.cuda_errors import refuse_captured
from real.lazy import FirstUse
from real.rank import CollectiveError, RealBuffer, RealRank, RealStream, flat, tensor, was_written
from real.waiting import Unfinished


class CudaStream(RealStream):
    """A CUDA stream, for one job."""

    __slots__ = ("_cycles_per_ns", "_number", "calls", "handle")

    def __init__(self, rank: RealRank, name: str, handle: Any, calls: CudaCalls, cycles_per_ns: float) -> None:
        super().__init__(rank, name)
        self.handle = handle
        self.calls = calls
        self._number = int(handle.cuda_stream)
        self._cycles_per_ns = cycles_per_ns

    def enter(self) -> None:
        """Make it the device's current stream, which it mostly is: asking takes 0.1 us, `with torch.cuda.stream` 9 to
        25. Nobody goes back: whoever needs a stream enters it, also after a kernel that has left another one.
        """
        calls = self.calls
        if calls.current(calls.index) != self._number:
            calls.set_current(self.handle)

    def mark(self) -> Any:
        """A CUDA event behind all that is on the stream now."""
        mark = self.calls.event()
        mark.record(self.handle)
        return mark

    def _drain(self) -> None:
        self.rank.patience.until(self.mark().query)

    def close(self) -> None:
        pass

    def _alloc(self, shape: tuple[int, ...], dtype: DType) -> JournaledBuffer:
        calls = self.calls
        self.enter()
        return CudaBuffer(self, shape, dtype, calls.empty(shape, dtype=calls.dtypes[dtype], device=calls.device))

    def _launch(self, call: KernelCall) -> None:
        # As `arguments` and `enter`, written out: launches are what a program does most often.
        writes = [one._whole if type(one) is CudaBuffer and one.base is None else tensor(one) for one in call.writes]
        reads = [tensor(one).data for one in call.reads]
        calls = self.calls
        if calls.current(calls.index) != self._number:
            calls.set_current(self.handle)
        try:
            call.run(reads, writes, was_written)
        except KernelError as error:
            refuse_captured(self.journal, error.__cause__, call.address[1])
            raise

    def _record(self, number: int) -> JournaledEvent:
        return CudaEvent(self, number)

    def _wait(self, event: JournaledEvent) -> None:
        self.handle.wait_event(of_this_backend(event, CudaEvent).mark)

    def _wait_flag(self, flag: Any) -> None:
        word = flag.seen(self.calls.words.take)
        try:
            self.calls.wait_for_word(self._number, word.address)
        except RuntimeError as error:
            refuse_captured(self.journal, error, f"stream {self.name} waits for flag {flag.name}")
            raise

    def _spin(self, ns: int) -> None:
        import torch

        with torch.cuda.stream(self.handle):
            torch.cuda._sleep(int(ns * self._cycles_per_ns))


class CudaEvent(JournaledEvent):
    """A CUDA event."""

    __slots__ = ("_rank", "mark")

    def __init__(self, stream: CudaStream, number: int) -> None:
        super().__init__(stream.journal, number)
        self._rank = stream.rank
        self.mark = stream.mark()

    def _again(self, stream: JournaledStream) -> None:
        self.mark = of_this_backend(stream, CudaStream).mark()

    def _query(self) -> Outcome:
        def outcome() -> Generator[Any, Any, bool]:
            return bool(self._rank.patience.ask(self.mark.query))
            yield

        return outcome

    def _synchronize(self) -> Outcome:
        def outcome() -> Generator[Any, Any, None]:
            self._rank.patience.until(self.mark.query)
            refuse_broken(self._rank)
            return
            yield

        return outcome


class CudaBuffer(RealBuffer):
    """A tensor on the device, of its stream's pool."""

    __slots__ = ()

    def __init__(self, stream: CudaStream, shape: tuple[int, ...], dtype: DType, whole: Any) -> None:
        super().__init__(stream, shape, dtype, whole)
        if whole is not None:
            first = int(whole.data_ptr())
            self.place = 0, first, first + int(whole.nbytes)

    def _view(self, start: int, stop: int) -> JournaledBuffer:
        stream = of_this_backend(self.stream, CudaStream)
        return CudaBuffer(stream, (stop - start, *self.shape[1:]), self.dtype, None)

    def _copy(self, stream: Stream) -> Outcome:
        on: CudaStream = stream if isinstance(stream, CudaStream) else of_this_backend(stream, CudaStream)
        form = self.shape, self.dtype
        free = on.calls.landings[form]
        landing = free.pop() if free else Landing(on.calls, form)
        pinned, array = landing.views.get(form) or landing.view(form)
        on.enter()
        pinned.copy_(self._whole if self.base is None else self.tensor, non_blocking=True)
        mark = landing.mark
        mark.record(on.handle)

        def outcome() -> Generator[Any, Any, HostArray]:
            on.rank.patience.until(mark.query)
            refuse_broken(on.rank)
            copy: HostArray = array.copy()
            free.append(landing)
            return copy
            yield

        return outcome

    def _weak(self) -> Any:
        return of_this_backend(self.stream, CudaStream).calls.alias(self._whole)

    def _hold(self, stream: Stream) -> None:
        self.tensor.record_stream(of_this_backend(stream, CudaStream).handle)


def refuse_broken(rank: RealRank) -> None:
    """Raise Aborted where work was broken off. XX: whatever is waited for, since nobody follows what lies behind it."""
    if rank.broken:
        raise Aborted(f"rank {rank.rank} has aborted a communicator, and work of its device was broken off")


class Order:
    """Where the last operation of a communicator is: its stream, and the event behind it."""

    __slots__ = ("last", "mark")

    def __init__(self) -> None:
        self.last: CudaStream | None = None
        self.mark: Any = None


class CudaCommunicator(FirstUse):
    """Collectives and transfers over NCCL, on the stream that is named."""

    __slots__ = ("_captured", "_eager", "_give_up", "_moves", "_nccl", "_rank", "_seq")

    def __init__(self, rank: RealRank, group: Group) -> None:
        super().__init__(rank.journal, group, rank.patience)
        self._give_up = rank.patience.give_up
        self._rank = rank
        self._nccl = group
        self._eager = Order()
        self._captured = Order()
        self._seq = 0
        self._moves: list[tuple[Issue, Any]] | None = None

    def begin_capture(self) -> None:
        """What is captured from now on comes after nothing."""
        self._captured = Order()

    def _put(self, issues: list[Issue], output: Buffer, source: Buffer, stream: Stream) -> None:
        if self.made is not None:
            self.made.meet(self.ranks)
        for issue in issues:
            in_place = nccl_calls.IN_PLACE.get(issue.op) if source is output and not issue.altered else None
            on = self._begin(stream, issue.delay_ns)
            try:
                if in_place is not None:  # most are so
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
        """ncclCommAbort ends the kernels that wait for peers; it may take a while, so a thread of its own calls it."""
        mark = self._eager.mark
        self._rank.broken = self._rank.broken or (mark is not None and not mark.query())
        self._rank.break_off(self._nccl.process_group)

    def _begin(self, stream: Stream, delay_ns: int) -> CudaStream:
        """On this stream, behind what the communicator did last."""
        if self.aborted:  # in a replay
            raise self.error(self.name)
        on = stream if isinstance(stream, CudaStream) else of_this_backend(stream, CudaStream)
        if self._give_up.is_set():  # a host that never waits has to hear of it somewhere
            raise Unfinished
        if delay_ns:
            on._spin(delay_ns)
        order = self._eager if on.capture is None else self._captured
        if order.last is not on and order.last is not None:
            on.handle.wait_event(order.mark)
        on.enter()
        return on

    def _end(self, on: CudaStream) -> None:
        """An event behind it, the same one each time: a stream waits for what is before the event when it is told to
        wait, not for what the event is recorded behind later.
        """
        order = self._eager if on.capture is None else self._captured
        if order.mark is None:
            order.mark = on.calls.event()
        order.mark.record(on.handle)
        order.last = on

    def _fail(self, issue: Issue, seq: int | None, error: Exception) -> NoReturn:
        """Raise the error with the issue's name."""
        if self._give_up.is_set():  # the communicator was aborted under this call
            raise Unfinished from error
        if self.aborted:  # by another thread of the program
            raise self.error(self.name) from error
        refuse_captured(self.journal, error, f"{self.name}: {issue.op}")
        raise CollectiveError.of(self.name, seq, self.journal.rank, issue, error) from error
