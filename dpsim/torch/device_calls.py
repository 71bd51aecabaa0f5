"""Makes the calls of a rank as NCCL does: each communicator has a stream, on which its calls run one after the other.

A send or receive outside of a batch runs on a communicator and a stream for that pair of ranks, as in torch's
ProcessGroupNCCL. `wait` reads the result, so it blocks the host. On hardware, `Work.wait` only makes the current stream
wait. NCCL has no tags, so this module ignores the tag of a call.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import numpy as np

from dpsim.backend.journal.elsewhere import chains_by_site, raised_elsewhere
from dpsim.contract.collectives.reductions import BITWISE
from dpsim.contract.interface import Buffer, DeviceCommunicator, Event, Rank, Stream
from dpsim.contract.ops import DType
from dpsim.torch.found import NewGroup, not_covered
from dpsim.torch.host_calls import name_of
from dpsim.torch.lowered import REDUCTIONS, Lowered, TorchCall, lower


class Begun:
    """A call on a stream: the event that the rank recorded behind it, and the buffer with its result."""

    def __init__(self, lowered: Lowered, buffer: Buffer | None, site: str, kind: str) -> None:
        self.lowered, self.buffer, self.site, self.kind = lowered, buffer, site, kind
        self.event: Event | None = None


Batch: TypeAlias = tuple[str, AbstractContextManager[None], list[Begun]]
"""An open batch: the name of its group, the context manager that closes it, and its sends and receives so far."""


class DeviceCalls:
    """The calls that one rank has put on streams. `HostCalls` has the same methods."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.begun: dict[int, Begun] = {}
        self.begun_by: dict[int, tuple[str, str]] = {}
        """Always empty here, because a rank need not wait for work on a stream. `HostCalls` fills it."""
        self.waiting: dict[str, str] = {}
        """Maps a thread to the communicator in whose call it waits."""
        self.made: dict[str, DeviceCommunicator] = {}
        """The process groups that the program made during the run."""
        self.used: set[str] = set()
        """The names of the communicators that the rank has used."""
        self._batches: dict[str, Batch] = {}
        """Maps a thread to its open batch."""

    def start(self, number: int, group: str, call: TorchCall, block: bytes) -> None:
        """Puts a call on the stream of its group or pair. Raises the RuntimeError of NCCL for a bitwise reduction."""
        if REDUCTIONS.get(call.reduce) in BITWISE:
            text = f"Cannot use ReduceOp.{call.reduce.upper()} with NCCL"
            raise raised_elsewhere("RuntimeError", text, chains_by_site.get(call.site, ()))
        if call.name == "recv_any":
            raise not_covered("recv from any source: NCCL has none", chains_by_site.get(call.site, ()))
        communicator, stream = self._place(group, call)
        lowered = lower(call, block, communicator.ranks, self.rank.rank)
        buffer = self._put(communicator, stream, lowered, call)
        begun = self.begun[number] = Begun(lowered, buffer, call.site, group)
        batch = self._batches.get(self.rank.thread)
        if batch is None:
            begun.event = stream.record()
        else:
            batch[2].append(begun)

    def _place(self, group: str, call: TorchCall) -> tuple[DeviceCommunicator, Stream]:
        kind, members = group, self._group(group).ranks
        if call.peer is not None and self.rank.thread not in self._batches:
            low, high = sorted((self.rank.rank, call.peer))
            kind, members = f"{group}:{low}_{high}", (low, high)
        self.used.add(kind)
        try:
            return self._group(kind), self.rank.stream(kind)
        except KeyError:
            raise NewGroup(kind, members) from None

    def _put(self, on: DeviceCommunicator, stream: Stream, lowered: Lowered, call: TorchCall) -> Buffer | None:
        name, more, site = lowered.name, lowered.more, call.site
        if name == "barrier":  # torch's ProcessGroupNCCL implements a barrier as an all_reduce of one element
            on.all_reduce(self._given(stream, np.zeros(1, np.int32), "int32", site), stream, site=site)
            return None
        if name == "recv":
            buffer = self._empty(stream, lowered, site)
            on.recv(buffer, more["source"], stream, site=site)
            return buffer
        if name == "scatter" and more["root"] != self.rank.rank:
            output = self._empty(stream, lowered, site)
            on.scatter(output, None, more["root"], stream, site=site)
            return output
        given = self._given(stream, lowered.array, lowered.dtype, site)
        if name == "gather" and more["root"] != self.rank.rank:
            on.gather(None, given, more["root"], stream, site=site)
            return None
        if name == "send":
            on.send(given, more["to"], stream, site=site)
            return None
        if name in ("all_reduce", "reduce"):
            root = [more["root"]] if name == "reduce" else []
            getattr(on, name)(given, *root, stream, op=more["op"], site=site)
            return given
        if name == "broadcast":
            on.broadcast(given, more["root"], stream, site=site)
            return given
        output = self._empty(stream, lowered, site)
        getattr(on, name)(output, given, stream=stream, **more, site=site)
        return output

    def _empty(self, stream: Stream, lowered: Lowered, site: str) -> Buffer:
        return stream.alloc(lowered.elements, lowered.dtype, f"{site}.alloc")

    def _given(self, stream: Stream, array: Any, dtype: DType, site: str) -> Buffer:
        buffer = stream.alloc(array.size, dtype, f"{site}.alloc")
        text = array.tobytes().decode("latin-1")
        stream.launch(f"{site}.fill", fill, writes=[buffer], args=(text,))
        return buffer

    async def query(self, number: int, site: str) -> bool:
        """Returns whether a call is over. A call in a batch that the rank has not closed is not over."""
        event = self.begun[number].event
        return event is not None and await event.query(site)

    async def within(self, number: int, ns: int, site: str) -> bool:
        """Returns True: NCCL ends the process at a time-out, so no program can catch it, and none passes here."""
        return True

    async def wait(self, number: int, site: str) -> tuple[int | bool, list[bytes]]:
        """Blocks until the call is over. Returns True and the blocks of its result."""
        begun = self.begun.pop(number)
        assert begun.event is not None
        thread = self.rank.thread
        self.waiting[thread] = begun.kind
        await begun.event.synchronize(begun.site)
        result = np.empty(0, np.int32)
        if begun.buffer is not None:
            result = await begun.buffer.read(begun.site, self.rank.stream(f"reader.{self.rank.thread}"))
        del self.waiting[thread]
        return True, begun.lowered.blocks(result)

    def batch(self, group: str) -> None:
        """Opens a batch of sends and receives on `group`. An empty name closes the batch of this thread."""
        if group:
            stream = self.rank.stream(group)
            within = self._group(group).coalesced(stream)
            within.__enter__()
            self._batches[self.rank.thread] = group, within, []
        elif self.rank.thread in self._batches:
            name, within, begun = self._batches.pop(self.rank.thread)
            within.__exit__(None, None, None)
            event = self.rank.stream(name).record()
            for one in begun:
                one.event = event

    async def make(self, kind: str, ranks: tuple[int, ...], site: str) -> None:
        """Makes a process group. All its members wait for each other, as they do on the store in `new_group`."""
        name = name_of(kind)
        await self.rank.group(name, ranks, device=True, site=site)
        self.made[kind] = self.rank.device(name)

    def abort(self, kind: str, site: str) -> None:
        """Aborts a group and the communicators of its pairs."""
        for one in [kind, *sorted(one for one in self.used if one.startswith(f"{kind}:"))]:
            self._group(one).abort(site=site)

    def _group(self, kind: str) -> DeviceCommunicator:
        made = self.made.get(kind)
        return self.rank.device(kind) if made is None else made


def fill(out: Any, text: str) -> None:
    """The kernel that writes elements into a buffer. `text`: their bytes, one character a byte."""
    out[:] = np.frombuffer(text.encode("latin-1"), out.dtype)
