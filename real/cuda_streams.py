"""CUDA streams, events, buffers and device communicators of one rank, for one job.

A stream allocates and frees buffers in its order, so its later work reuses freed memory without waiting.
`record_stream` is that of torch's allocator. Collectives run *on the stream that the program names*, and so, in effect,
do transfers (see `nccl_calls`).

NCCL needs the operations of one communicator in one order, but CUDA does not order different streams. So after each
operation the communicator records an event. If the next operation is on another stream, that stream first waits for the
event. This gives the order of issue, as on the CPU device. Within a capture the communicators keep a separate order,
since nothing there may wait for an event from outside.

The host never blocks inside CUDA. A read copies into pinned memory and records an event after the copy. The host polls
the event, and checks whether the parent has given up the run.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dpsim.backend.calls.streams import JournaledEvent, JournaledStream
from dpsim.backend.graphs.kernel_call import KernelCall, KernelError
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.memory.buffers import JournaledBuffer, of_this_backend
from dpsim.contract.interface import HostArray, Stream
from dpsim.contract.ops import DType
from real.cuda_calls import CudaCalls, Landing
from real.cuda_errors import refuse_captured
from real.cuda_order import NOTHING, Behind, CommunicatorOrder, after, settle
from real.holding import answered, hold
from real.rank import RealBuffer, RealRank, RealStream, tensor, was_written


class CudaStream(RealStream):
    """A CUDA stream, for one job."""

    __slots__ = ("_cycles_per_ns", "_number", "behind", "calls", "handle", "owed")

    def __init__(self, rank: RealRank, name: str, handle: Any, calls: CudaCalls, cycles_per_ns: float) -> None:
        super().__init__(rank, name)
        self.handle = handle
        self.calls = calls
        self._number = int(handle.cuda_stream)
        self._cycles_per_ns = cycles_per_ns
        self.behind: Behind = NOTHING
        self.owed: list[CommunicatorOrder] = []
        """The communicators whose event this stream still has to record, before it receives work that may wait."""

    def enter(self) -> None:
        """Makes this the device's current stream. It mostly is the current one already: the check takes 0.1 us, `with
        torch.cuda.stream` 9 to 25 us. No call restores the previous stream; each call that needs a stream enters it,
        also after a kernel that has changed it.
        """
        calls = self.calls
        if calls.current(calls.index) != self._number:
            calls.set_current(self.handle)

    def mark(self) -> Any:
        """Returns a CUDA event recorded after all present work of the stream."""
        mark = self.calls.event()
        mark.record(self.handle)
        return mark

    def pay(self) -> None:
        """Records the events that are still to be recorded."""
        owed, self.owed = self.owed, []
        for order in owed:
            if order.mark is None:
                order.mark = self.calls.event()
            order.mark.record(self.handle)

    def _drain(self) -> None:
        self.rank.patience.until(self.mark().query)

    def close(self) -> None:
        pass

    def _alloc(self, shape: tuple[int, ...], dtype: DType) -> JournaledBuffer:
        calls = self.calls
        self.enter()
        return CudaBuffer(self, shape, dtype, calls.empty(shape, dtype=calls.dtypes[dtype], device=calls.device))

    def _launch(self, call: KernelCall) -> None:
        # The bodies of `arguments` and `enter`, copied for speed: launches are the most frequent op.
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

    def _record(self, number: int, joins: bool = False) -> JournaledEvent:
        if self.gated:
            hold(self)
        return CudaEvent(self, number)

    def _wait(self, event: JournaledEvent) -> None:
        ours = of_this_backend(event, CudaEvent)
        if self.owed:
            self.pay()
        self.handle.wait_event(ours.mark)
        if ours.behind:
            self.behind = after(self.behind, ours.behind)

    def _wait_flag(self, flag: Any) -> None:
        if self.owed:
            self.pay()
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

    __slots__ = ("_rank", "behind", "mark")

    def __init__(self, stream: CudaStream, number: int) -> None:
        super().__init__(stream.journal, number)
        self._rank = stream.rank
        self.mark = stream.mark()
        self.behind = stream.behind

    def _again(self, stream: JournaledStream) -> None:
        on: CudaStream = of_this_backend(stream, CudaStream)
        if on.gated:
            hold(on)
        self.mark = on.mark()
        self.behind = on.behind

    def _query(self) -> Outcome:
        def outcome() -> Generator[Any, Any, bool]:
            return bool(self._rank.patience.ask(self.mark.query))
            yield

        return answered(self._rank, outcome, self._synchronize())

    def _synchronize(self) -> Outcome:
        mark, behind = self.mark, self.behind

        def outcome() -> Generator[Any, Any, None]:
            self._rank.patience.until(mark.query)
            if behind:
                settle(behind)
            return
            yield

        return outcome


class CudaBuffer(RealBuffer):
    """A tensor on the device, from its stream's pool."""

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
        mark, behind = landing.mark, on.behind
        mark.record(on.handle)

        def outcome() -> Generator[Any, Any, HostArray]:
            on.rank.patience.until(mark.query)
            if behind:
                settle(behind)
            copy: HostArray = array.copy()
            free.append(landing)
            return copy
            yield

        return outcome

    def _weak(self) -> Any:
        return of_this_backend(self.stream, CudaStream).calls.alias(self._whole)

    def _hold(self, stream: Stream) -> None:
        self.tensor.record_stream(of_this_backend(stream, CudaStream).handle)
