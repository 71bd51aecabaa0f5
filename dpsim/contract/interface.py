"""THE contract between a program (a coordination protocol) and a backend.

A protocol is a coroutine that interacts with other ranks and its device only through its `Rank`. The simulation
suspends the coroutine at every await. On real hardware the calls block, and one `send(None)` runs it to its end. One
rule makes both possible:

    **A call that only sends into the world is plain; a call that learns something from it is awaited.**

Plain calls, which a program does not await, are alloc, free, launch, record, wait, and device collectives and
transfers. Plain as well are the calls that replay a graph, start a host collective, send a message, start a thread or
set a flag. A program awaits the `Work` of a host collective, a read of a buffer, and a query or synchronisation of an
event. It also awaits a message, a flag, the end of a thread, a sleep and the beginning of a capture. A program reads
like CUDA, and only calls that learn something are `async`.

    async def agree(rank: Rank, mine: int) -> int:
        table = np.zeros(rank.host("dp_cpu").size, np.int32)
        table[rank.host("dp_cpu").index] = mine
        table = await rank.host("dp_cpu").all_reduce(table, site="agree")
        rank.decide("largest", int(table.max()), "dp_cpu")
        return int(table.max())

Host and device communicators are two classes, because a program awaits a host collective, and orders a device
collective by a stream. A single method for both would invite mistakes. Every op has a *site*: a word in the source,
without spaces. The address of an op is its rank, its site and its number there (see `dpsim.contract.ops`). Ranks are
global ranks everywhere, also as roots, sources and destinations.

A program's coroutine awaits only the results of the calls in this module. A program cannot add attributes to the
objects of this module (AttributeError); it keeps its state in local variables.

The classes here are abstract and have no behaviour. Their docstrings define what a backend has to do, and
`dpsim.testing.check_backend` tests a backend against them. This module contains only calls that sim, gloo and nccl all
support.
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
"""The step tag of a rank or service that works in no step, such as a front end. Reports list its findings last."""

_Call = TypeVar("_Call", bound=Callable[..., Any])


def collective(call: _Call) -> _Call:
    """Marks the signature of a collective. `dpsim.contract.collectives` contains a file of that name with all rules of
    the collective, and `dpsim.backend` makes the method from it. Until then the class is abstract, and type checkers do
    not see the generated method.
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
        """Copies the buffer to the host. The read waits until all present work of `stream` is done (default: the
        buffer's own stream).

        The result is a new numpy array of the buffer's shape and dtype. Await it once.
        """

    @abstractmethod
    def record_stream(self, stream: Stream) -> None:
        """Declares that `stream` uses this memory. After `free`, the allocator does not reuse it before the work that
        `stream` has *at the free* is done. Without this call, it may reuse the memory while the other stream still
        works on it.
        """

    @abstractmethod
    def free(self) -> None:
        """Returns the memory to the stream's pool. Later work on the *same* stream may reuse it at once, without
        waiting. A program must not use a freed buffer or its views again (RuntimeError). Work that it launched before
        the free is no such use.

        A program must not assume which later buffer gets the memory. Any later `alloc` on the stream from the same pool
        may get all or part of it, or none. There is one pool for up to 1 MiB, and one for more. So work that still uses
        this memory has to come before all writes to later buffers.
        """

    @abstractmethod
    def tagged(self, tag: Frozen) -> Buffer:
        """Returns the same memory with a version tag, for one call. Ops check tags to find reads of stale data.

        An op that writes a tagged buffer leaves `tag` on these elements. An op that reads a tagged buffer expects the
        tag there; otherwise the run has a finding (STALE:VERSION). A write without a tag removes the tag, and a read
        without a tag expects nothing. An in-place collective leaves the tag and expects none. But in a broadcast the
        root expects it, and in a reduce all members but the root do. This call moves no data and does not wait.
        TypeError for a tag that is no plain data, ValueError for NaN.
        """


