"""CUDA streams, events, memory and device communicators of one rank, for one job.

A buffer is taken and given back in the order of its stream, so later work of the same stream reuses freed memory
without waiting. `record_stream` is the allocator's own. Collectives are put *on the stream that is named*, and so, in
effect, are transfers (see `nccl_calls`).

NCCL wants the operations of one communicator in one order, and its streams know nothing of one another. So after each
operation an event is recorded, and an operation on another stream than the last one's begins with a wait for it. That
is the order of issue, as on the CPU. Within a capture the communicators have another such order: nothing there may wait
for an event of outside.

The host never waits inside CUDA. A read copies into pinned memory behind an event, and the host polls the event and
looks whether the run has been given up.
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
        """Those whose event is to be recorded here before anything comes that may wait."""

    def enter(self) -> None:
        """Make it the device's current stream, which it mostly is: asking takes 0.1 us, `with torch.cuda.stream` 9 to
        25. No call goes back: each call that needs a stream enters it, also after a kernel that has left another one.
        """
        calls = self.calls
        if calls.current(calls.index) != self._number:
            calls.set_current(self.handle)

    def mark(self) -> Any:
        """A CUDA event behind all that is on the stream now."""
        mark = self.calls.event()
        mark.record(self.handle)
        return mark

    def pay(self) -> None:
        """Record what is owed."""
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

    def _record(self, number: int, joins: bool = False) -> JournaledEvent:
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
