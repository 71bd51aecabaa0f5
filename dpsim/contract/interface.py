"""THE contract between a coordination protocol and a backend.

A protocol is a coroutine that touches the world only through its `Rank`. The simulation suspends the coroutine at every
await; on real hardware the calls block and one `send(None)` runs it to its end. One rule makes both possible:

    **A call that only sends into the world is plain; a call that learns something from it is awaited.**

Plain calls are alloc, free, launch, record, wait, and device collectives and transfers. To replay a graph, start a host
collective, send a message, start a thread and set a flag are plain, too. A program awaits the `Work` of a host
collective, a read of a buffer, and a query or synchronisation of an event. It also awaits a message, a flag, the end of
a thread, a sleep and the beginning of a capture. A program reads like CUDA, and only calls that learn something are
`async`.

    async def agree(rank: Rank, mine: int) -> int:
        table = np.zeros(rank.host("dp_cpu").size, np.int32)
        table[rank.host("dp_cpu").index] = mine
        table = await rank.host("dp_cpu").all_reduce(table, site="agree")
        rank.decide("largest", int(table.max()), "dp_cpu")
        return int(table.max())

Host and device communicators are two classes. A single method with two meanings (await it, or order it by a stream)
would invite mistakes in protocols. Every op has a *site*: a word in the source, without spaces, that makes its address
(see `dpsim.contract.ops`). Ranks are global ranks everywhere, also as roots, sources and destinations.

A coroutine awaits only the results of these calls. The objects accept no other attributes than their own
(AttributeError): a protocol keeps its state in local variables.

The classes here are abstract and have no behaviour: the docstrings are the law, and `dpsim.testing.check_backend`
judges by it. This module has only calls that sim, gloo and nccl all support.
"""

# The signatures of collectives have no body either (see `collective`).
# mypy: disable-error-code="empty-body"
# ruff: noqa: B027

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from dpsim.contract.ops import CAPTURE_ERRORS, CaptureMode, DType, ReduceOp

if TYPE_CHECKING:
    from numpy.typing import NDArray

HostArray: TypeAlias = "NDArray[Any]"
Kernel: TypeAlias = Callable[..., None]
Frozen: TypeAlias = int | float | bool | str | tuple["Frozen", ...] | None

NO_STEP = 1_000_000
"""The step tag of an actor that works in no step, such as a front end. Its findings follow all others."""

_Call = TypeVar("_Call", bound=Callable[..., Any])


def collective(call: _Call) -> _Call:
    """Mark the signature of a collective. `dpsim.contract.collectives` has a file of that name with all rules of the
    collective, and `dpsim.backend` makes the method from it. Until then a class is abstract, and a type checker does
    not see the method.
    """
    call.is_collective = True  # type: ignore[attr-defined]  # a mark on a function
    return abstractmethod(call)


class Buffer(ABC):
    """A block of device memory, taken from a stream's pool by `Stream.alloc`, or a view into one."""

    __slots__ = ("dtype", "shape")

    shape: tuple[int, ...]
    dtype: DType

    @abstractmethod
    def view(self, start: int, stop: int) -> Buffer:
        """Rows `start` to `stop` of the first axis, sharing memory. Views of disjoint rows do not conflict.

        A program does not free a view; it ends with its buffer. IndexError if the rows are not within the buffer.
        """

    @abstractmethod
    def read(self, site: str, stream: Stream | None = None) -> Awaitable[HostArray]:
        """Copy to the host. The read waits until all work that `stream` has so far is done (default: the buffer's own
        stream).

        The result is a new numpy array of the buffer's shape and dtype. Await it once.
        """

    @abstractmethod
    def record_stream(self, stream: Stream) -> None:
        """Declare that `stream` uses this memory. After `free`, the allocator does not reuse it before the work that
        `stream` has *at the free* is done. Without this call, it may reuse the memory while the other stream still
        works on it.
        """

    @abstractmethod
    def free(self) -> None:
        """Give the memory back to the stream's pool. Later work on the *same* stream may reuse it at once, without
        waiting. A program must not use a freed buffer or its views again: RuntimeError. Work that streams already have
        is in flight, and is no such use.

        A program may not assume which buffer gets the memory. Any later `alloc` on the stream from the same pool may
        get it, in whole or in part, or none does. There is one pool for up to 1 MiB, and one for more. So work that
        still uses this memory has to come before all writes of the later buffers.
        """

    @abstractmethod
    def tagged(self, tag: Frozen) -> Buffer:
        """The same memory, together with the version that it should have, for one call.

        An op that writes a tagged buffer leaves `tag` on these elements. An op that reads a tagged buffer expects the
        tag there, or the run has a finding (STALE:VERSION). A write without a tag leaves none, and a read without a tag
        expects nothing. A collective in place leaves the tag and expects none. In a broadcast the root expects it, in a
        reduce all members but the root. The call moves nothing and waits for nothing. TypeError for a tag that is no
        plain data, ValueError for NaN.
        """