class Event(ABC):
    """A point in a stream, made by `Stream.record`."""

    __slots__ = ()

    @abstractmethod
    def query(self, site: str) -> Awaitable[bool]:
        """Whether the event has passed. It passes some time after the work before it is done. A program can rely on
        True only after it waited for the event, got True before, or waited for later work of the stream.
        """

    @abstractmethod
    def synchronize(self, site: str) -> Awaitable[None]:
        """Waits until all work before the event is done."""


class Stream(ABC):
    """A queue of device work, executed in order, while the host runs ahead. Streams run in parallel."""

    __slots__ = ("name",)

    name: str

    @abstractmethod
    def alloc(self, shape: int | tuple[int, ...], dtype: DType, site: str, *, per_replay: bool = False) -> Buffer:
        """Allocates memory for `shape` elements. Its content is undefined: a kernel or a collective has to write it
        first. It may be the memory of any buffer of this stream that the program freed before.

        A kernel gets memory of a type that numpy lacks (bfloat16, float8, complex32) as integers of the same width, on
        every backend. A host gets such elements as numpy's type `dpsim.contract.dtypes.numpy_dtype(dtype)`.

        `per_replay`: the program has to write the buffer before each replay of a graph that reads it. If a replay reads
        the same contents as the replay before, this is a finding (`STALE:NOT_WRITTEN_FOR_REPLAY`). ValueError within a
        capture, because memory that a capture allocates is new in each replay.
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
        """Launches `kernel(*reads, *writes, *args)` on the stream.

        The kernel gets the arrays of the buffers: numpy in the simulation, torch elsewhere. Write it against the array
        API standard. It reads the arrays, writes those of `writes` in place, and returns nothing. If a kernel writes an
        array of `reads`, or returns something, it fails. It may touch no other memory, so dpsim knows exactly what it
        reads and writes. The call binds `args` now; they are plain data (TypeError for an array). The kernel is a plain
        function. The launch refuses any other callable (TypeError), a closure, and a default that is no plain data,
        because these would read later state.

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
        """Records an event after the present work of the stream. `event`: records this event of an earlier call again,
        on any stream of the rank. Later waits for it wait for the new point; earlier waits do not.
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

        When the stream reaches this point, it polls the flag until it is set. So if a thread set the flag before and
        did not clear it, the stream continues at once. If a thread clears the flag before the stream reads it, or too
        soon after the set, the stream waits until the next set. The stream sees each write to the flag before this
        call; it may see a later write some time later. A stream clears no flag. The ops of a thread before its set come
        before the work that continues because of the set.

        A stream cannot wait for a message directly: a host thread takes the message, and sets a flag. A capture
        captures the wait, and each replay reads the flag at that time. ValueError for a flag of another rank.

        In CUDA this is cuStreamWaitValue32 on a word of pinned memory, also in a capture (a batch memory operation).
        CUDA itself does not track the order that results. If a GPU has fewer queues than streams, such a wait may block
        other streams. A host function that blocks (cudaLaunchHostFunc) would block the functions of all streams.
        """


class Aborted(RuntimeError):
    """This rank has aborted the communicator, or the abort broke off the device work that the rank waits for."""


Result = TypeVar("Result", covariant=True)


class HostWork(Awaitable[Result]):
    """A collective or transfer that a host has started. Await it once."""

    __slots__ = ()

    @abstractmethod
    def query(self, site: str) -> Awaitable[bool]:
        """Whether the work has ended for this rank. It may end at any time after it could, whether or not the host
        looks. So a query may return False for any time. A program can rely on True only after it awaited the work, or
        got True before. It can also rely on True after a time-out of this rank, if the work could be over by then. A
        query returns no result, so the program still has to await the work. Raises Aborted if its await would.

        In torch this is `Work.is_completed`. For device collectives, query an event of their stream instead.
        """

    @abstractmethod
    def within(self, timeout_ns: int, site: str) -> Awaitable[bool]:
        """Waits until the work has ended, at most `timeout_ns` nanoseconds. Returns whether it has ended. After a
        time-out the work continues: the program can call this again, and still has to await the work. Raises Aborted if
        its await would; ValueError for less than 1 ns.

        The time-out follows the rules of `Mailbox.get`. In torch this is `Work.wait(timeout)` for a collective of gloo.
        """


