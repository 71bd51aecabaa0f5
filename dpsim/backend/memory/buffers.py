"""Buffers and their views: what is the same on every backend, and how journals name their memory."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsim.backend.hosts.work import Outcome, Work
from dpsim.backend.journal.issue import Issue
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.misuse import CONTRACT, a_or_an
from dpsim.backend.journal.plain import PLAIN, check_plain, typed
from dpsim.backend.memory.pools import PoolMemory
from dpsim.contract.dtypes import NUMPY, bits
from dpsim.contract.interface import (
    Buffer,
    Frozen,
    HostArray,
    Stream,
)
from dpsim.contract.ops import DType, Place, Ref, Refs

INSTEAD = "; do it before the capture, or behind a replay"
"""The advice in the error for an awaited call within a capture."""


class OwnStream(Stream):
    """The fields of a stream that a buffer uses."""

    __slots__ = ()

    journal: Journal
    home: str
    """The name of the pool of its memory: its own, or a graph's."""

    @abstractmethod
    def _spin(self, ns: int) -> None:
        """Blocks the stream for `ns`: a planted delay."""


class JournaledBuffer(Buffer):
    """A buffer, or a view (`base`). `ref`: how records name its memory, with its tag. `refs`: just that in a tuple."""

    __slots__ = (
        "__weakref__",
        "_ordinal",
        "_site",
        "base",
        "count",
        "freed",
        "held",
        "home",
        "place",
        "ref",
        "refs",
        "stream",
    )

    ref: Ref
    refs: Refs

    def __init__(self, stream: OwnStream, shape: tuple[int, ...], dtype: DType) -> None:
        self.stream = stream
        self.home = stream.home  # the name of its pool
        self.shape = shape
        self.dtype = dtype
        self.count = math.prod(shape)
        self.held: PoolMemory | None = None  # of a graph
        self.place: Place | None = None
        self.base: JournaledBuffer | None = None
        self.freed: list[str] = []  # the place of the free, once it is freed; views share it

    def named(self, number: int, site: str, ordinal: int) -> None:
        """Its position in the journal."""
        self.ref = number, 0, self.count
        self.refs = (self.ref,)
        self._site = site
        self._ordinal = ordinal

    def view(self, start: int, stop: int) -> Buffer:
        if not (self.shape and 0 <= start <= stop <= self.shape[0]):
            raise IndexError(f"rows {start} to {stop} are not within a buffer of shape {self.shape}")
        row = math.prod(self.shape[1:])
        piece = self._view(start, stop)
        [(number, first, _, *tag)] = refs([self])
        piece.ref = number, first + start * row, first + stop * row, *tag
        piece.refs = (piece.ref,)
        piece.base, piece.freed = self.base or self, self.freed
        if self.held is not None:
            piece.held = self.held
            self.held.named.add(piece)
        return piece

    def tagged(self, tag: Frozen) -> Buffer:
        if type(tag) not in PLAIN or tag != tag:
            check_plain(tag, "the tag", (self.base or self)._site)
        named = copy.copy(self)
        named.ref = *refs([self])[0][:3], tag
        named.refs = (named.ref,)
        named.base = self.base or self
        if self.held is not None:
            self.held.named.add(named)
        return named

    def read(self, site: str, stream: Stream | None = None) -> Work:
        on = stream or self.stream
        journal = self.stream.journal
        try:
            name = on.name
        except AttributeError:
            name = of_this_backend(on, OwnStream).name  # raises an error that names the mistake
        if journal.turn is not None:
            journal.on("stream", name)
            journal.come(site)
        if on.capture is not None:  # type: ignore[attr-defined]  # whatever the mode
            on.capture.refuse(900, f"{site}: the host reads a buffer", INSTEAD)  # type: ignore[attr-defined]
        delay = journal.note("read", site, (name, self.count, self.dtype, ref_of(self)))
        if delay:
            of_this_backend(on, OwnStream)._spin(delay)
        return Work(journal, self._copy(on))

    def record_stream(self, stream: Stream) -> None:
        base = self.base or self
        try:
            name = stream.name
        except AttributeError:
            name = of_this_backend(stream, OwnStream).name
        journal = self.stream.journal
        if journal.turn is not None:
            journal.come("record_stream")
        journal.note("used", "record_stream", (name, refs([base])[0][0]))
        if stream is base.stream:
            return
        if base.held is None:
            base._hold(stream)
        elif base.held.capture.under_way:
            base.held.capture.used(base.held)

    def free(self) -> None:
        if self.base is not None:
            raise RuntimeError(
                f"the program cannot free a view; free its buffer {self.base._site}[{self.base._ordinal}]"
            )
        journal = self.stream.journal
        if journal.turn is not None:
            journal.turn(f"free.{self._site}", self._ordinal)
        if self.held is not None:
            self._give_back(self.held, journal.place(self._site))
            return
        if self.freed:
            raise RuntimeError(f"the buffer {self._site}[{self._ordinal}] was freed twice, first at {self.freed[0]}")
        self.freed.append(journal.free(self.home, self._site, self._ordinal, self.ref[0]))
        self._release()

    def _give_back(self, memory: PoolMemory, where: str) -> None:
        if memory.capture.under_way:
            memory.capture.gave_back(self, memory, where)
        else:
            memory.freed(where)
            memory.give_back()
            self._release()

    def renumber(self, number: int) -> None:
        """A replay allocated its memory again, so records name it by a new number."""
        self.ref = (number, *self.ref[1:])
        self.refs = (self.ref,)

    def freed_ref(self) -> Ref:
        """Replaces `ref` for a freed buffer: raises RuntimeError. A buffer of a graph is a weak reference and stays
        valid: if a replay destroyed its contents, this records a new alloc first.
        """
        if self.held is not None:
            self.held.ref()
            return self.ref
        base = self.base or self
        raise RuntimeError(
            f"the buffer {base._site}[{base._ordinal}] is used after it was freed at {self.freed[0]}; "
            "free it after its last use"
        )

    @abstractmethod
    def _view(self, start: int, stop: int) -> JournaledBuffer:
        """Returns rows of the first axis, which share memory."""

    @abstractmethod
    def _copy(self, stream: Stream) -> Outcome:
        """Puts a copy to the host on the stream. Returns an object that waits for it."""

    @abstractmethod
    def _hold(self, stream: Stream) -> None:
        """Tells the allocator that another stream uses the memory."""

    @abstractmethod
    def _release(self) -> None:
        """Frees the memory. The program can still use it if it belongs to a graph."""


