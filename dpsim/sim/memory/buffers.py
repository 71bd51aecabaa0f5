"""Buffers of the simulated machine. They are views into the segments of a caching allocator. So a program that reuses
memory too early gets wrong numbers, as on a real device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsim.backend.hosts.work import Outcome
from dpsim.backend.memory.buffers import JournaledBuffer, OwnStream, of_this_backend
from dpsim.contract.dtypes import CARRIERS, NUMPY
from dpsim.contract.interface import Buffer, HostArray, Stream
from dpsim.contract.ops import DTYPES, SMALL_BLOCK, DType
from dpsim.contract.schedule import Footprint
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.chain import Chain
from dpsim.sim.hosts.host import Host
from dpsim.sim.memory.allocator import ROUND, Block, Passed
from dpsim.sim.memory.device import Device


class DeviceStream(OwnStream):
    """The fields of a stream that a buffer uses: the host that issues to it, its device, and its chain of ops."""

    __slots__ = ()

    host: Host
    device: Device
    chain: Chain


class SimBuffer(JournaledBuffer):
    """A buffer: a block of the device's allocator, or a view into one."""

    __slots__ = ("_users", "array", "block", "flat", "on", "readable")

    def __init__(
        self, stream: DeviceStream, shape: tuple[int, ...], dtype: DType, whole: SimBuffer | None = None
    ) -> None:
        super().__init__(stream, shape, dtype)
        self.on = stream
        if whole is None:
            allocator = stream.device.allocator
            self.block: Block = allocator.alloc(stream.home, max(self.count * DTYPES[dtype], 1))
            self.place = self.block.place
            self.array: HostArray = allocator.array(self.block, dtype, shape)
            self.flat = self.array if len(shape) == 1 else self.array.reshape(-1)
            if dtype in CARRIERS:
                self.flat = self.flat.view(NUMPY[dtype])
        else:
            self.block, self.place = whole.block, whole.place
        self._users: list[Chain] = []

    readable: HostArray
    """A read-only view for kernels that read the buffer. The first use creates it."""

    def _view(self, start: int, stop: int) -> JournaledBuffer:
        piece = SimBuffer(self.on, (stop - start, *self.shape[1:]), self.dtype, self)
        piece.array = self.array[start:stop]
        piece.flat = piece.array.reshape(-1)
        if self.dtype in CARRIERS:
            piece.flat = piece.flat.view(NUMPY[self.dtype])
        return piece

    def _copy(self, stream: Stream) -> Outcome:
        on: DeviceStream = of_this_backend(stream, type(self.on))
        host, machine = on.host, on.host.machine
        if on.chain.queue is not None:
            on.chain.make_room(host)
        copy = self.array.copy if self.dtype not in CARRIERS else self._copied
        op = host.op(host.address(), on.device.costs.read, copy)
        if machine.memory:
            op.footprint = (*op.touches(), *touched([self], []))
        machine.mark(op)
        on.chain.append(op)
        if on.chain.queue is not None:
            on.chain.queue.append(op)
        return lambda: host.wait_for_device(op)

    def _copied(self) -> HostArray:
        """Returns a copy in the host's type, for element types that numpy lacks."""
        return self.array.copy().view(NUMPY[self.dtype])

    def _hold(self, stream: Stream) -> None:
        user: Chain = of_this_backend(stream, type(self.on)).chain
        if user not in self._users:
            self._users.append(user)

    def _release(self) -> None:
        if self.held is not None:
            self.on.device.allocator.free(self.block)
            return
        host = self.on.host
        passed = [_passed(host, point) for user in self._users if (point := user.end(host)) is not None]
        self.on.device.allocator.free(self.block, passed)


def _passed(host: Host, point: Op) -> Passed:
    """Untimed, the host knows only what it has learned."""
    if host.machine.timed:
        return lambda: point.at >= 0
    mark = host.machine.mark(point)
    return lambda: bool(host.seen_marks & mark)


def array_of(buffer: Buffer) -> HostArray:
    array: HostArray = of_this_backend(buffer, SimBuffer).array
    return array


def readable_of(buffer: Buffer) -> HostArray:
    """Returns a read-only view of the buffer's memory, for kernels that read it."""
    own: SimBuffer = of_this_backend(buffer, SimBuffer)
    try:
        return own.readable
    except AttributeError:  # a method `__getattr__` would slow down each access to any field
        array = own.readable = own.array.view()
        array.flags.writeable = False
        return array


def flat_of(buffer: Buffer) -> HostArray:
    """Returns the buffer's memory in one dimension."""
    flat: HostArray = buffer.flat if type(buffer) is SimBuffer else of_this_backend(buffer, SimBuffer).flat
    return flat


def touched(reads: Sequence[Buffer], writes: Sequence[Buffer]) -> Footprint:
    """Returns pieces of segments as resources. Buffers that share memory share a piece; close neighbours may, too."""
    return tuple([(piece, mode) for buffers, mode in ((reads, "r"), (writes, "w")) for piece in _pieces(buffers)])


def _pieces(buffers: Sequence[Buffer]) -> list[Any]:
    pieces = []
    for buffer in buffers:
        own: SimBuffer = of_this_backend(buffer, SimBuffer)
        assert own.place is not None
        size, (segment, start, _), (_, begin, end, *_) = DTYPES[own.dtype], own.place, own.ref
        grain = ROUND if own.block.pool.small else SMALL_BLOCK
        first, last = start + begin * size, start + end * size - 1
        rank = own.on.device.rank
        pieces += [("memory", rank, segment, at) for at in range(first // grain, last // grain + 1)]
    return pieces