class Received(NamedTuple):
    """The result of a receive from any source: the global rank of the sender, and the array."""

    source: int
    array: HostArray


class HostCommunicator(ABC):
    """A group of ranks that exchange host memory (gloo). `index` is this rank's position in `ranks`.

    All members make the same collectives in the same order, with arrays of equal dtype. A collective starts at once,
    with the content that the array has now, and ends in the background. Await its result (a new array) exactly once: a
    second await is a RuntimeError, and a missing await is a finding.

    A call may complete for one member before it completes for another. The contract promises that it waits for the
    members whose elements it receives:

    * all_reduce, reduce_scatter with a piece for it, barrier: all members;
    * all_gather: the members that send elements; all_to_all: those that send elements to it;
    * broadcast, scatter: the root, and the root waits for no member;
    * reduce, gather: the root waits for all, the others for no member.

    If no elements move, it waits for no member. It may also wait for the other members; a correct protocol tolerates
    both. When a call completes for a member, the members for which it waited have *arrived* (issued their call); it
    need not have completed for them.

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
        """The elementwise reduction over the group on global rank `root`; on the others their own input array. Equal
        shapes. It is no barrier: only the root waits, for all members.

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
        """Sends to global rank `to`. The await returns when the program may use the memory again. This may be before
        the peer receives (eager) or only then (rendezvous), and may differ between two sends. Transfers between two
        ranks arrive in order. The result is an empty array.
        """

    @abstractmethod
    def recv(
        self, shape: int | tuple[int, ...], dtype: DType, source: int, *, site: str | None = None
    ) -> HostWork[HostArray]:
        """Receive from global rank `source`."""

    @abstractmethod
    def recv_any(self, shape: int | tuple[int, ...], dtype: DType, *, site: str | None = None) -> HostWork[Received]:
        """Receives from any other member: the next message of the member whose message arrives first. A message may be
        under way for any time, so a message that another member sends later may arrive first. Several of these calls
        take messages in the order of the calls, after earlier receives from a named rank. Until the rank has awaited
        all of them, it may not call a receive from a named rank on the communicator: RuntimeError. Default site:
        "<communicator>.recv_any".

        In gloo this is `recvAnysource`, in MPI MPI_ANY_SOURCE. NCCL has no such call, so device communicators have none
        either.
        """

    @abstractmethod
    def abort(self, *, site: str | None = None) -> None:
        """Aborts the communicator permanently, for this rank only. The call does not wait, and a program may repeat it.
        RuntimeError for a program that does not declare `aborts = True`. Default site: "<communicator>.abort".

        From then on, this rank learns nothing more from the communicator. Every later call on it raises Aborted. So
        does every await, query and `within` of work that started before, even if this rank has found it over. Another
        host thread of this rank that waits gets Aborted; if its work was over before the abort, it may get the result.

        At some time after its abort, perhaps after time-outs, this rank *leaves*. Before that, calls of peers may still
        end with what this rank sent. From then on, a call of a peer that waits for this rank (see the class) and has
        not ended never ends. A message that no receive has received is lost. Calls that have ended stay over. Calls
        that do not wait for this rank end as if nothing had happened: a receive from rank 0 ends although rank 2
        aborted. The peers get no exception. A peer that waits does so until it aborts the communicator itself. (gloo
        itself would raise when the connection closes.)
        """

    @abstractmethod
    def destroy(self, *, site: str | None = None) -> HostWork[HostArray]:
        """Leaves the communicator together with all other members, as the last call of each on it: a barrier.
        RuntimeError for every later call. Default site: "<communicator>.destroy".
        """


