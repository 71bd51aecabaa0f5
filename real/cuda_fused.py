"""The most frequent ops on a GPU, each in one Python function: alloc, launch, all_reduce, read, free.

Between two calls of CUDA, each Python call costs several times what it costs in a loop. The shared classes of
`dpsim.backend` pass an op through separate functions for checks, journal and device. So every backend has the same
addresses, records and faults. This file merges the three into one function per op. Less frequent cases (other ops,
views, errors) still use the shared classes.

The merged classes serve ranks with one host thread and without planted faults, and communicators without a rendezvous
at first use. Other ranks use the shared classes, whose calls can wait for a turn or a lock (`real.issuing`):

    stream_class(rank.journal)          # FusedStream, or CudaStream if the scenario plants a fault

A test runs one program with both kinds of classes (`tests/real/test_fused.py`). It requires the same records, the same
calls of the device and the same errors.

Rejected: also copying the body of `Journal.note`, which would save one more call per op. Then two places would assign
addresses.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import prod
from types import FunctionType
from typing import Any
from zlib import crc32

from dpsim.backend.calls.streams import PER_REPLAY, captured_per_replay
from dpsim.backend.graphs.kernel_call import (
    KNOWN,
    KernelError,
    OnTrial,
    WroteWhatItReads,
    check_kernel,
    refuse_result,
)
from dpsim.backend.hosts.arguments import count_of, unknown_dtype
from dpsim.backend.hosts.work import Work
from dpsim.backend.journal.issue import plan
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.plain import PLAIN, check_plain, shape_of, whole
from dpsim.backend.memory.buffers import check_buffers, of_this_backend, refs
from dpsim.contract.collectives.reductions import BITWISE, reduction_name
from dpsim.contract.interface import Buffer, Frozen, HostArray, Kernel, Stream
from dpsim.contract.ops import DTYPES, DType, ReduceOp
from real.calls import NATIVE, reduction
from real.communicators import Group
from real.cuda_calls import Landing
from real.cuda_errors import refuse_captured
from real.cuda_groups import CudaCommunicator
from real.cuda_streams import CudaBuffer, CudaStream
from real.rank import RealRank, tensor
from real.waiting import Patience, Unfinished


class FusedStream(CudaStream):
    """A stream with one function each for alloc and launch."""

    __slots__ = ()

    def alloc(self, shape: int | tuple[int, ...], dtype: DType, site: str, *, per_replay: bool = False) -> Buffer:
        if per_replay and self.capture is not None:
            raise captured_per_replay(site)
        if type(shape) is not tuple:
            shape = shape_of(shape, site) if type(shape) is not int else (shape,)
        count = 1
        for size in shape:
            if type(size) is not int or size < 0:
                shape = shape_of(shape, site)
                count = prod(shape)
                break
            count *= size
        if dtype not in DTYPES:
            raise unknown_dtype(dtype, site)
        calls, journal = self.calls, self.journal
        if calls.current(calls.index) != self._number:
            calls.set_current(self.handle)
        buffer = new_buffer(FusedBuffer)
        buffer._whole = memory = calls.empty(shape, dtype=calls.dtypes[dtype], device=calls.device)
        buffer._taken = taken = self.rank.taken
        taken.add(buffer)
        buffer.stream = self
        buffer.shape = shape
        buffer.dtype = dtype
        buffer.count = count
        first = memory.data_ptr()
        buffer.place = place = 0, first, first + count * DTYPES[dtype]
        buffer.base = None
        buffer.home = home = self.home
        buffer.held = None
        buffer.freed = []
        number = journal.number("buffer")
        journal.note("alloc", site, (home, number, count, dtype, place))
        buffer.ref = ref = number, 0, count
        buffer.refs = (ref,)
        buffer._site = site
        buffer._ordinal = journal.ordinal
        if self.capture is not None:
            self.capture.took(self, buffer, (site, journal.ordinal, journal.place(site)))
        if per_replay:
            journal.note("fresh", PER_REPLAY, (home, number))
        return buffer

    def launch(
        self,
        site: str,
        kernel: Kernel,
        *,
        reads: Sequence[Buffer] = (),
        writes: Sequence[Buffer] = (),
        args: tuple[Frozen, ...] = (),
        cost: int | None = None,
    ) -> None:
        if type(kernel) is not FunctionType or kernel not in KNOWN:
            check_kernel(kernel, site)
            kernel = OnTrial(kernel)
        for one in args:
            if type(one) not in PLAIN and not (type(one) is tuple and PLAIN.issuperset(map(type, one))):
                check_plain(tuple(args), "an argument of the kernel", site, compared=False)
                break
        if cost is not None and (type(cost) is not int or cost < 0):
            whole(cost, "the cost", site, 0)
        if self.capture is not None:
            check_buffers(site, reads, writes)
            self.capture.launch(self, site, kernel, reads, writes, args, cost)
            return
        journal = self.journal
        try:
            leaves = writes[0].refs if len(writes) == 1 and not writes[0].freed else refs(writes)  # type: ignore[attr-defined]
            journal.note("launch", site, (self.name, refs(reads) if reads else (), leaves))
        except (AttributeError, LookupError, TypeError):
            check_buffers(site, reads, writes)
            raise
        ordinal = journal.ordinal
        given = [one._whole if type(one) is FusedBuffer and one.base is None else tensor(one) for one in writes]
        read = [tensor(one).data for one in reads] if reads else ()
        calls = self.calls
        if calls.current(calls.index) != self._number:
            calls.set_current(self.handle)
        try:
            result = kernel(*read, *given, *args)
            if result is not None:
                refuse_result(result)
            for memory in read:
                if memory._version:  # the body of `was_written`
                    raise WroteWhatItReads
        except (Exception, SystemExit) as error:
            refuse_captured(journal, error, site)
            raise KernelError.of(f"rank {journal.rank} {site}[{ordinal}]", kernel, error) from error


class FusedBuffer(CudaBuffer):
    """A buffer that is no view. `FusedStream.alloc` creates it."""

    __slots__ = ()

    def free(self) -> None:
        journal = self.stream.journal
        if self.held is not None and self.base is None:
            self._give_back(self.held, journal.place(self._site))
            return
        if self.base is not None or self.freed:
            super().free()  # which says what is wrong
        self.freed.append(journal.free(self.home, self._site, self._ordinal, self.ref[0]))
        self._taken.discard(self)
        self._whole = None

    def read(self, site: str, stream: Stream | None = None) -> Work:
        on = stream or self.stream
        if type(on) is not FusedStream:
            on = of_this_backend(on, FusedStream)
        journal, calls = self.stream.journal, on.calls
        if on.capture is not None:
            super().read(site, stream)  # which says what is wrong
        journal.note("read", site, (on.name, self.count, self.dtype, (self.freed_ref(),) if self.freed else self.refs))
        form = self.shape, self.dtype
        free = calls.landings[form]
        landing = free.pop() if free else Landing(calls, form)
        pinned, array = landing.views.get(form) or landing.view(form)
        if calls.current(calls.index) != on._number:
            calls.set_current(on.handle)
        pinned.copy_(self._whole if self.base is None else self.tensor, non_blocking=True)
        landing.mark.record(on.handle)
        work = new_reading(Reading)
        Work.__init__(work, journal, not_taken)
        work._told = journal, site, journal.ordinal
        work._pending = array, landing, free, on.rank.patience
        return work


class Reading(Work):
    """A read in progress, with its landing (pinned memory), which returns to the list of free ones afterwards."""

    __slots__ = ("_pending", "_told")

    __module__, __qualname__ = Work.__module__, Work.__qualname__  # the name that errors use on every backend

    _told: tuple[Journal, str, int]
    _pending: tuple[HostArray, Landing, list[Landing], Patience] | None

    def __await__(self) -> Generator[Any, Any, Any]:
        journal, site, ordinal = self._told
        if self._pending is None:
            raise RuntimeError(f"{site}[{ordinal}] was awaited twice; await it once and keep the result")
        array, landing, free, patience = self._pending
        self._pending = None
        patience.until(landing.mark.query)
        copy: Any = array.copy()
        free.append(landing)
        journal.learned(site, ordinal, crc32(copy))  # so that it keeps no reference to the array
        return copy
        yield


def not_taken() -> Generator[Any, Any, Any]:
    """The outcome of a Reading that the program has not awaited yet."""
    raise AssertionError("a Reading knows its own")
    yield


class FusedCommunicator(CudaCommunicator):
    """A communicator with one function for an all_reduce of a whole buffer."""

    __slots__ = ("_all_reduce", "_seqs", "_sum")

    def __init__(self, rank: RealRank, group: Group) -> None:
        super().__init__(rank, group)
        self._all_reduce = group.process_group.allreduce
        self._seqs = rank.journal.seqs
        self._sum = reduction("sum", False, "int32")

    def all_reduce(self, buffer: Buffer, stream: Stream, *, op: ReduceOp = "sum", site: str | None = None) -> None:
        if (
            type(buffer) is not FusedBuffer
            or type(stream) is not FusedStream
            or buffer.base is not None
            or self._group is not None
            or stream.capture is not None
            or buffer.dtype not in NATIVE
            or op in BITWISE
        ):
            call = "all_reduce", count_of(self, buffer), buffer.dtype, None, reduction_name(op, buffer.dtype), ()
            self._collective(call, buffer, buffer, stream, site)
            return
        count, dtype, name, journal = buffer.count, buffer.dtype, self.name, self.journal
        plain = op == "sum" and dtype != "bool"
        options = self._sum if plain else reduction(reduction_name(op, dtype), False, dtype)
        memory = (buffer.freed_ref(),) if buffer.freed else buffer.refs
        seq = self._seqs[name]
        form = stream.name, name, seq, "all_reduce", count, dtype, None, op, (), memory, memory
        journal.note("collective", site or f"{name}.all_reduce", form)
        self._seqs[name] = seq + 1
        if self._give_up.is_set():
            raise Unfinished
        order, handle, calls = self.eager, stream.handle, stream.calls
        if stream.owed:
            stream.pay()
        if order.last is not stream and order.last is not None:
            if order.last.owed:
                order.last.pay()
            handle.wait_event(order.mark)
        if calls.current(calls.index) != stream._number:
            calls.set_current(handle)
        try:
            work = self._all_reduce([buffer._whole], options)
            if work is not None:
                work.wait()
        except (RuntimeError, ValueError) as error:
            self._fail(plan("all_reduce", count, dtype, None, op), self._seq, error)
        mark = order.mark
        if mark is None:
            mark = order.mark = calls.event()
        mark.record(handle)
        order.last = stream
        self._seq += 1


def stream_class(journal: Journal) -> type[CudaStream]:
    """Returns the class of a rank's streams."""
    return CudaStream if keeps_to_the_shared_half(journal) else FusedStream


def communicator_class(journal: Journal) -> type[CudaCommunicator]:
    """Returns the class of a rank's device communicators."""
    seldom = keeps_to_the_shared_half(journal) or journal.shared.world.lazy
    return CudaCommunicator if seldom else FusedCommunicator


def keeps_to_the_shared_half(journal: Journal) -> bool:
    """Whether a rank needs the shared classes: it has planted faults or gates, may have several threads, or may abort
    communicators.
    """
    shared = journal.shared
    return journal.injects or bool(shared.world.gates) or shared.front is not None or shared.aborts


new_buffer, new_reading = FusedBuffer.__new__, Reading.__new__
"""The constructors without `__init__`, which would cost up to three calls; `alloc` and `read` set the fields."""
