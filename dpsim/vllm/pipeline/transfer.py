"""The transfer of hidden states from one pipeline stage to the next (specification 7.2).

In each step with tokens, a stage sends a description over host memory, then the tensors over the device. It is a size,
then numbers for names, types and shapes. The next stage posts receives in this order, and waits before it reads them.

A stage has T tensor-parallel ranks. If T divides the number of elements of a tensor, each rank sends only its slice,
1/T of it. The ranks of the next stage gather the slices when they first read the tensor:

    rank 0   0 1 2 3   sends 0 1       rank 2   receives 0 1   all-gathers 0 1 2 3
    rank 1   0 1 2 3   sends 2 3       rank 3   receives 2 3   all-gathers 0 1 2 3

The description has the shapes of whole tensors. From these, both sides compute which tensors are sliced (invariant
I-PS-10), and the ranks of a stage which to gather, in which order (invariant I-PS-5). A stage describes an empty
tensor but does not send it.

The releases differ in what the sender waits for:

    0.14         everything is in the order of the main stream; the host waits until the receiver took its description
    source-002   tensors use separate streams; the next forward waits for them before it overwrites them (0.24)
    0.33         the host does not wait for the description at once either

A stage writes the buffers of a send again in its next step. `Transfer.begin` makes that step wait for the send
(invariant I-PS-3).
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dpsim.contract.interface import Buffer, Event, HostArray, Rank, Stream
from dpsim.contract.ops import DType


class Received(NamedTuple):
    """By name, perhaps incomplete. `sliced`: whole shapes. `ready`: behind the receives; None: on the main stream."""

    tensors: dict[str, Buffer]
    sliced: dict[str, tuple[int, ...]]
    ready: Event | None


class Transfer:
    """One rank's side of the transfers, as in 0.33. A step calls the methods in the order of this file.

    `tensor_parallel_size`: T, the ranks of a stage. A tensor is sliced along its first axis. Raises ValueError in the
    gather if T divides the elements but not this axis, as with the shape (3, 2) and T = 2.
    """

    def __init__(self, rank: Rank, tensor_parallel_size: int = 1) -> None:
        self.rank = rank
        self.main = rank.stream("main")
        self.host, self.device = rank.host("pp_cpu"), rank.device("pp")
        self.peers = rank.device("tp") if tensor_parallel_size > 1 else None
        self.tp_size, self.tp_index = (self.peers.size, self.peers.index) if self.peers is not None else (1, 0)
        ranks, stage = self.device.ranks, self.device.index
        self.before = ranks[stage - 1] if stage else None
        self.after = ranks[stage + 1] if stage + 1 < len(ranks) else None
        self.handles: list[Awaitable[HostArray]] = []  # of the step before, each to be awaited once
        self.sent: Event | None = None

    async def begin(self) -> None:
        """Wait for the sends of the step before, so that this step may overwrite their buffers. A step calls this
        first.
        """
        for handle in self.handles:
            await self.wait_handle(handle)
        self.handles = []
        if self.sent is not None:
            self.wait_sent(self.sent)
        self.sent = None

    async def wait_handle(self, handle: Awaitable[HostArray]) -> None:
        await handle

    def wait_sent(self, sent: Event) -> None:
        self.main.wait(sent)

    def parts(self, shape: tuple[int, ...]) -> int:
        """The number of slices of a tensor. Both sides compute it (invariant I-PS-10)."""
        elements = math.prod(shape)
        return self.tp_size if elements and elements % self.tp_size == 0 else 1

    # ---- from the stage before

    async def receive(self) -> Received:
        """Receive the description, and post the receives of the tensors."""
        assert self.before is not None
        size = await self.host.recv(1, "int64", self.before, site="size.receive")
        described = await self.host.recv(int(size[0]), "int32", self.before, site="description.receive")
        stream = self.receiving()
        if stream is not self.main:
            stream.wait_stream(self.main)  # new buffers may reuse memory that the main stream still uses
        tensors, sliced = {}, {}
        for name, dtype, shape in parse(described):
            comes, parts = shape, self.parts(shape)
            if parts > 1:
                sliced[name], comes = shape, (shape[0] // parts, *shape[1:])
            tensors[name] = stream.alloc(comes, dtype, f"{name}.received")
            if math.prod(comes):
                self.device.recv(tensors[name], self.before, stream, site=f"{name}.receive")
            if stream is not self.main:
                tensors[name].record_stream(self.main)
        return Received(tensors, sliced, None if stream is self.main else stream.record())

    def receiving(self) -> Stream:
        """The stream that receives tensors."""
        return self.rank.stream("pp_receive")

    def first_access(self, received: Received) -> dict[str, Buffer]:
        """Make the main stream wait for the tensors, and gather the slices. Returns the whole tensors, ready to read
        (invariant I-PS-4).
        """
        if received.ready is not None:
            self.wait_received(received.ready)
        whole = {name: self.gather(name, received) for name in self.gathered(received)}
        return received.tensors | whole

    def wait_received(self, ready: Event) -> None:
        self.main.wait(ready)

    def gathered(self, received: Received) -> list[str]:
        """The tensors to gather, in the described order (invariant I-PS-5)."""
        return list(received.sliced)

    def gather(self, name: str, received: Received) -> Buffer:
        """Gather a whole tensor from the slices that the ranks of this stage received."""
        assert self.peers is not None
        piece = received.tensors[name]
        whole = self.main.alloc(received.sliced[name], piece.dtype, f"{name}.gathered")
        self.peers.all_gather(whole, piece, self.main, site=f"{name}.gather")
        piece.free()
        return whole

    # ---- to the stage after

    async def send(self, tensors: Mapping[str, Buffer]) -> None:
        assert self.after is not None
        described = describe(tensors)
        size = np.array([len(described)], np.int64)
        self.handles += [self.send_on_host(size, "size.send"), self.send_on_host(described, "description.send")]
        await self.wait_for_description()
        stream = self.sending()
        if stream is not self.main:
            stream.wait_stream(self.main)
        for name, buffer in self.in_order(tensors):
            if math.prod(buffer.shape):
                self.device.send(self.own_slice(buffer), self.after, stream, site=f"{name}.send")
        self.sent = None if stream is self.main else stream.record()

    def send_on_host(self, array: HostArray, site: str) -> Awaitable[HostArray]:
        """Send an array over host memory. Returns the handle to await."""
        assert self.after is not None
        return self.host.send(array, self.after, site=site)

    async def wait_for_description(self) -> None:
        """Wait until the next stage has received the description. Release 0.33 does not wait."""

    def in_order(self, tensors: Mapping[str, Buffer]) -> Iterable[tuple[str, Buffer]]:
        """The tensors in the order of the sends, which is the described order."""
        return tensors.items()

    def own_slice(self, tensor: Buffer) -> Buffer:
        """The part of a tensor that this rank sends."""
        parts = self.parts(tensor.shape)
        rows = tensor.shape[0] // parts
        return tensor if parts == 1 else tensor.view(self.tp_index * rows, (self.tp_index + 1) * rows)

    def sending(self) -> Stream:
        """The stream that sends tensors."""
        return self.rank.stream("pp_send")


class WaitsForDescription(Transfer):
    """Up to 0.24: the host waits until the next stage has the description, but not for the tensors."""

    async def wait_for_description(self) -> None:
        for handle in self.handles:
            await self.wait_handle(handle)
        self.handles = []


class Blocking(WaitsForDescription):
    """Release 0.14: a stage also sends and receives tensors in the order of its main stream."""

    def receiving(self) -> Stream:
        return self.main

    def sending(self) -> Stream:
        return self.main


def describe(tensors: Mapping[str, Buffer]) -> HostArray:
    """Returns names, types and shapes as int32: the character codes of their text."""
    lines = (f"{name} {buffer.dtype} {' '.join(map(str, buffer.shape))}" for name, buffer in tensors.items())
    return np.frombuffer("\n".join(lines).encode(), np.uint8).astype(np.int32)


def parse(described: HostArray) -> list[tuple[str, DType, tuple[int, ...]]]:
    """Returns the names, types and shapes of a description: the reverse of `describe`."""
    found: list[tuple[str, Any, tuple[int, ...]]] = []
    for line in described.astype(np.uint8).tobytes().decode().splitlines():
        name, dtype, *shape = line.split()
        found.append((name, dtype, tuple(map(int, shape))))
    return found