class DeviceCommunicator(ABC):
    """A group of ranks that exchange device memory in stream order (NCCL).

    All members make the same collectives in the same order. A collective occupies a member's stream until the members
    whose elements it receives have reached it on their streams. The docstring of `HostCommunicator` lists these
    members, and what a completion proves. If a member neither sends nor receives elements, nothing happens on its
    stream, and its call has no place in the order of the communicator. The ops that a rank puts on one communicator,
    transfers included, happen in that order, on all of its streams. Each starts when the one before has ended on this
    rank, and reads the memory that the one before wrote. Two communicators over the same ranks are independent. Default
    site: "<communicator>.<collective>". ValueError if a root or peer is no member, the peer is this rank itself, or
    sizes do not fit the buffers.
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

        `sizes`: elements that each member sends, in group order, known to all; None if all are equal.
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
        """Sends piece i of `source` to member i, and writes the piece from member i at index i of `output`.

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
        """Sets how many slots of the device each later collective and transfer of this rank on the communicator
        occupies; 1 at first. A call takes all its slots at once and occupies them while it waits for its peers. Ops of
        a graph keep the number at their capture. The number of slots is limited if the world limits it
        (`World.residency`); a real device ignores this call. ValueError for less than one.
        """

    @abstractmethod
    def coalesced(self, stream: Stream) -> AbstractContextManager[None]:
        """Transfers within the block form one group (as ncclGroupStart and ncclGroupEnd do), without an order among
        themselves. So two ranks may both send first. Each comes after the earlier work of the stream and the
        communicator; later work comes after all of them. All have to use this `stream` (ValueError). RuntimeError for
        anything but transfers, and for a group within a group. The group is open for all host threads of the rank.
        """

    @abstractmethod
    def abort(self, *, site: str | None = None) -> None:
        """As `HostCommunicator.abort`, for peers and for later calls. Unfinished collectives and transfers of this rank
        on the communicator end some time after this call. Their buffers then have undefined contents, and the streams
        continue. If a thread of this rank waits for later work of these streams, by a read or a synchronize, the wait
        raises Aborted. Work that had ended before the abort keeps its results.
        """


class CaptureError(RuntimeError):
    """A call that a capture does not allow. `code`: the number by which CUDA names the reason, 900 to 908
    (`CAPTURE_ERRORS`). The capture is invalid from then on: later calls in it raise 901.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (CUDA error {code}, {CAPTURE_ERRORS[code]})")
        self.code = code


class Graph(ABC):
    """A CUDA graph: device work that a program captures once and replays any number of times.

        async with graph.capture(stream):
            stream.launch("scale", scale, reads=[x], writes=[y])        # kept, not run
            ep.all_reduce(y, stream)
        graph.replay(stream, "decode")                                   # runs both, on the memory of the capture

    Between its beginning and its end, a capture captures the plain calls on the captured stream, and the stream does
    not run them. A stream that waits for an event of the capture joins it. The captured stream in turn has to wait for
    its work before the end (otherwise 904). Other streams continue as usual. Kernels, buffers, arguments and sizes are
    those of the capture, whatever the program does to them later. A replay does not run code of the host.

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
        """Captures the calls on `stream`. The beginning waits until all streams of the rank are idle.

        `mode`: which calls of the rank the capture refuses. "global": those of all its host threads. "thread_local":
        those of this thread. "relaxed": also those of this thread, except for queries and reads of events and buffers
        that the capture does not contain. Default site: "<graph>.capture". RuntimeError if the program has captured the
        graph already. If the block raises, the capture ends without a graph, and the program may capture it anew.
        """

    @abstractmethod
    def replay(self, stream: Stream, site: str) -> None:
        """Launches the captured work on the stream. It starts after the earlier work of the stream and after the last
        replay of this graph. Later work on this stream starts when all of it has ended. RuntimeError if the program has
        captured nothing.
        """


class Mailbox(ABC):
    """Messages to one rank, in the order of their arrival. Messages of one sender arrive in the order in which it sends
    them.
    """

    __slots__ = ()

    @abstractmethod
    def poll(self, site: str) -> Awaitable[Frozen]:
        """Returns the next message, or None if there is none yet."""

    @abstractmethod
    def get(self, site: str, *, idle: bool = False, timeout_ns: int | None = None) -> Awaitable[Frozen]:
        """Waits for the next message; returns None if the time-out passes first. Without a time-out the wait may last
        without end; `idle` declares that this is no hang. ValueError for both together. A time-out of 0 is a poll.
        """


