"""CUDA graphs of one rank, for one job: the device itself captures and replays the calls.

During a capture, the host makes its calls of CUDA as always, and CUDA stores them. `dpsim.backend.graphs.capture`
writes the records and refuses forbidden calls. A replay is one launch, after the last operation of each communicator in
the graph. NCCL needs one order of operations per communicator, even for graphs.

Each graph begins with an addition to a counter on the device. So tests can read how often the device ran the graph,
independent of the host's count. (At the graph's end, after a collective, the addition would take 2.4 us instead of 1.5;
as a parallel branch, 17.)

    graph.replays       the host's count
    graph.runs()        the device's count; waits for the device
    graph.nodes         nodes of the CUDA graph, including the addition

If the program abandons a capture, or the backend refuses it, the backend still ends it with its branches joined. The
device is then as before. If CUDA itself invalidates the capture, for example because a kernel waited for the device,
torch's allocators remain in the middle of a capture. The job can continue; afterwards the pool replaces the worker
process (`Device.spoiled`). The worker destroys graphs only after their job has ended. If it aborts a communicator, the
abort returns only after the graphs that captured operations of the communicator are destroyed (`real/cuda.py`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Protocol

from dpsim.backend.calls.graphs import JournaledGraph
from dpsim.backend.calls.streams import JournaledEvent, JournaledStream
from dpsim.backend.graphs.capture import GraphCapture
from dpsim.backend.graphs.kept import KeptCollective, KeptTransfers
from dpsim.backend.memory.buffers import of_this_backend
from dpsim.backend.memory.pools import GraphPool
from dpsim.contract.ops import CaptureMode
from real.cuda_errors import refuse_captured
from real.cuda_groups import CudaCommunicator
from real.cuda_order import CommunicatorOrder
from real.cuda_streams import CudaEvent, CudaStream
from real.rank import RealRank


class GraphDevice(Protocol):
    """The methods of a device that a graph uses."""

    spoiled: bool
    graphs: list[Any]
    """All graphs of this job."""


class CudaGraph(JournaledGraph):
    """A CUDA graph. `nodes`: its number of nodes, 0 before the capture."""

    __slots__ = ("_counter", "_cuda", "_keeper", "_on", "_orders", "_used", "nodes")

    captures = True

    def __init__(self, rank: RealRank, name: str, pool: GraphPool, keeper: GraphDevice) -> None:
        super().__init__(rank, name, pool)
        self.nodes = 0
        self._keeper = keeper
        self._cuda: Any = None
        self._counter: Any = None
        self._on: CudaStream
        self._used: list[CudaCommunicator] | None = None
        self._orders: list[CommunicatorOrder] = []

    def runs(self) -> int:
        """Returns how often the device has finished it; waits for the device. 0 before the capture."""
        if self._last is not None:
            of_this_backend(self._last[0], CudaStream).enter()
        return 0 if self._counter is None else int(self._counter.item())

    def _begin(self, stream: JournaledStream, mode: CaptureMode) -> None:
        on: CudaStream = of_this_backend(stream, CudaStream)
        calls = on.calls
        on.enter()
        self._on = on
        self._counter = calls.empty(1, dtype=calls.dtypes["int64"], device=calls.device).zero_()
        if self.pool.handle is None:
            self.pool.handle = calls.pool()
        for communicator in on.rank.devices.values():
            of_this_backend(communicator, CudaCommunicator).begin_capture()
        cuda = calls.graph()
        self._keeper.graphs.append(cuda)
        try:
            cuda.capture_begin(pool=self.pool.handle, capture_error_mode=mode)
        except RuntimeError as error:
            self._spoil()
            refuse_captured(self.journal, error, f"{self.name}: the capture does not begin")
            raise
        self._cuda = cuda
        self._counter.add_(1)

    def _end(self) -> None:
        on, cuda = self._on, self._cuda
        on.enter()
        try:
            cuda.capture_end()
            self.nodes = on.calls.nodes(cuda.raw_cuda_graph())
            cuda.instantiate()
        except RuntimeError as error:
            refuse_captured(self.journal, error, f"{self.name}: the device has no graph of it")
            raise

    def _abandon(self) -> None:
        """Ends the capture in any case, and raises nothing. It is also called after an `_end` that failed. Otherwise
        the streams would stay captured, even if CUDA has invalidated the capture and no branch can be joined.
        """
        on, cuda, self._cuda = self._on, self._cuda, None
        self.nodes = 0
        with suppress(RuntimeError):
            for other in on.rank.streams.values():
                if other is not on and other.capture is on.capture:
                    on.handle.wait_event(other.mark())
        try:
            on.enter()
            cuda.capture_end()
        except RuntimeError:
            self._spoil()

    def _spoil(self) -> None:
        """CUDA has invalidated a capture, so torch's memory pool of the graph cannot be used again."""
        self._keeper.spoiled = True
        self.pool.handle = None

    def _passed(self, stream: JournaledStream, number: int) -> JournaledEvent:
        return Launched(of_this_backend(stream, CudaStream), number)

    def _launch(self, stream: JournaledStream, kept: GraphCapture) -> None:
        on: CudaStream = of_this_backend(stream, CudaStream)
        used = self._used
        if used is None:
            used = self._used = communicators_of(kept)
            self._orders = [communicator.eager for communicator in used]
        if on.owed == self._orders:
            on.owed = []  # the event of this replay is recorded later, after it
        for communicator in used:
            communicator._begin(on, 0)
        if not used:
            on.rank.patience.check()  # a host that never waits must get the error here
            if on.owed:  # a graph may wait for a flag
                on.pay()
            on.enter()
        self._cuda.replay()
        for communicator in used:
            communicator.owe(on)
        if used:
            on.owed = self._orders


class Launched(CudaEvent):
    """Replaces the event after a replay, without recording one. CUDA starts a graph launch only after earlier launches
    of that graph have ended, on any stream. A wait for an unrecorded event has no effect.
    """

    __slots__ = ()

    def __init__(self, stream: CudaStream, number: int) -> None:
        JournaledEvent.__init__(self, stream.journal, number)
        self._rank = stream.rank
        self.mark = stream.calls.event()
        self.behind = stream.behind


def communicators_of(kept: GraphCapture) -> list[CudaCommunicator]:
    """Returns the communicators whose operations the graph contains."""
    calls = [call for call in kept.calls if isinstance(call, KeptCollective | KeptTransfers)]
    return [of_this_backend(one, CudaCommunicator) for one in {call.communicator: None for call in calls}]
