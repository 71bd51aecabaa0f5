"""A CUDA device for the NCCL backend: its streams, its clock, and how a worker makes it usable again after a failed
job.

A stream is a CUDA stream that torch's caching allocator knows (`cuda_streams`). The worker keeps one for each name
across jobs, and with it the allocator's pool.

The host never blocks inside CUDA. It polls, and checks whether the parent has given up the run. If so, the worker
aborts the communicators, each from a separate thread. An abort ends the kernels of its communicator at once, even those
of a graph. But an abort may wait for another one that occupies the stream, and for graphs that captured operations of
its communicator. So afterwards the worker polls an event on each stream to see whether the device is idle. If it is,
the worker drops the graphs, and the aborts end. If not, the process has to leave. A stream that waits for a flag is
released first.

Each host thread of a program has to select its device. Threads poll for device work in CUDA's relaxed capture mode:
CUDA then does not treat a poll as a forbidden call within another thread's capture. cuBLAS has a workspace per handle
and stream, and a handle per thread. After a job with threads, the backend frees all these workspaces.

    python -m pytest -m gpu          (needs GPUs; CI runs cpu.py in its place)
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from dpsim.backend.calls.graphs import JournaledGraph
from dpsim.backend.memory.pools import GraphPool
from dpsim.contract.interface import DeviceCommunicator
from dpsim.contract.world import CommunicatorSpec, World
from real.communicators import Group
from real.cuda_calls import CudaCalls, Relaxed, mark_on
from real.cuda_fused import communicator_class, stream_class
from real.cuda_graphs import CudaGraph
from real.nccl_calls import connect_nccl
from real.rank import RealDevice, RealRank, RealStream
from real.waiting import Patience

CALIBRATION_CYCLES = 20_000_000
"""About 10 ms. The duration of such a spin gives the rate of the clock by which `torch.cuda._sleep` counts."""

STREAMS = 4
"""The number of streams that a worker creates at its start, for any names."""


class CudaDevice(RealDevice):
    """One GPU: the `index`th of those that CUDA_VISIBLE_DEVICES leaves visible."""

    def __init__(self, index: int, give_up: threading.Event) -> None:
        import torch

        torch.cuda.set_device(index)
        self.device = torch.device("cuda", index)
        self._calls = CudaCalls(self.device)
        self._give_up = give_up
        self._streams: dict[str, Any] = {}
        self._aborts: dict[Any, threading.Thread] = {}
        self._aborting = threading.Lock()
        self.graphs: list[Any] = []
        self._had_threads = False
        self._spare = [self._warm_stream() for _ in range(STREAMS)]
        self.cycles_per_ns = 0.0

    def handle(self, name: str) -> Any:
        """Returns the CUDA stream with that name, in this job. The worker keeps streams across jobs, and with them the
        allocator's pools.
        """
        if name not in self._streams:
            self._streams[name] = self._spare.pop() if self._spare else self._warm_stream()
        return self._streams[name]

    def connect(self, spec: CommunicatorSpec, store: Any, index: int) -> Any:
        """Creates an NCCL group. Its first use creates the communicator and is a rendezvous, so it happens here, before
        any record.
        """
        import torch

        stream = self.handle("main")
        with torch.cuda.stream(stream):
            process_group = connect_nccl(spec, store, index, self.device)
        Patience(self._give_up, polls=True).until(mark_on(stream).query)
        return process_group

    def prepare(self, world: World) -> None:
        """Frees the streams for the names of the next job. Torch has 32 streams in all, and then returns used ones
        again. So without this, two names of a long session could share one stream, and a wait for one would wait for
        the other.

        Measures the rate of the clock, if a delay may spin. Not at the worker's start, since a leaving worker may still
        occupy the device.
        """
        self._spare += reversed(self._streams.values())
        self._streams.clear()
        if world.delays and not self.cycles_per_ns:
            self.cycles_per_ns = self._clock_rate()

    def stream(self, rank: RealRank, name: str) -> RealStream:
        return stream_class(rank.journal)(rank, name, self.handle(name), self._calls, self.cycles_per_ns)

    def communicator(self, rank: RealRank, group: Group) -> DeviceCommunicator:
        return communicator_class(rank.journal)(rank, group)

    def graph(self, rank: RealRank, name: str, pool: GraphPool) -> JournaledGraph:
        return CudaGraph(rank, name, pool, self)

    @contextmanager
    def thread(self) -> Iterator[None]:
        import torch

        torch.cuda.set_device(self.device)  # a new thread uses device 0
        self._had_threads = True
        yield

    def polling(self) -> AbstractContextManager[object]:
        return Relaxed()

    def clear(self) -> None:
        self._calls.words.give_back()
        if not self.spoiled:  # then torch's allocators may still refer to the failed graphs
            try:
                self._drop_graphs()
                self._drop_workspaces()
            except RuntimeError:  # an error of CUDA that stays with the process
                self.spoiled = True

    def _drop_graphs(self) -> None:
        import torch

        if not self.graphs:
            return
        for graph in self.graphs:
            graph.reset()
        self.graphs.clear()
        gc.collect()  # buffers of the job in reference cycles
        torch.cuda.empty_cache()
        for stream in (*self._streams.values(), *self._spare):
            with torch.cuda.stream(stream):
                self._take_memory()
            stream.synchronize()

    def _drop_workspaces(self) -> None:
        """Nothing runs any more, and no graph contains the addresses of the cuBLAS workspaces."""
        import torch

        if self._had_threads:
            self._had_threads = False
            torch._C._cuda_clearCublasWorkspaces()

    def abort(self, process_groups: Iterable[Any]) -> None:
        with self._aborting:
            for process_group in process_groups:
                if process_group not in self._aborts:
                    thread = threading.Thread(target=process_group.abort, name="abort", daemon=True)
                    self._aborts[process_group] = thread
                    thread.start()

    def is_idle(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        if self.spoiled:
            return False
        self._calls.words.let_go()
        try:
            marks = [mark_on(stream) for stream in self._streams.values()]
            if not come_true(lambda: all(mark.query() for mark in marks), deadline):
                return False
            self._drop_graphs()  # an abort waits for graphs that captured operations of its communicator
            self._drop_workspaces()
            self._calls.words.give_back()
        except RuntimeError:  # an error of CUDA that stays with the process
            return False
        return come_true(lambda: not any(thread.is_alive() for thread in self._aborts.values()), deadline)

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

    def _warm_stream(self) -> Any:
        """Creates a stream with memory in its pool and in the pool of pinned memory. An allocation may wait for the
        device. A rank that waits there while a peer waits for it would hang where the protocol does not. So the worker
        allocates the memory in advance, for as many streams as a program is likely to use.
        """
        import torch

        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream):
            held = self._take_memory()
            pinned = [torch.empty(1 << power, dtype=torch.uint8, pin_memory=True) for power in range(2, 21)]
            for block in pinned:
                block.copy_(held[0][: block.numel()], non_blocking=True)
        stream.synchronize()
        return stream

    def _take_memory(self) -> list[Any]:
        import torch

        return [torch.zeros(size, dtype=torch.uint8, device=self.device) for size in (64 << 20, *[1 << 19] * 16)]

    def _clock_rate(self) -> float:
        """Returns cycles per ns: the highest measurement, since an idle GPU takes a while to raise its clock."""
        import torch

        rates, stream = [], self.handle("main")
        for _ in range(5):
            started, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            with torch.cuda.stream(stream):
                started.record(stream)
                torch.cuda._sleep(CALIBRATION_CYCLES)
                ended.record(stream)
            stream.synchronize()
            rates.append(CALIBRATION_CYCLES / (float(started.elapsed_time(ended)) * 1e6))
        return max(rates)


def come_true(condition: Callable[[], bool], deadline: float) -> bool:
    """Polls a condition until that time of the monotonic clock. Returns whether it became true."""
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
