"""A CUDA device, for the NCCL backend: its streams, its clock, and how it is made usable again.

A stream is a CUDA stream that torch's caching allocator knows (`cuda_streams`). The worker keeps one for each name,
across jobs, and with it the allocator's pool.

The host never waits inside CUDA, but polls and looks whether the run has been given up. When it has, the communicators
are aborted, each from a thread of its own: an abort ends the kernels of its communicator at once, but one may wait for
another that holds the stream, and one that is stuck in a graph replay never returns. Afterwards an event on each
stream shows whether the device is idle; if not, the process has to go.

    python -m pytest -m gpu          (needs GPUs; CI runs cpu.py in its place)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from dpsim.interface import DeviceCommunicator
from dpsim.world import CommunicatorSpec
from real.communicators import Group
from real.cuda_calls import CudaCalls, mark_on
from real.cuda_streams import CudaCommunicator, CudaStream
from real.nccl_calls import connect_nccl
from real.rank import Device, RealRank, RealStream
from real.waiting import Patience

CALIBRATION_CYCLES = 20_000_000
"""About 10 ms: how long such a spin takes gives the rate of the clock that `torch.cuda._sleep` counts in."""

STREAMS = 4
"""So many are made beforehand, for whatever names."""


class CudaDevice(Device):
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
        self._spare = [self._warm_stream() for _ in range(STREAMS)]
        self.cycles_per_ns = self._clock_rate()

    def handle(self, name: str) -> Any:
        """The CUDA stream of that name. Kept across jobs, and with it the allocator's pool."""
        if name not in self._streams:
            self._streams[name] = self._spare.pop() if self._spare else self._warm_stream()
        return self._streams[name]

    def connect(self, spec: CommunicatorSpec, store: Any, index: int) -> Any:
        """The first use of an NCCL group makes the communicator and is a rendezvous: here, outside of any journal."""
        import torch

        stream = self.handle("main")
        with torch.cuda.stream(stream):
            process_group = connect_nccl(spec, store, index, self.device)
        Patience(self._give_up, polls=True).until(mark_on(stream).query)
        return process_group

    def stream(self, rank: RealRank, name: str) -> RealStream:
        return CudaStream(rank, name, self.handle(name), self._calls, self.cycles_per_ns)

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
            marks = [mark_on(stream) for stream in self._streams.values()]
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

    def _warm_stream(self) -> Any:
        """A stream with memory in its pool, and in that of pinned memory. Taking memory may wait for the device, and a
        rank that waits there while a peer waits for it hangs where the protocol does not: so it is taken beforehand,
        for as many streams as a program is likely to have.
        """
        import torch

        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream):
            held = [torch.zeros(size, dtype=torch.uint8, device=self.device) for size in (64 << 20, *[1 << 19] * 16)]
            pinned = [torch.empty(1 << power, dtype=torch.uint8, pin_memory=True) for power in range(2, 21)]
            for block in pinned:
                block.copy_(held[0][: block.numel()], non_blocking=True)
        stream.synchronize()
        return stream

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
