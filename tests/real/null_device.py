"""A GPU that does nothing, for tests of what the host does at each op. Its memory is main memory, its streams and
events only record the calls, and its process groups return at once.

    rank = null_rank(calls)
    rank.stream("main").launch("fill", fill, writes=[buffer])
    calls.told                                  # ["main is current", ...]
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, cast

from dpsim.backend.calls.graphs import JournaledGraph
from dpsim.backend.memory.pools import GraphPool
from dpsim.contract.interface import DeviceCommunicator
from dpsim.contract.ops import DTYPES, RawRecord
from dpsim.contract.world import CommunicatorSpec
from real.belongings import Belongings, lone_rank
from real.calls import torch_dtype
from real.communicators import Group
from real.cuda_calls import CudaCalls, Landings
from real.cuda_flags import Words
from real.cuda_fused import communicator_class, stream_class
from real.cuda_graphs import CudaGraph
from real.cuda_groups import CudaCommunicator
from real.cuda_streams import CudaStream
from real.mail import Mail
from real.rank import RealDevice, RealRank, RealStream
from real.threads import threaded_rank
from tests.real.worlds import make_world

NO_STREAM = 0


class NullStream:
    """A stream. `cuda_stream`: its number."""

    def __init__(self, calls: NullCalls, name: str, number: int) -> None:
        self.calls = calls
        self.name = name
        self.cuda_stream = number

    def wait_event(self, event: NullEvent) -> None:
        self.calls.told.append(f"{self.name} waits for event {event.number} on {event.stream}")


class NullEvent:
    """An event, which has passed once it is recorded, unless `calls.passed` returns False."""

    def __init__(self, calls: NullCalls) -> None:
        self.calls = calls
        self.number = calls.events
        self.stream = ""
        calls.events += 1

    def record(self, stream: NullStream) -> None:
        self.stream = stream.name
        self.calls.told.append(f"event {self.number} on {stream.name}")

    def query(self) -> bool:
        return self.calls.passed()


class NullCalls(CudaCalls):
    """The calls of a device in place of torch. `told`: the calls of its streams, events and process groups."""

    __slots__ = ("blocks", "events", "fails", "now", "passed", "pools", "told")

    def __init__(self) -> None:
        import torch

        self.told: list[str] = []
        self.events = 0
        self.blocks = 0
        self.now = NO_STREAM
        self.passed: Callable[[], bool] = lambda: True
        self.device, self.index = "cpu", 0
        self.current = lambda index: self.now
        self.set_current = self._set_current
        self.empty = self._empty
        self.event = lambda: NullEvent(self)
        self.dtypes = {name: torch_dtype(name) for name in (*DTYPES, "uint8")}
        self.landings = Landings()
        self.alias = lambda tensor: tensor
        self.graph = lambda: NullGraph(self)
        self.pools = 0
        self.pool = self._pool
        self.nodes = lambda graph: graph
        self.words = Words(torch.zeros(2, dtype=torch.int32))
        self.wait_for_word = self._wait_for_word
        self.fails: dict[str, Exception] = {}
        """The exception that a call of a graph raises, by the name of the call."""

    def _wait_for_word(self, stream: int, address: int) -> None:
        self.told.append(f"{stream} waits for the word at {address - self.words.first}")

    def _pool(self) -> tuple[int, int]:
        self.pools += 1
        return 0, self.pools

    def _set_current(self, stream: NullStream) -> None:
        self.now = stream.cuda_stream
        self.told.append(f"{stream.name} is current")

    def _empty(self, shape: Any, dtype: Any, device: str = "", pin_memory: bool = False) -> Any:
        import torch

        self.blocks += pin_memory
        return torch.zeros(shape, dtype=dtype)


class NullGraph:
    """A graph that records nothing: its capture runs the work at once, and its replay does nothing."""

    def __init__(self, calls: NullCalls) -> None:
        self.calls = calls

    def capture_begin(self, pool: tuple[int, int], capture_error_mode: str) -> None:
        self._call("begins", f"pool {pool[1]}, {capture_error_mode}")

    def capture_end(self) -> None:
        self._call("ends")

    def instantiate(self) -> None:
        self._call("is made")

    def replay(self) -> None:
        self._call("replays")

    def reset(self) -> None:
        self._call("is dropped")

    def raw_cuda_graph(self) -> int:
        return 7

    def _call(self, what: str, more: str = "") -> None:
        self.calls.told.append(f"graph {what} on {self.calls.now}" + f" ({more})" * bool(more))
        if what in self.calls.fails:
            raise self.calls.fails[what]


class NullGroup:
    """A process group whose calls are over when they return. `works`: they return something to wait for."""

    def __init__(self, calls: NullCalls, works: bool) -> None:
        self.calls = calls
        self.work = NullWork() if works else None
        self.given: list[Any] = []
        self.fails: Callable[[], None] | None = None
        """Runs in a call that fails."""

    def rank(self) -> int:
        return 0

    def allreduce(self, tensors: list[Any], options: Any) -> Any:
        return self._call("allreduce", tensors, options)

    def broadcast(self, tensors: list[Any], options: Any) -> Any:
        return self._call("broadcast", tensors, options)

    def reduce(self, tensors: list[Any], options: Any) -> Any:
        return self._call("reduce", tensors, options)

    def gather(self, outputs: list[list[Any]], inputs: list[Any], options: Any) -> Any:
        return self._call("gather", [*inputs, *(one for row in outputs for one in row)], options)

    def scatter(self, outputs: list[Any], inputs: list[list[Any]], options: Any) -> Any:
        return self._call("scatter", [*outputs, *(one for row in inputs for one in row)], options)

    def _allgather_base(self, output: Any, source: Any, options: Any) -> Any:
        output.view(-1, source.numel())[...] = source
        return self._call("all_gather", [output, source], options)

    def _call(self, name: str, tensors: list[Any], options: Any) -> Any:
        if self.fails is not None:
            self.fails()
            raise RuntimeError("it fails")
        self.given.append((tensors, options))
        self.calls.told.append(f"{name} on {self.calls.now}")
        return self.work


class NullWork:
    """A work that is already done."""

    def is_completed(self) -> bool:
        return True

    def wait(self, timeout: object = None) -> bool:
        return True


class NullDevice(RealDevice):
    """A device whose streams are numbered from 1, in the order of their first use. `fused`: ops are those of
    `cuda_fused` wherever possible; otherwise none is.
    """

    def __init__(self, calls: NullCalls, fused: bool) -> None:
        self.calls = calls
        self.fused = fused
        self.handles: dict[str, NullStream] = {}
        self.graphs: list[Any] = []

    def connect(self, spec: CommunicatorSpec, store: Any, index: int) -> Any:
        raise AssertionError("the null device has no peers to connect to")

    def stream(self, rank: RealRank, name: str) -> RealStream:
        handle = self.handles.setdefault(name, NullStream(self.calls, name, len(self.handles) + 1))
        kind = stream_class(rank.journal) if self.fused else CudaStream
        return kind(rank, name, handle, self.calls, 1.0)

    def communicator(self, rank: RealRank, group: Group) -> DeviceCommunicator:
        kind = communicator_class(rank.journal) if self.fused else CudaCommunicator
        return kind(rank, group)

    def graph(self, rank: RealRank, name: str, pool: GraphPool) -> JournaledGraph:
        return CudaGraph(rank, name, pool, self)

    def clear(self) -> None:
        pass

    def abort(self, process_groups: Iterable[Any]) -> None:
        pass

    def is_idle(self, seconds: float) -> bool:
        return True

    def versions(self) -> dict[str, str]:
        return {}


def null_rank(
    calls: NullCalls,
    sink: Callable[[RawRecord], None] = lambda record: None,
    fused: bool = True,
    threaded: bool = False,
    aborts: bool = False,
    **changes: Any,
) -> RealRank:
    """Returns rank 0 of two on a device that does nothing. `aborts`: its program may abort. `changes`: changes of its
    world.
    """
    world = make_world(**changes)
    groups = [Group(spec, NullGroup(calls, works=spec.domain == "host")) for spec in world.communicators]
    never = threading.Event(), threading.Event()
    of = Belongings(NullDevice(calls, fused), groups, cast(Mail, None), *never, polls=True, aborts=aborts)
    return (threaded_rank if threaded else lone_rank)(0, world, sink, of)