class Event(ABC):
    """A point in a stream, made by `Stream.record`."""

    __slots__ = ()

    @abstractmethod
    def query(self, site: str) -> Awaitable[bool]:
        """Whether the point has passed. It passes some time after the work before it is done. A host can rely on yes
        only after it waited for the event, found it passed, or waited for work behind it.
        """

    @abstractmethod
    def synchronize(self, site: str) -> Awaitable[None]:
        """Wait until all work before the point is done."""


class Stream(ABC):
    """A queue of device work, executed in order, while the host runs ahead. Streams run in parallel."""

    __slots__ = ("name",)

    name: str

    @abstractmethod
    def alloc(self, shape: int | tuple[int, ...], dtype: DType, site: str, *, per_replay: bool = False) -> Buffer:
        """Take memory for `shape` elements. Its content is undefined: a kernel or a collective has to write it first.
        It may be the memory of any buffer of this stream that the program freed before.

        A kernel gets memory of a type that numpy lacks (bfloat16, float8, complex32) as integers of the same width, on
        every backend. A host gets such elements as numpy's type `dpsim.contract.dtypes.numpy_dtype(dtype)`.

        `per_replay`: each replay of a graph reads fresh contents. If a replay reads the same contents as the replay
        before it, with no write in between, this is a finding (`STALE:NOT_WRITTEN_FOR_REPLAY`). ValueError within a
        capture, because the memory that a capture takes is new in each replay.
        """

    @abstractmethod
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
        """Put `kernel(*reads, *writes, *args)` on the stream.

        The kernel gets the arrays of the buffers: numpy in the simulation, torch elsewhere. Write it against the array
        API standard. It reads the arrays, writes those of `writes` in place, and returns nothing. A kernel that writes
        an array which it may only read, or returns something, fails. It may touch no other memory: its footprint is
        exact by construction. The call binds `args` now; they are plain data (TypeError for an array). The kernel is a
        plain function. The launch refuses any other callable (TypeError), a closure, and a default that is no plain
        data, because these would read later state.

        The same holds for globals of the kernel, and of each function of a program that it calls. A kernel may use
        functions, classes, modules, and a cache of a function (functools.cache). It may use values that cannot change:
        numbers, text, tuples, enums, dtypes, frozen dataclasses. A launch refuses anything else by name: a list, a
        dictionary, an array, a ContextVar, `os.environ`, an object or a method bound to one. It refuses a global that a
        function of its module sets. A kernel may set no global and no attribute, nor may it call `globals`, `setattr`
        or `exec`. Lambdas, functions and comprehensions within a kernel are part of it. No program may set a number
        that a kernel reads. A kernel that keeps an array fails if the backend notices it.

        `cost`: nanoseconds of device time in the simulation, None for the backend's default; real hardware
        ignores it.
        """

    @abstractmethod
    def record(self, event: Event | None = None) -> Event:
        """Mark the point that the stream's work has reached. `event`: record this event of an earlier call again, on
        any stream of the rank. Later waits for it are waits for this point; earlier waits are not.
        """

    @abstractmethod
    def wait(self, event: Event) -> None:
        """Later work on this stream starts after the event's point. The host does not wait."""

    @abstractmethod
    def wait_stream(self, other: Stream) -> None:
        """Later work on this stream starts after all work that `other` has so far: `wait(other.record())`."""

    @abstractmethod
    def wait_flag(self, flag: Flag, site: str) -> None:
        """Later work on this stream starts when it finds the flag set. The host does not wait.

        When the stream reaches this point, it looks at the flag as the host left it, again and again until it is set.
        So if a thread set the flag before and did not clear it, the stream continues at once. If a thread clears the
        flag before the stream looks, or too soon after the set, the stream stands until the next set. The stream sees a
        write to the flag before this call; a later write may take a while. A stream clears no flag. The ops of a thread
        before its set come before the work that continues because of the set.

        A message needs no separate call: a host thread takes it, and sets a flag. A capture keeps the wait, and each
        replay looks at the flag at that time. ValueError for a flag of another rank.

        CUDA has it as cuStreamWaitValue32 on a word of pinned memory, also in a capture (a batch memory operation).
        CUDA does not know the order that results. If a GPU has fewer queues than streams, such a wait may block other
        streams. A host function that blocks (cudaLaunchHostFunc) would block the functions of all streams.
        """