def refs(buffers: Sequence[Buffer]) -> Refs:
    """Returns how records name the memory of these buffers. Raises RuntimeError for a freed buffer. For other objects
    it raises AttributeError or TypeError; `check_buffers` then raises a clear error. A later use finds buffers of
    another backend.
    """
    if not buffers:
        return ()
    if len(buffers) == 1:
        [buffer] = buffers
        if not buffer.freed:  # type: ignore[attr-defined]
            own: Refs = buffer.refs  # type: ignore[attr-defined]
            return own
    return tuple([one.freed_ref() if one.freed else one.ref for one in buffers])  # type: ignore[attr-defined]


def ref_of(buffer: Buffer) -> Refs:
    """As `refs`, for one buffer, whose tuple exists already."""
    refs: Refs = (buffer.freed_ref(),) if buffer.freed else buffer.refs  # type: ignore[attr-defined]
    return refs


def check_buffers(site: str, reads: Any, writes: Any) -> None:
    """Raises TypeError for arguments that are no lists of buffers."""
    for name, buffers in (("reads", reads), ("writes", writes)):
        if not isinstance(buffers, list | tuple):
            raise TypeError(f"{site}: {name} is {typed(buffers)}; a list of buffers is needed, as {name}=[x]")
        for one in buffers:
            if not isinstance(one, JournaledBuffer):
                raise TypeError(f"{site}: {name} has {typed(one)}; a Buffer is needed, which Stream.alloc returns")


def untagged(refs: Refs) -> Refs:
    """Returns the same memory without version tags."""
    return tuple([ref[:3] for ref in refs])


def of_this_backend(thing: Any, kind: type[Any]) -> Any:
    """Returns the object if it is of that class. Raises TypeError for one of another backend."""
    if not isinstance(thing, kind):
        wanted = next(a_or_an(one) for one in CONTRACT if issubclass(kind, one))
        raise TypeError(f"{wanted} of this backend is needed, not {typed(thing)}")
    return thing


def resized(array: HostArray, issue: Issue) -> HostArray:
    """Returns a flat copy of `array` with the count and type of an altered collective, cut or filled with zeros."""
    flat = np.zeros(issue.count, NUMPY[issue.dtype])
    size = min(issue.count, array.size)
    bits(flat)[:size] = bits(array.reshape(-1))[:size]
    return flat
