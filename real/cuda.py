"""A CUDA device, for the NCCL backend.

A stream is a CUDA stream that torch's caching allocator knows: memory is taken and given back in its order, so what
is freed can be reused by later work of the same stream without waiting. Collectives are put *on that stream* (torch's
synchronous mode: `asyncOp` False means "on the current stream", it does not block the host), so stream order is all
the order there is, as on NCCL itself.

The host never waits inside CUDA. A read copies into pinned memory behind an event, and the host polls the event and
looks whether the run has been given up. When it has, the communicators are aborted, each from a thread of its own: an
abort ends the kernels of its communicator at once, but one may wait for another that holds the stream, and one that
is stuck in a graph replay never returns. Afterwards an event on each stream shows whether the device is idle; if not,
the process has to go.

    python -m pytest -m gpu          (needs GPUs; CI runs cpu.py in its place)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable, Sequence
from typing import Any

import numpy as np

from dpsim.interface import Buffer, DeviceCommunicator, Frozen, HostArray, Kernel, Stream
from dpsim.journal import Issue
from dpsim.journaled import JournaledBuffer, JournaledDeviceCommunicator
from dpsim.ops import DType
from dpsim.world import CommunicatorSpec
from real.communicators import TIMEOUT, Group
from real.rank import CollectiveError, Device, KernelError, Outcome, RealRank, RealStream, resized_tensor
from real.waiting import Patience, Unfinished

CALIBRATION_CYCLES = 20_000_000
"""About 10 ms: how long such a spin takes gives the rate of the clock that `torch.cuda._sleep` counts in."""


class CudaDevice(Device):
    """One GPU: the `index`th of those that CUDA_VISIBLE_DEVICES leaves visible."""

    def __init__(self, index: int, give_up: threading.Event) -> None:
        import torch

        torch.cuda.set_device(index)
        self.device = torch.device("cuda", index)
        self._give_up = give_up
        self._streams: dict[str, Any] = {}
        self._aborts: dict[Any, threading.Thread] = {}
        self._aborting = threading.Lock()
        self._warm_up()
        self.cycles_per_ns = self._clock_rate()

    def handle(self, name: str) -> Any:
        """The CUDA stream of that name. Kept across jobs, and with it the allocator's pool."""
        import torch

        if name not in self._streams:
            self._streams[name] = torch.cuda.Stream(self.device)
        return self._streams[name]

    def connect(self, spec: CommunicatorSpec, store: Any, index: int) -> Any:
        """The first use of an NCCL group makes the communicator and is a rendezvous: here, outside of any journal."""
        import torch
        from torch.distributed import ProcessGroupNCCL

        options = ProcessGroupNCCL.Options()
        options._timeout = TIMEOUT
        options.global_ranks_in_group = list(spec.ranks)
        options.group_name = spec.name
        group = Group(spec, ProcessGroupNCCL(store, index, len(spec.ranks), options))
        stream = self.handle("main")
        with torch.cuda.stream(stream):
            for op, root in (("all_reduce", None), ("broadcast", spec.ranks[0])):
                ones = torch.ones(1, dtype=torch.int32, device=self.device)
                group.issue(Issue(op, 1, "int32", root, 0, False), ones, asynchronous=False)
        Patience(self._give_up, polls=True).until(_mark(stream).query)
        return group.process_group

    def stream(self, rank: RealRank, name: str) -> RealStream:
        return CudaStream(rank, name, self)

    def communicator(self, rank: RealRank, group: Group) -> DeviceCommunicator:
        return CudaCommunicator(rank, group)

    def abort(self, process_groups: Iterable[Any]) -> None:
        with self._aborting:
            for process_group in process_groups:
                if process_group not in self._aborts:
                    thread = threading.Thread(target=process_group.abort, name="abort", daemon=True)
                    self._aborts[process_group] = thread
                    thread.start()

    def is_idle(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        try:
            marks = [_mark(stream) for stream in self._streams.values()]
            while not all(mark.query() for mark in marks) or any(thread.is_alive() for thread in self._aborts.values()):
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.005)
        except RuntimeError:  # an error of CUDA that stays with the process
            return False
        return True

    def versions(self) -> dict[str, str]:
        import torch

        nccl = ".".join(str(part) for part in torch.cuda.nccl.version())
        return {
            "torch": torch.__version__,
            "numpy": np.__version__,
            "cuda": str(torch.version.cuda),
            "nccl": nccl,
            "gpu": torch.cuda.get_device_name(self.device),
        }

    def _warm_up(self) -> None:
        """Let the allocators take memory now. Taking it may wait for the device, and a rank that waits there while a
        peer waits for it hangs where the protocol does not.
        """
        import torch

        stream = self.handle("main")
        with torch.cuda.stream(stream):
            held = [torch.zeros(size, dtype=torch.uint8, device=self.device) for size in (64 << 20, *[1 << 19] * 16)]
            pinned = [torch.empty(1 << power, dtype=torch.uint8, pin_memory=True) for power in range(2, 21)]
            for block in pinned:
                block.copy_(held[0][: block.numel()], non_blocking=True)
        stream.synchronize()

    def _clock_rate(self) -> float:
        """Cycles per ns. The highest of a few: a GPU that was idle takes a while until its clock is up."""
        import torch

        rates, stream = [], self.handle("main")
        for _ in range(5):
            begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            with torch.cuda.stream(stream):
                begun.record(stream)
                torch.cuda._sleep(CALIBRATION_CYCLES)
                ended.record(stream)
            stream.synchronize()
            rates.append(CALIBRATION_CYCLES / (float(begun.elapsed_time(ended)) * 1e6))
        return max(rates)


