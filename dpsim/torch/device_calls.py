"""Calls in NCCL's order: each group has a stream, on which its calls run one after the other.

Transfers outside of a batch have a communicator and a stream for each pair, as in NCCL's process group. `wait` reads
the result, so it holds the host; on hardware it orders the current stream alone. NCCL knows no tags.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import numpy as np

from dpsim.backend.journal.elsewhere import raised_elsewhere, told
from dpsim.contract.collectives.reductions import BITWISE
from dpsim.contract.interface import Buffer, DeviceCommunicator, Event, Rank, Stream
from dpsim.contract.ops import DType
from dpsim.torch.found import NewGroup, not_covered
from dpsim.torch.host_calls import name_of
from dpsim.torch.lowered import REDUCTIONS, Lowered, TorchCall, lower


class Begun:
    """A call on a stream: the event behind it, and the buffer that it fills."""

    def __init__(self, lowered: Lowered, buffer: Buffer | None, site: str, kind: str) -> None:
        self.lowered, self.buffer, self.site, self.kind = lowered, buffer, site, kind
        self.event: Event | None = None


Batch: TypeAlias = tuple[str, AbstractContextManager[None], list[Begun]]
"""The group of a batch, what ends it, and its transfers so far."""


class DeviceCalls:
    """The calls of one rank that were put on streams."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.begun: dict[int, Begun] = {}
        self.begun_by: dict[int, tuple[str, str]] = {}
        """None: what a rank puts on a stream, it need not wait for."""
        self.waiting: dict[str, str] = {}
        """By thread: the kind of group in whose call it stands."""
        self.made: dict[str, DeviceCommunicator] = {}
        """The groups that the rank has made."""
        self.used: set[str] = set()
        """Kinds of communicators on which it made calls."""
        self._batches: dict[str, Batch] = {}
        """The batch that a thread has open, by its name."""

    def start(self, number: int, group: str, call: TorchCall, block: bytes) -> None:
        """Put a call on the stream of its group, or of its pair. Raises what torch raises for a reduction of bits."""
        if REDUCTIONS.get(call.reduce) in BITWISE:
            text = f"Cannot use ReduceOp.{call.reduce.upper()} with NCCL"
            raise raised_elsewhere("RuntimeError", text, told.get(call.site, ()))
        if call.name == "recv_any":
            raise not_covered("recv from any source: NCCL has none", told.get(call.site, ()))
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
        """The buffer that has the result; None for a call that gives none."""
        name, more, site = lowered.name, lowered.more, call.site
        if name == "barrier":  # torch's NCCL group reduces one element
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
        """A buffer with these elements."""
        buffer = stream.alloc(array.size, dtype, f"{site}.alloc")
        text = array.tobytes().decode("latin-1")
        stream.launch(f"{site}.fill", fill, writes=[buffer], args=(text,))
        return buffer

    async def query(self, number: int, site: str) -> bool:
        """Whether a call is over. One of a batch that was not sent off is not."""
        event = self.begun[number].event
        return event is not None and await event.query(site)

    async def within(self, number: int, ns: int, site: str) -> bool:
        """No time-out passes here: NCCL ends the process then, which is no exception of the program."""
        return True

    async def wait(self, number: int, site: str) -> tuple[int | bool, list[bytes]]:
        """The blocks of a call's result."""
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
        """A batch of transfers begins, or ends (an empty name)."""
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
        """Make a group: its members meet, as those of torch.distributed.new_group do on its store."""
        name = name_of(kind)
        await self.rank.group(name, ranks, device=True, site=site)
        self.made[kind] = self.rank.device(name)

    def abort(self, kind: str, site: str) -> None:
        """Abort a group, and those of its pairs."""
        for one in [kind, *sorted(one for one in self.used if one.startswith(f"{kind}:"))]:
            self._group(one).abort(site=site)

    def _group(self, kind: str) -> DeviceCommunicator:
        made = self.made.get(kind)
        return self.rank.device(kind) if made is None else made


def fill(out: Any, text: str) -> None:
    """The kernel that puts elements into a buffer."""
    out[:] = np.frombuffer(text.encode("latin-1"), out.dtype)