class Aborted(RuntimeError):
    """This rank has aborted the communicator, or the abort broke off the device work that the rank waits for."""


Result = TypeVar("Result", covariant=True)


class HostWork(Awaitable[Result]):
    """A collective or transfer that a host has started. Await it once."""

    __slots__ = ()

    @abstractmethod
    def query(self, site: str) -> Awaitable[bool]:
        """Whether it is over. It is over for this rank some time after it could be, so the answer may be no for any
        time. Only a host that has awaited it, or has found it over, can rely on yes. A query takes no result: the
        program has to await the work all the same. Raises Aborted if its await would.

        Torch has it as `is_completed` of its Work. NCCL's collectives have no such work: query an event of their
        stream.
        """

    @abstractmethod
    def within(self, timeout_ns: int, site: str) -> Awaitable[bool]:
        """Wait until it is over, at most for this time, and learn whether it is. The call goes on behind a time-out: it
        can be asked again, and has to be awaited all the same. Raises Aborted where its await does; ValueError for
        less than 1 ns.

        A time-out passes as that of a mailbox does. As `wait(timeout)` of torch's Work for a collective of gloo.
        """


class Received(NamedTuple):
    """The result of a receive from any source: the global rank of the sender, and the array."""

    source: int
    array: HostArray


class HostCommunicator(ABC):
    """A group of ranks that exchange host memory (gloo). `index` is this rank's position in `ranks`.

    All members make the same collectives in the same order, with arrays of equal dtype. A collective starts at once,
    with the content that the array has now. Await its result (a new array) exactly once: a second await is a
    RuntimeError, and a missing await is a finding.

    Each member completes by itself. The contract promises that it waits for the members whose elements it gets:

    * all_reduce, reduce_scatter with a piece for it, barrier: all members;
    * all_gather: the members that bring elements; all_to_all: those that have elements for it;
    * broadcast, scatter: the root, and the root waits for no member;
    * reduce, gather: the root waits for all, the others for no member.

    If no elements move, it waits for no member. It may wait for the others too; a correct protocol tolerates both. When
    a member completes, the members that it waited for have *arrived*; they need not have completed.

    Transfers accept elements of every type. Reductions accept bool, int8, uint8, int32, int64, float16, bfloat16,
    float32 and float64, with "sum", "max", "min" and "prod". Floating-point types also have "avg", and the others
    "band", "bor" and "bxor". Anything else is a ValueError, because gloo and NCCL lack it. The contract leaves open in
    which order a library adds floating-point numbers, and how it rounds an average.

    Default site: "<communicator>.<collective>". ValueError if a root or peer is no member, or the peer is
    this rank itself.
    """

    __slots__ = ("index", "name", "ranks")

    name: str
    ranks: tuple[int, ...]
    index: int

    @property
    def size(self) -> int:
        return len(self.ranks)

    @collective
    def all_reduce(self, array: HostArray, *, op: ReduceOp = "sum", site: str | None = None) -> HostWork[HostArray]:
        """The elementwise reduction over the group, on every member. Equal shapes."""

    @collective
    def broadcast(self, array: HostArray, root: int, *, site: str | None = None) -> HostWork[HostArray]:
        """The array of global rank `root`, on every member. Equal shapes. It is no barrier."""

    @collective
    def reduce(
        self, array: HostArray, root: int, *, op: ReduceOp = "sum", site: str | None = None
    ) -> HostWork[HostArray]:
        """The elementwise reduction over the group on global rank `root`; on the others the array that they brought.
        Equal shapes. It is no barrier: only the root waits, for all members.

        Torch leaves the result of the others open (`torch.distributed.reduce`); MPI and NCCL have no result for them.
        """

    @collective
    def all_gather(
        self, array: HostArray, *, sizes: Sequence[int] | None = None, site: str | None = None
    ) -> HostWork[HostArray]:
        """The arrays of all members one after the other, flat. `sizes`: elements of each; None if all are equal."""

    @collective
    def reduce_scatter(
        self,
        array: HostArray,
        *,
        op: ReduceOp = "sum",
        sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> HostWork[HostArray]:
        """This member's piece of the elementwise reduction, flat. `sizes`: elements of the pieces; None if they are
        equal.
        """

    @collective
    def all_to_all(
        self,
        array: HostArray,
        *,
        output_sizes: Sequence[int] | None = None,
        source_sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> HostWork[HostArray]:
        """Send piece i of the array to member i. The result has the pieces from all members one after the other, flat.

        `source_sizes`: elements that go to each member; `output_sizes`: elements that come from each. None: equal
        pieces.
        """

    @collective
    def gather(self, array: HostArray, root: int, *, site: str | None = None) -> HostWork[HostArray]:
        """The arrays of all members one after the other, flat, on global rank `root`; on the others an empty array.
        Equal shapes. It is no barrier: only the root waits, for all members.
        """

    @collective
    def scatter(self, array: HostArray, root: int, *, site: str | None = None) -> HostWork[HostArray]:
        """This member's piece of the array of global rank `root`, flat. Equal shapes, with equal pieces for all
        members. The call does not read the arrays of the others. It is no barrier: the root waits for no member.
        """

    @collective
    def barrier(self, *, site: str | None = None) -> HostWork[HostArray]:
        """Wait for all members. The result is an empty array."""

    @abstractmethod
    def send(self, array: HostArray, to: int, *, site: str | None = None) -> HostWork[HostArray]:
        """Send to global rank `to`. The await returns when the program may use the memory again. This may be before the
        peer receives or only then, and may differ between two sends. Transfers between two ranks arrive in order. The
        result is an empty array.
        """

    @abstractmethod
    def recv(
        self, shape: int | tuple[int, ...], dtype: DType, source: int, *, site: str | None = None
    ) -> HostWork[HostArray]:
        """Receive from global rank `source`."""

    @abstractmethod
    def recv_any(self, shape: int | tuple[int, ...], dtype: DType, *, site: str | None = None) -> HostWork[Received]:
        """Receive from any other member: the next message of the member whose message arrives first. A message may be
        under way for any time, even if a member sends another one later. Several of these calls take messages in the
        order of the calls, and behind earlier receives from a named rank. Until the rank has awaited all of them, it
        may not call a receive from a named rank on the communicator: RuntimeError. Default site:
        "<communicator>.recv_any".

        Gloo has it as `recvAnysource`, and MPI as MPI_ANY_SOURCE. NCCL lacks it, so device communicators lack it too.
        """

    @abstractmethod
    def abort(self, *, site: str | None = None) -> None:
        """Give the communicator up, for this rank alone and permanently. Each other host thread of this rank that waits
        on it gets Aborted. So does every later call on it, and every await of work that started before. The call does
        not wait, and a program may repeat it. RuntimeError for a program that does not declare `aborts = True`.

        Work that peers have under way with this rank may still end for each of them; from some time on, it does not
        end. The peers get no exception. A peer that waits stands there until it aborts the communicator itself,
        although gloo itself would raise when the connection closes. Default site: "<communicator>.abort".
        """

    @abstractmethod
    def destroy(self, *, site: str | None = None) -> HostWork[HostArray]:
        """Leave the communicator together with all other members, as the last call of each on it: a barrier.
        RuntimeError for every later call. Default site: "<communicator>.destroy".
        """


class DeviceCommunicator(ABC):
    """A group of ranks that exchange device memory in stream order (NCCL).

    All members make the same collectives in the same order. A collective holds a member's stream until the members
    whose elements it gets have reached it on their streams. `HostCommunicator` says which members these are, and what
    the completion of a member proves. A member that neither gives nor gets elements has no part. Nothing happens on its
    stream, and its call has no place in the order of the communicator. The ops that a rank puts on one communicator,
    transfers included, happen in that order, on all of its streams. Each starts when the one before has ended on this
    rank, and finds the memory as that one left it. Two communicators over the same ranks are independent (siblings).
    Default site: "<communicator>.<collective>". ValueError if a root or peer is no member, the peer is this rank
    itself, or sizes do not fit the buffers.
    """

    __slots__ = ("index", "name", "ranks")

    name: str
    ranks: tuple[int, ...]
    index: int

    @property
    def size(self) -> int:
        return len(self.ranks)

    @collective
    def all_reduce(self, buffer: Buffer, stream: Stream, *, op: ReduceOp = "sum", site: str | None = None) -> None:
        """Put an in-place reduction over the group on `stream`. Equal sizes."""

    @collective
    def broadcast(self, buffer: Buffer, root: int, stream: Stream, *, site: str | None = None) -> None:
        """Put an in-place broadcast from global rank `root` on `stream`. Equal sizes. It is no barrier: it may end for
        the root before the others have arrived, and for a receiver before another one has.
        """

    @collective
    def reduce(
        self, buffer: Buffer, root: int, stream: Stream, *, op: ReduceOp = "sum", site: str | None = None
    ) -> None:
        """Put a reduction over the group on `stream`, in place on global rank `root`. It reads the buffers of the
        others and does not change them. Equal sizes. It is no barrier: it may end for the others before the root has
        arrived. Source: ncclReduce, whose receive buffer counts only on the root.
        """

    @collective
    def all_gather(
        self,
        output: Buffer,
        source: Buffer,
        stream: Stream,
        *,
        sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> None:
        """Gather the members' `source` buffers one after the other into `output`.

        `sizes`: elements that each member brings, in group order, known to all; None if all are equal.
        """

    @collective
    def reduce_scatter(
        self,
        output: Buffer,
        source: Buffer,
        stream: Stream,
        *,
        op: ReduceOp = "sum",
        sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> None:
        """Reduce the members' `source` buffers and give each member its piece. `sizes`: elements of the pieces."""

    @collective
    def all_to_all(
        self,
        output: Buffer,
        source: Buffer,
        stream: Stream,
        *,
        output_sizes: Sequence[int] | None = None,
        source_sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> None:
        """Send piece i of `source` to member i and put the piece from member i at place i of `output`.

        `source_sizes`: elements that go to each member; `output_sizes`: elements that come from each. None: equal
        pieces.
        """

    @collective
    def gather(
        self,
        output: Buffer | None,
        source: Buffer,
        root: int,
        stream: Stream,
        *,
        site: str | None = None,
    ) -> None:
        """Gather the members' `source` buffers one after the other into `output` on global rank `root`. The others give
        None for `output`, or a buffer that does not change. Equal sizes. It is no barrier: it may end for the others
        before the root has arrived.
        """

    @collective
    def scatter(
        self,
        output: Buffer,
        source: Buffer | None,
        root: int,
        stream: Stream,
        *,
        site: str | None = None,
    ) -> None:
        """Put this member's piece of the `source` of global rank `root` into `output`. The others give None for
        `source`, or a buffer that the call does not read. Equal pieces. It is no barrier: it may end for the root
        before the others have arrived.
        """

    @abstractmethod
    def send(self, buffer: Buffer, to: int, stream: Stream, *, site: str | None = None) -> None:
        """Put a transfer to global rank `to` on `stream`. It may end before the peer receives (eager) or hold the
        stream until then (rendezvous). Two sends may differ: a correct protocol tolerates all of these.
        """

    @abstractmethod
    def recv(self, buffer: Buffer, source: int, stream: Stream, *, site: str | None = None) -> None:
        """Put a transfer from global rank `source` on `stream`."""

    @abstractmethod
    def occupy(self, places: int) -> None:
        """Let each collective and transfer that this rank puts on the communicator from now on take `places` places of
        the device. It takes them all at once and keeps them while it waits for its peers; 1 at first. Ops of a graph
        keep the number of their capture. Places are finite if the world says so (`World.residency`); a real device
        ignores this call. ValueError for less than one.
        """

    @abstractmethod
    def coalesced(self, stream: Stream) -> AbstractContextManager[None]:
        """Transfers within the block go out as one group, without an order among themselves. So two ranks may both send
        first. Each comes after the earlier work of the stream and the communicator; work behind the group comes after
        all of them. All name this `stream` (ValueError). RuntimeError for anything but transfers, and for a group
        within a group. The group is open for all host threads of the rank.
        """

    @abstractmethod
    def abort(self, *, site: str | None = None) -> None:
        """As that of a `HostCommunicator`. The call breaks off the work that this rank has put on the communicator and
        that has not ended. That work ends some time after this call, with undefined contents in its buffers, and the
        streams continue behind it. If a thread of this rank waits for work behind it on the streams, to read or to
        synchronise, the wait ends with Aborted.
        """


class CaptureError(RuntimeError):
    """A call that a capture does not allow. `code`: the number by which CUDA names the reason, 900 to 908
    (`CAPTURE_ERRORS`). The capture is invalid from then on: later calls in it raise 901.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (CUDA error {code}, {CAPTURE_ERRORS[code]})")
        self.code = code


class Graph(ABC):
    """Device work that a program keeps once and issues as a whole, any number of times: a CUDA graph.

        async with graph.capture(stream):
            stream.launch("scale", scale, reads=[x], writes=[y])        # kept, not run
            ep.all_reduce(y, stream)
        graph.replay(stream, "decode")                                   # runs both, on the memory of the capture

    Between its beginning and its end, a capture keeps the plain calls on the captured stream. A stream that waits for
    an event of the capture joins it. The captured stream in turn has to wait for its work before the end (otherwise
    904). Other streams continue as usual. Kernels, buffers, arguments and sizes are those of the capture, whatever the
    program does to them later. A replay does not run code of the host.

    Memory that a capture takes on one of its streams comes from the graph's pool, which other graphs may share. The
    program may give it back within the capture or after it. Then later allocations of the pool may get it, on the same
    stream and of the same kind of blocks (see `Buffer.free`). This includes allocations of other captures. The program
    may still use the buffer, as a weak reference. It has the contents of the last replay until one of two events, which
    concern memory taken after the program gave the buffer back. Either a replay takes such memory again, or the program
    uses it. Kernels and collectives, too, take memory for themselves and give it back at once. So a replay may
    overwrite memory of its pool that it does not write itself. This is memory taken on the same stream after the
    graph's first call there, or after the graph gave memory back. Other buffers have to live as long as the program
    replays the graph: a replay on freed memory is a finding (STALE:FREED).

    Within a capture, a call that learns from the device or from a peer raises 900. Such calls are a read, a query of an
    event, a host collective or transfer, and a look into or for a store. A look into a mailbox is one, too. For an
    event of the capture the code is 907. A wait for an event recorded outside raises 905, and a second capture 902.
    After the capture its events are invalid: 907. A thread that captures may send a message, or set a key of a store.
    This is a finding (GRAPH:HOST_EFFECT), because no replay does it. To replay a graph on a stream of the capture
    raises 900 as well. The host thread that began a capture has to end it (otherwise 908), except in mode "relaxed".
    Calls that concern only the host (`decide`, `probe`, `sleep`) happen once, in the capture, and in no replay.

    All members of a communicator capture the same collectives in the same order, and replay the graphs of one capture
    together. If one member is eager and another is not, the hardware pairs them all the same, and this is a finding
    (GRAPH:UNPAIRED). Replays of one graph run one after the other, on all streams. A fault or delay can be at a kept
    call, and a delay or death at a replay. Neither can be at a call within a replay.
    """

    __slots__ = ("name",)

    name: str

    @abstractmethod
    def capture(
        self, stream: Stream, *, mode: CaptureMode = "global", site: str | None = None
    ) -> AbstractAsyncContextManager[None]:
        """Keep the calls on `stream`. The beginning waits until all streams of the rank are idle.

        `mode`: which calls of the rank the capture refuses. "global": those of all its host threads. "thread_local":
        those of this thread. "relaxed": also those of this thread, except for queries and reads of events and buffers
        that the capture does not contain. Default site: "<graph>.capture". RuntimeError if the program has captured the
        graph already. If the block raises, the capture ends without a graph, and the program may capture it anew.
        """

    @abstractmethod
    def replay(self, stream: Stream, site: str) -> None:
        """Put the kept work on the stream. It starts after the earlier work of the stream and after the last replay.
        Later work on this stream starts when all of it has ended. RuntimeError if the program has captured nothing.
        """


class Mailbox(ABC):
    """Messages to one rank, in the order of their arrival. Messages of one sender arrive in the order in which it sends
    them.
    """

    __slots__ = ()

    @abstractmethod
    def poll(self, site: str) -> Awaitable[Frozen]:
        """The next message, or None if there is none yet."""

    @abstractmethod
    def get(self, site: str, *, idle: bool = False, timeout_ns: int | None = None) -> Awaitable[Frozen]:
        """Wait for the next message; None when the time is up. Without a time-out the wait may last without end. `idle`
        declares that this is no hang. ValueError for both. A time-out of 0 is a poll.
        """


class Flag(ABC):
    """A signal between the host threads of a rank: set or not, clear at first, like Python's `threading.Event`.
    Programs make a baton, a lock or a barrier from flags.

    A thread that waits when another one sets the flag continues, even if a thread clears the flag before it does so. A
    wait does not clear the flag. A wait begins, and a query looks, at the call, even if the program awaits it later.
    The ops of a thread before its set come before the ops that continue because of the set.
    """

    __slots__ = ("name",)

    name: str

    @abstractmethod
    def set(self, site: str) -> None:
        """Set the flag and release the threads that wait. A flag that is set stays set."""

    @abstractmethod
    def clear(self, site: str) -> None:
        """Clear the flag. Later waits last until the next set."""

    @abstractmethod
    def wait(self, site: str) -> Awaitable[None]:
        """Wait until the flag is set; if it is set, continue at once."""

    @abstractmethod
    def query(self, site: str) -> Awaitable[bool]:
        """Whether it is set."""


class Thread(ABC):
    """A host thread that the program started."""

    __slots__ = ("name",)

    name: str

    @abstractmethod
    def join(self, site: str) -> Awaitable[str | None]:
        """Wait until the thread has ended. Returns None, or the exception that it raised, as "ValueError: the message".
        A joined exception is no crash of the rank.
        """


class Store(ABC):
    """A table of keys and values behind a port of a node, like torch's TCPStore. Processes that do not share a
    communicator yet find one another there. One process listens, others join it by node and port, and all of them use
    it alike.

    A port belongs to one listener at a time, and other programs of the node listen, too (`World.strangers`). A process
    that joins a port gets the listener of that port, and cannot recognise a stranger by that.
    """

    __slots__ = ("node", "port")

    node: int
    port: int

    @abstractmethod
    def set(self, key: str, value: Frozen, site: str) -> None:
        """Send a value, plain data as in a message; it arrives some time later. The last value counts. The values of
        one rank arrive in the order of its calls.
        """

    @abstractmethod
    def get(self, key: str, site: str, *, timeout_ns: int | None = None) -> Awaitable[Frozen]:
        """Wait until the key has a value, and learn it; None when the time is up, or the listener has closed the store.
        The end of the listener's program does not close it. Without a time-out the wait may last without end; with a
        time-out of 0 it looks once.
        """

    @abstractmethod
    def add(self, key: str, amount: int, site: str) -> Awaitable[int | None]:
        """Add to the number of a key, 0 if it has none, and learn the sum. Like the next two calls, it reads and
        changes the key in one step, behind the earlier sets of this rank. None if the listener has closed the store.
        """

    @abstractmethod
    def compare_set(self, key: str, expected: Frozen, desired: Frozen, site: str) -> Awaitable[Frozen]:
        """Give the key a value if it has the expected one, or if it has none and the expected one is empty text. Learn
        the value that the key has afterwards; the expected one, if it has none. Source:
        torch.distributed.Store.compare_set.
        """

    @abstractmethod
    def delete(self, key: str, site: str) -> Awaitable[bool | None]:
        """Delete the key's value, and learn whether it had one."""

    @abstractmethod
    def close(self, site: str) -> None:
        """Leave the store. The listener gives the port back, and processes that still wait learn None. RuntimeError for
        any use afterwards.
        """


class Rank(ABC):
    """One rank, as each of its host threads sees it. A protocol sees the world only through it.

    A rank begins with the thread "main", and a program that declares `threaded = True` may start more. Streams,
    buffers, graphs, communicators, mailboxes and flags belong to the rank, and all of its threads may use them.
    `thread` and `step` are those of the calling thread. Ops of the threads on the rank's streams and communicators are
    in the order of the calls. No program can rely on that order, because a thread may stop before each of its calls.
    """

    __slots__ = ("rank", "step")

    rank: int
    """Global rank, from 0."""
    step: int
    """Logical step tag, -1 at first, `NO_STEP` for work in no step. The protocol sets it; every op issued afterwards
    carries it, and checks compare ranks step by step."""

    @property
    @abstractmethod
    def thread(self) -> str:
        """The name of the calling host thread."""

    @abstractmethod
    def stream(self, name: str) -> Stream:
        """The stream of that name, which the first use makes."""

    @abstractmethod
    def graph(self, name: str, pool: str | None = None) -> Graph:
        """The graph of that name, which the first use makes. `pool`: the name of the pool of its memory, which graphs
        may share; None: a separate pool. ValueError for another pool than at first, and for a name that is no word.
        """

    @abstractmethod
    def host(self, kind: str) -> HostCommunicator:
        """This rank's host communicator of that kind ("dp_cpu"). KeyError names the kinds that the rank has."""

    @abstractmethod
    def device(self, kind: str) -> DeviceCommunicator:
        """This rank's device communicator of that kind ("dp", "ep"). KeyError names the kinds that the rank has."""

    @abstractmethod
    def group(
        self, name: str, ranks: Sequence[int], *, device: bool = False, site: str | None = None
    ) -> Awaitable[HostCommunicator]:
        """Make a host communicator of these ranks, together with them; `host(name)` gives it from then on. `device`:
        make a device communicator of that name, too, which `device(name)` gives.

        Only the members call this. Each waits until all have called it. All give the same ranks in the same order
        (otherwise MISMATCH:GROUP:RANKS). Two ranks that make several groups together make them in the same order.
        Otherwise each waits for the other (HANG:COLLECTIVE:ORDER_ACROSS_GROUPS). Records name the communicator
        "<name>[0,1]". With `device` this is the name of the device communicator, and the other one is
        "<name>[0,1].host". The call is a barrier on the host communicator.

        ValueError for a name that is no word or that the rank has already. ValueError for a list of ranks that has an
        unknown rank, a rank twice, or not this rank. Default site: "<name>.group". Torch has it as
        torch.distributed.new_group with `use_local_synchronization`.
        """

    @abstractmethod
    def mailbox(self, name: str) -> Mailbox:
        """This rank's mailbox of that name; there is one of each name on each rank."""

    @abstractmethod
    def flag(self, name: str) -> Flag:
        """This rank's flag of that name, which the first use makes."""

    @abstractmethod
    def start(
        self, name: str, program: Callable[[Rank], Coroutine[Any, Any, None]], *, site: str | None = None
    ) -> Thread:
        """Start a host thread that runs `program(rank)`, with the step of the thread that starts it. Its ops come after
        all earlier ops of that thread. Default site: "<name>.start".

        The rank has ended when all of its threads have. If a thread raises and no thread joins it, this is a crash of
        the rank. A program can use a name again after it joined the thread. RuntimeError for a program that does not
        declare `threaded = True`, and for a name in use. ValueError for a name that is no word, TypeError if `program`
        is no coroutine function.
        """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of this service (`Program.services`); empty for a rank of the topology."""

    @abstractmethod
    def service(self, name: str) -> int:
        """The number by which messages reach a service. The numbers of services follow those of the ranks, in the order
        in which the program names them. Services have no device work, and only the host communicators of which
        `Program.groups` makes them members. KeyError names the existing services.
        """

    @property
    @abstractmethod
    def node(self) -> int:
        """The node of this rank or service, from 0."""

    @abstractmethod
    def open_store(self, port: int, site: str) -> Awaitable[Store | None]:
        """Listen on a port of this node, 0 for any free port. Returns the store, whose `port` is the number, or None if
        another process already listens there (EADDRINUSE). ValueError for a number that is no port.
        """

    @abstractmethod
    def join_store(self, node: int, port: int, site: str, *, timeout_ns: int | None = None) -> Awaitable[Store | None]:
        """Connect to the listener of that port, as soon as there is one. Returns the store, or None when the time is
        up. With a time-out of 0 it looks once.
        """

    @abstractmethod
    def send(self, to: int, mailbox: str, message: Frozen, site: str) -> None:
        """Send a message to a mailbox of global rank `to`. A message has numbers, strings, booleans, None and tuples of
        these. It is not None itself, which `poll` returns for an empty mailbox, and not NaN, which equals nothing
        (ValueError).
        """

    @abstractmethod
    def watch(self, actor: int, mailbox: str, site: str) -> None:
        """Ask for a message when a rank or service is gone: its program has ended or raised, or its process died. Then
        the message ("gone", actor) arrives in this rank's mailbox, once for each call. It arrives behind all messages
        of that actor that arrive there at all. No actor sends it: the machine does (a sentinel of the process, a pipe
        that closes). It also arrives if the actor is gone already. It may arrive long after the end, and work that the
        actor began may continue.

        An actor that waits in an idle get at the end of a run is not gone, nor is an actor that hangs. ValueError for a
        number that is no rank or service, and for this rank itself.
        """

    @abstractmethod
    def sleep(self, ns: int, site: str) -> Awaitable[None]:
        """Suspend the host for `ns` nanoseconds of simulated or real time."""

    @abstractmethod
    def turn(self, site: str) -> Awaitable[None]:
        """Let other host threads of this rank continue, if there are any. In the simulation, the Python code of a
        thread between two calls is one step. By this call a thread permits an interruption there. Its record is a sleep
        of 0 ns.
        """

    @abstractmethod
    def decide(self, label: str, value: Frozen, kind: str, *, local: bool = False) -> None:
        """Record a value. Every member of this rank's communicator of that kind has to decide the same value in this
        step.

        The trace and the agreement check get the value; the call sends nothing. The value is plain data, as in a
        message, or None. NaN is a ValueError, because it does not equal itself. The check compares values by step, and
        by count within a step. A member that takes part in the step and does not decide this label disagrees. So does a
        misspelt label, and one that a rank decides on another communicator.

        `local`: only some members decide the value, for instance if only a last stage has results. The check compares
        those that decide it. Between its first and its last decision, a member may not leave one out.
        """

    @abstractmethod
    def probe(self, label: str) -> None:
        """Mark that the protocol reached this place, so that a test can check for it. The trace has the mark."""