class Flag(ABC):
    """A signal between the host threads of a rank: set or not, clear at first, like Python's `threading.Event`.
    Programs make a baton, a lock or a barrier from flags.

    A thread that waits when another one sets the flag continues, even if a thread clears the flag before it does so. A
    wait does not clear the flag. A wait begins, and a query reads the flag, at the call, even if the program awaits it
    later. The ops of a thread before its set come before the ops that continue because of the set.
    """

    __slots__ = ("name",)

    name: str

    @abstractmethod
    def set(self, site: str) -> None:
        """Sets the flag and releases the threads that wait. A flag that is set stays set."""

    @abstractmethod
    def clear(self, site: str) -> None:
        """Clears the flag. Later waits last until the next set."""

    @abstractmethod
    def wait(self, site: str) -> Awaitable[None]:
        """Waits until the flag is set; if it is set, continues at once."""

    @abstractmethod
    def query(self, site: str) -> Awaitable[bool]:
        """Whether it is set."""


class Thread(ABC):
    """A host thread that the program started."""

    __slots__ = ("name",)

    name: str

    @abstractmethod
    def join(self, site: str) -> Awaitable[str | None]:
        """Waits until the thread has ended. Returns None, or the exception that it raised, as "ValueError: the
        message". A joined exception is no crash of the rank.
        """


class Store(ABC):
    """A table of keys and values behind a port of a node, like torch's TCPStore. Processes that do not share a
    communicator yet use it to find one another. One process listens, others join it by node and port, and all of them
    use it in the same way.

    A port belongs to one listener at a time. Other programs of the node may listen, too (`World.strangers`). A process
    that joins a port reaches its present listener, and cannot see whether that is a stranger.
    """

    __slots__ = ("node", "port")

    node: int
    port: int

    @abstractmethod
    def set(self, key: str, value: Frozen, site: str) -> None:
        """Sends a value, plain data as in a message; it arrives some time later. The last value counts. The values of
        one rank arrive in the order of its calls.
        """

    @abstractmethod
    def get(self, key: str, site: str, *, timeout_ns: int | None = None) -> Awaitable[Frozen]:
        """Waits until the key has a value, and returns it. Returns None if the time-out passes, or if the listener has
        closed the store. The end of the listener's program does not close it. Without a time-out the wait may last
        without end; with a time-out of 0 it reads once.
        """

    @abstractmethod
    def add(self, key: str, amount: int, site: str) -> Awaitable[int | None]:
        """Adds to the number of a key (0 if it has none), and returns the sum. Like `compare_set` and `delete`, it
        reads and changes the key in one step, after the earlier sets of this rank. Returns None if the listener has
        closed the store.
        """

    @abstractmethod
    def compare_set(self, key: str, expected: Frozen, desired: Frozen, site: str) -> Awaitable[Frozen]:
        """Sets the key if it has the expected value, or if it has none and the expected value is empty text. Returns
        the value that the key has afterwards; the expected one, if it has none. Source:
        torch.distributed.Store.compare_set.
        """

    @abstractmethod
    def delete(self, key: str, site: str) -> Awaitable[bool | None]:
        """Deletes the key's value, and returns whether it had one."""

    @abstractmethod
    def close(self, site: str) -> None:
        """Leaves the store. If the listener leaves, the port becomes free, and processes that still wait get None. The
        same happens some time after the listener dies. RuntimeError for any use afterwards.
        """


