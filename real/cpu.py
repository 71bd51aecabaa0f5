"""A device made of CPU threads, for the gloo backend: CI exercises all but CUDA.

Memory is torch tensors in main memory. A stream is a daemon thread with a FIFO queue: kernels, copies and collectives
are entries of it, so the host runs ahead as it does on a GPU, and a collective that lacks a member holds its stream
and not its host. (Running each operation when it is issued, which is simpler, hangs programs that no GPU would hang.)
An entry that fails poisons its stream: what comes after is left out, and the host is told at its next read or
synchronise, as by CUDA.

Not claimed: reuse of freed memory, and an order between two streams that use one communicator; a rank has one stream
so far.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import numpy as np

from dpsim.interface import Buffer, DeviceCommunicator, Frozen, HostArray, Kernel, Stream
from dpsim.journal import Issue
from dpsim.journaled import JournaledBuffer, JournaledDeviceCommunicator
from dpsim.ops import DType
from dpsim.world import CommunicatorSpec
from real.communicators import Group, connect_gloo
from real.rank import CollectiveError, Device, KernelError, Outcome, RealRank, RealStream, resized_tensor
from real.waiting import Unfinished, peer_gone


class CpuDevice(Device):
    """The CPU. A stuck operation cannot be ended, only left behind: its thread is a daemon, and its group is never
    used again.
    """

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)  # several ranks share the cores

    def connect(self, spec: CommunicatorSpec, store: Any, index: int) -> Any:
        return connect_gloo(spec, store, index)

    def stream(self, rank: RealRank, name: str) -> RealStream:
        return CpuStream(rank, name)

    def communicator(self, rank: RealRank, group: Group) -> DeviceCommunicator:
        return CpuCommunicator(rank, group)

    def abort(self, process_groups: Iterable[Any]) -> None:
        pass

    def is_idle(self, seconds: float) -> bool:
        return True

    def versions(self) -> dict[str, str]:
        import torch

        return {"torch": torch.__version__, "numpy": np.__version__}


class CpuStream(RealStream):
    """A thread and its queue."""

    def __init__(self, rank: RealRank, name: str) -> None:
        super().__init__(rank.journal, name)
        self.rank = rank
        self._error: BaseException | None = None
        self._queue: queue.SimpleQueue[Callable[[], None] | threading.Event | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=f"stream {name}", daemon=True).start()

    def put(self, entry: Callable[[], None]) -> None:
        """Run it after all that was put before."""
        self._queue.put(entry)

    def join(self) -> threading.Event:
        """Set when all that was put so far is done, or left out."""
        mark = threading.Event()
        self._queue.put(mark)
        return mark

    def settle(self, mark: threading.Event) -> None:
        """Wait for a mark; raise what went wrong before it."""
        self.rank.patience.event(mark)
        if self._error is not None:
            raise self._error

    def synchronize(self) -> None:
        self.settle(self.join())

    def close(self) -> None:
        self._queue.put(None)

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            if isinstance(entry, threading.Event):
                entry.set()
            elif self._error is None:
                try:
                    entry()
                except BaseException as error:
                    self._error = error

    def _alloc(self, shape: tuple[int, ...], dtype: DType, site: str, ordinal: int) -> Buffer:
        return CpuBuffer(self, shape, dtype, site, ordinal)

    def _launch(
        self, site: str, kernel: Kernel, buffers: Sequence[Buffer], args: tuple[Frozen, ...], cost: int | None
    ) -> None:
        tensors = [_tensor(buffer) for buffer in buffers]
        rank, ordinal = self.rank.rank, self.journal.last_ordinal(site)

        def run() -> None:
            try:
                kernel(*tensors, *args)
            except Exception as error:
                raise KernelError(kernel.__qualname__, rank, site, ordinal, error) from error

        self.put(run)

    def _spin(self, ns: int) -> None:
        self.put(lambda: time.sleep(ns / 1e9))


class CpuBuffer(JournaledBuffer):
    """A tensor in main memory."""

    def __init__(self, stream: CpuStream, shape: tuple[int, ...], dtype: DType, site: str, ordinal: int) -> None:
        import torch

        super().__init__(stream, shape, dtype, site, ordinal)
        self._stream = stream
        self.tensor = torch.empty(shape, dtype=getattr(torch, dtype))

    def _copy(self, delay_ns: int) -> Outcome:
        stream, copies = self._stream, list[HostArray]()
        if delay_ns:
            stream._spin(delay_ns)
        stream.put(lambda: copies.append(self.tensor.numpy().copy()))
        mark = stream.join()

        def outcome() -> Generator[Any, Any, HostArray]:
            stream.settle(mark)
            return copies[0]
            yield

        return outcome

    def _release(self) -> None:
        pass  # Python frees it with the last entry that uses it


class CpuCommunicator(JournaledDeviceCommunicator):
    """Collectives over a gloo group of their own, each an entry of its stream."""

    def __init__(self, rank: RealRank, group: Group) -> None:
        super().__init__(rank.journal, group.spec)
        self._group = group
        self._seq = 0

    def _put(self, issues: list[Issue], buffer: Buffer, stream: Stream) -> None:
        assert isinstance(stream, CpuStream), f"a stream of this backend is needed, not a {type(stream).__name__}"
        flat = _tensor(buffer).view(-1)
        for issue in issues:
            if issue.delay_ns:
                stream._spin(issue.delay_ns)
            stream.put(self._entry(issue, flat, self._seq))
            self._seq += 1

    def _entry(self, issue: Issue, flat: Any, seq: int) -> Callable[[], None]:
        def run() -> None:
            try:
                if not issue.altered:
                    self._group.issue(issue, flat, asynchronous=True).wait()
                    return
                wire, size = resized_tensor(flat, issue)
                self._group.issue(issue, wire, asynchronous=True).wait()
                flat[:size].copy_(wire[:size])
            except RuntimeError as error:
                if peer_gone(error):
                    raise Unfinished from error
                raise CollectiveError(self.name, seq, self.journal.rank, issue, error) from error

        return run


def _tensor(buffer: Buffer) -> Any:
    assert isinstance(buffer, CpuBuffer), f"a buffer of this backend is needed, not a {type(buffer).__name__}"
    return buffer.tensor
