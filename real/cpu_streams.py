"""Streams of the CPU device, with their events and buffers. Each stream is a daemon thread with a queue.

stream.put(entry)               # runs after all earlier entries
mark = stream.join()            # becomes set when the stream has run or skipped all earlier entries
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

from dpsim.backend.calls.streams import JournaledEvent, JournaledStream
from dpsim.backend.graphs.kernel_call import KernelCall
from dpsim.backend.hosts.threads import JournaledFlag
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.memory.buffers import JournaledBuffer, of_this_backend
from dpsim.contract.dtypes import CARRIERS, NUMPY
from dpsim.contract.interface import Aborted, HostArray, Stream
from dpsim.contract.ops import DType
from real.calls import torch_dtype
from real.flags import RealFlag
from real.holding import answered, hold
from real.rank import RealBuffer, RealRank, RealStream, arguments, was_written
from real.waiting import GLANCE_SECONDS, Unfinished


class CpuMark(threading.Event):
    """A point of a stream. `broken`: whether it comes after work that an abort ended."""

    broken = False


class CpuStream(RealStream):
    """A thread and its queue."""

    __slots__ = ("_empty", "_queue", "broken")

    def __init__(self, rank: RealRank, name: str) -> None:
        from torch import empty

        super().__init__(rank, name)
        self._empty = empty
        self.broken = False
        """Whether the stream has passed work that an abort ended."""
        self._queue: queue.SimpleQueue[Callable[[], object] | CpuMark | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=f"stream {name}", daemon=True).start()

    def put(self, entry: Callable[[], object]) -> None:
        """Runs the entry after all earlier ones."""
        self._queue.put(entry)

    def join(self) -> CpuMark:
        """Returns a mark that becomes set when the stream has run or skipped all earlier entries."""
        mark = CpuMark()
        self._queue.put(mark)
        return mark

    def settle(self, mark: CpuMark) -> None:
        """Waits for a mark; raises the error of the work before it."""
        self.rank.patience.event(mark)
        if self.rank.failure is not None:
            raise self.rank.failure

    def come_past(self, mark: CpuMark) -> None:
        """As `settle`, for a host that needs the result: raises Aborted if the mark comes after work that an abort
        ended.
        """
        self.settle(mark)
        if mark.broken:
            raise Aborted(
                f"rank {self.journal.rank} waits for work behind a call on a communicator that it has aborted"
            )

    def _drain(self) -> None:
        self.settle(self.join())

    def close(self) -> None:
        self._queue.put(None)

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            if isinstance(entry, CpuMark):
                entry.broken = self.broken
                entry.set()
            elif self.rank.failure is None:
                try:
                    entry()
                except BaseException as error:
                    self.rank.fail(error)

    def _alloc(self, shape: tuple[int, ...], dtype: DType) -> JournaledBuffer:
        return CpuBuffer(self, shape, dtype, self._empty(shape, dtype=torch_dtype(dtype)))

    def _launch(self, call: KernelCall) -> None:
        reads, writes = arguments(call)
        self.put(lambda: call.run(reads, writes, was_written))

    def _record(self, number: int, joins: bool = False) -> JournaledEvent:
        if self.gated:
            hold(self)
        return CpuEvent(self, number)

    def _wait(self, event: JournaledEvent) -> None:
        mark = of_this_backend(event, CpuEvent).mark

        def wait() -> None:
            mark.wait()
            self.broken |= mark.broken

        self.put(wait)

    def _wait_flag(self, flag: JournaledFlag) -> None:
        seen = of_this_backend(flag, RealFlag).seen(threading.Event)

        def wait() -> None:
            while not seen.wait(GLANCE_SECONDS):
                if self.rank.closed:
                    raise Unfinished
                if self.rank.failure is not None:  # the stream may have skipped the entry that sets it
                    return

        self.put(wait)

    def _spin(self, ns: int) -> None:
        self.put(lambda: time.sleep(ns / 1e9))


class CpuEvent(JournaledEvent):
    """An entry of a stream's queue."""

    __slots__ = ("_stream", "mark")

    def __init__(self, stream: CpuStream, number: int) -> None:
        super().__init__(stream.journal, number)
        self._stream = stream
        self.mark = stream.join()

    def _again(self, stream: JournaledStream) -> None:
        self._stream = of_this_backend(stream, CpuStream)
        if self._stream.gated:
            hold(self._stream)
        self.mark = self._stream.join()

    def _query(self) -> Outcome:
        def outcome() -> Generator[Any, Any, bool]:
            self._stream.rank.patience.check()  # a host that only polls must get the error here
            return self.mark.is_set()
            yield

        return answered(self._stream.rank, outcome, self._synchronize())

    def _synchronize(self) -> Outcome:
        def outcome() -> Generator[Any, Any, None]:
            self._stream.come_past(self.mark)
            return
            yield

        return outcome


class CpuBuffer(RealBuffer):
    """A tensor in main memory."""

    __slots__ = ()

    def _view(self, start: int, stop: int) -> JournaledBuffer:
        return CpuBuffer(self._on(self.stream), (stop - start, *self.shape[1:]), self.dtype, None)

    def _copy(self, stream: Stream) -> Outcome:
        on, source, copies = self._on(stream), self.tensor, list[HostArray]()
        lacked = NUMPY[self.dtype] if self.dtype in CARRIERS else None
        on.put(lambda: copies.append(source.numpy().copy() if lacked is None else source.numpy().copy().view(lacked)))
        mark = on.join()

        def outcome() -> Generator[Any, Any, HostArray]:
            on.come_past(mark)
            return copies[0]
            yield

        return outcome

    def _hold(self, stream: Stream) -> None:
        pass

    def _on(self, stream: Stream) -> CpuStream:
        on: CpuStream = of_this_backend(stream, CpuStream)
        return on