class Rank(ABC):
    """One rank, as each of its host threads sees it. A program makes all its calls through this object.

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
        """Returns the stream with that name; the first use creates it."""

    @abstractmethod
    def graph(self, name: str, pool: str | None = None) -> Graph:
        """Returns the graph with that name; the first use creates it. `pool`: the name of its memory pool, which graphs
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
        """Makes a host communicator of these ranks, together with them; `host(name)` returns it from then on. `device`:
        also makes a device communicator, which `device(name)` returns.

        Only the members call this. Each waits until all have called it. All give the same ranks in the same order
        (otherwise MISMATCH:GROUP:RANKS). Two ranks that make several groups together make them in the same order.
        Otherwise each waits for the other (HANG:COLLECTIVE:ORDER_ACROSS_GROUPS). Records name the communicator
        "<name>[0,1]". With `device` this is the name of the device communicator, and the other one is
        "<name>[0,1].host". The call is a barrier on the host communicator.

        ValueError for a name that is no word or that the rank has already. ValueError for a list of ranks that has an
        unknown rank, a rank twice, or not this rank. Default site: "<name>.group". In torch this is
        torch.distributed.new_group with `use_local_synchronization`.
        """

    @abstractmethod
    def mailbox(self, name: str) -> Mailbox:
        """This rank's mailbox of that name; there is one of each name on each rank."""

    @abstractmethod
    def flag(self, name: str) -> Flag:
        """Returns this rank's flag with that name; the first use creates it."""

    @abstractmethod
    def start(
        self, name: str, program: Callable[[Rank], Coroutine[Any, Any, None]], *, site: str | None = None
    ) -> Thread:
        """Starts a host thread that runs `program(rank)`, with the step of the thread that starts it. Its ops come
        after all earlier ops of that thread. Default site: "<name>.start".

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
        """Listens on a port of this node, 0 for any free port. Returns the store, whose `port` is the number, or None
        if another process already listens there (EADDRINUSE). ValueError for a number that is no port.
        """

    @abstractmethod
    def join_store(self, node: int, port: int, site: str, *, timeout_ns: int | None = None) -> Awaitable[Store | None]:
        """Connects to the listener of that port, as soon as there is one. Returns the store, or None if the time-out
        passes. With a time-out of 0 it tries once.
        """

    @abstractmethod
    def send(self, to: int, mailbox: str, message: Frozen, site: str) -> None:
        """Sends a message to a mailbox of global rank `to`. A message consists of numbers, strings, booleans, None and
        tuples of these. It is not None itself, which `poll` returns for an empty mailbox, and not NaN, which equals
        nothing (ValueError).
        """

    @abstractmethod
    def watch(self, actor: int, mailbox: str, site: str) -> None:
        """Watches a rank or service, until it is gone: its program has ended or raised, or its process died. Then the
        message ("gone", actor) arrives in this rank's mailbox, once for each call. It arrives after all messages of
        that actor that arrive there at all. The machine sends it, not the actor (a sentinel of the process, a pipe that
        closes). It also arrives if the actor is gone already. It may arrive long after the end, and work that the actor
        began may continue.

        An actor that waits in an idle get at the end of a run is not gone, nor is an actor that hangs. ValueError for a
        number that is no rank or service, and for this rank itself.
        """

    @abstractmethod
    def sleep(self, ns: int, site: str) -> Awaitable[None]:
        """Suspends the host for `ns` nanoseconds of simulated or real time."""

    @abstractmethod
    def turn(self, site: str) -> Awaitable[None]:
        """Lets other host threads of this rank continue, if there are any. In the simulation, the Python code of a
        thread between two calls is one step; this call splits such a step in two. Its record is a sleep of 0 ns.
        """

    @abstractmethod
    def decide(self, label: str, value: Frozen, kind: str, *, local: bool = False) -> None:
        """Records a decision. Every member of this rank's communicator of that kind has to decide the same value in
        this step.

        The call writes the value into the trace, where the agreement check compares it; it sends nothing to other
        ranks. The value is plain data, as in a message, or None. NaN is a ValueError, because it does not equal itself.
        The check compares values by step, and by count within a step. A member that takes part in the step and does not
        decide this label disagrees. So does a misspelt label, and one that a rank decides on another communicator.

        `local`: only some members decide the value, for instance if only a last stage has results. The check compares
        those that decide it. Between its first and its last decision, a member may not leave one out.
        """

    @abstractmethod
    def probe(self, label: str) -> None:
        """Records in the trace that the program reached this line, so that a test can check for it."""