class CudaStream(RealStream):
    """A CUDA stream, for one job."""

    def __init__(self, rank: RealRank, name: str, device: CudaDevice) -> None:
        super().__init__(rank.journal, name)
        self.rank = rank
        self.device = device
        self.handle = device.handle(name)

    def synchronize(self) -> None:
        self.rank.patience.until(_mark(self.handle).query)

    def close(self) -> None:
        pass

    def _alloc(self, shape: tuple[int, ...], dtype: DType, site: str, ordinal: int) -> Buffer:
        return CudaBuffer(self, shape, dtype, site, ordinal)

    def _launch(
        self, site: str, kernel: Kernel, buffers: Sequence[Buffer], args: tuple[Frozen, ...], cost: int | None
    ) -> None:
        import torch

        tensors = [_tensor(buffer) for buffer in buffers]
        with torch.cuda.stream(self.handle):
            try:
                kernel(*tensors, *args)
            except Exception as error:
                raise KernelError(
                    kernel.__qualname__, self.rank.rank, site, self.journal.last_ordinal(site), error
                ) from error

    def _spin(self, ns: int) -> None:
        import torch

        with torch.cuda.stream(self.handle):
            torch.cuda._sleep(int(ns * self.device.cycles_per_ns))


class CudaBuffer(JournaledBuffer):
    """A tensor on the device, of its stream's pool."""

    def __init__(self, stream: CudaStream, shape: tuple[int, ...], dtype: DType, site: str, ordinal: int) -> None:
        import torch

        super().__init__(stream, shape, dtype, site, ordinal)
        self._stream = stream
        with torch.cuda.stream(stream.handle):
            self.tensor = torch.empty(shape, dtype=getattr(torch, dtype), device=stream.device.device)

    def _copy(self, delay_ns: int) -> Outcome:
        import torch

        stream = self._stream
        if delay_ns:
            stream._spin(delay_ns)
        with torch.cuda.stream(stream.handle):
            pinned = torch.empty(self.shape, dtype=getattr(torch, self.dtype), pin_memory=True)
            pinned.copy_(_tensor(self), non_blocking=True)
        mark = _mark(stream.handle)

        def outcome() -> Generator[Any, Any, HostArray]:
            stream.rank.patience.until(mark.query)
            copy: HostArray = pinned.numpy().copy()
            return copy
            yield

        return outcome

    def _release(self) -> None:
        self.tensor = None


class CudaCommunicator(JournaledDeviceCommunicator):
    """Collectives over NCCL, on the stream that is named."""

    def __init__(self, rank: RealRank, group: Group) -> None:
        super().__init__(rank.journal, group.spec)
        self._patience = rank.patience
        self._group = group
        self._seq = 0

    def _put(self, issues: list[Issue], buffer: Buffer, stream: Stream) -> None:
        import torch

        assert isinstance(stream, CudaStream), f"a stream of this backend is needed, not a {type(stream).__name__}"
        flat = _tensor(buffer).view(-1)
        for issue in issues:
            self._patience.check()  # a host that never waits has to hear of it somewhere
            if issue.delay_ns:
                stream._spin(issue.delay_ns)
            with torch.cuda.stream(stream.handle):
                try:
                    self._issue(issue, flat)
                except RuntimeError as error:
                    if self._patience.give_up.is_set():  # the communicator was aborted under this call
                        raise Unfinished from error
                    raise CollectiveError(self.name, self._seq, self.journal.rank, issue, error) from error
            self._seq += 1

    def _issue(self, issue: Issue, flat: Any) -> None:
        if not issue.altered:
            self._group.issue(issue, flat, asynchronous=False)
            return
        wire, size = resized_tensor(flat, issue)
        self._group.issue(issue, wire, asynchronous=False)
        flat[:size].copy_(wire[:size])


def _mark(stream: Any) -> Any:
    """An event behind all that is on the stream now."""
    import torch

    mark = torch.cuda.Event()
    mark.record(stream)
    return mark


def _tensor(buffer: Buffer) -> Any:
    assert isinstance(buffer, CudaBuffer), f"a buffer of this backend is needed, not a {type(buffer).__name__}"
    if buffer.tensor is None:
        raise RuntimeError("a buffer was used after it was freed: its memory may hold something else by now")
    return buffer.tensor
