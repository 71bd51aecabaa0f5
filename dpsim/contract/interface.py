"""THE contract between a coordination protocol and a backend.

A protocol is a coroutine that touches the world only through its `Rank`. The simulation suspends the coroutine at every
await; on real hardware the calls block and one `send(None)` runs it to its end. One rule makes both possible:

    **A call that only sends into the world is plain; a call that learns something from it is awaited.**

Plain: alloc, free, launch, record, wait, device collectives and transfers, replaying a graph, starting a host
collective, sending a message, starting a thread, setting a flag. Awaited: the `Work` of a host collective, reading a
buffer, querying or synchronising an event, taking a message, waiting for a flag, joining a thread, sleeping, beginning
a capture. It reads like CUDA, and nothing turns `async` for nothing.

    async def agree(rank: Rank, mine: int) -> int:
        table = np.zeros(rank.host("dp_cpu").size, np.int32)
        table[rank.host("dp_cpu").index] = mine
        table = await rank.host("dp_cpu").all_reduce(table, site="agree")
        rank.decide("largest", int(table.max()), "dp_cpu")
        return int(table.max())

Host and device communicators are two classes because one method with two meanings (await it / order it by a stream)
is how protocols get it wrong. Every op has a *site*: a word in the source, without spaces, that makes its address (see
`dpsim.contract.ops`).
Ranks are global ranks everywhere, as roots, sources and destinations too.

A coroutine awaits what these calls give, and nothing else. The objects take no attributes but their own
(AttributeError): what a protocol keeps, it keeps in local variables.

Classes here are abstract and hold no behaviour: the docstrings are the law, `dpsim.testing.check_backend` is its
judge. Only what all of sim, gloo and nccl can do is in here.
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
"""The step tag of an actor that works in no step, as a front end of services. Its findings come behind all others."""

_Call = TypeVar("_Call", bound=Callable[..., Any])


def collective(call: _Call) -> _Call:
    """Mark the signature of a collective. `dpsim.contract.collectives` has a file of that name with all that holds for
    it, and `dpsim.backend` makes the method of that. Until then a class is abstract; a type checker cannot see it made.
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

        A view is not freed; it ends with its buffer. IndexError if the rows are not within the buffer.
        """

    @abstractmethod
    def read(self, site: str, stream: Stream | None = None) -> Awaitable[HostArray]:
        """Copy to the host: waits until all work put on `stream` so far is done (default: the buffer's own stream).

        The result is a new numpy array of the buffer's shape and dtype. Await it once.
        """

    @abstractmethod
    def record_stream(self, stream: Stream) -> None:
        """Say that `stream` uses this memory: after `free` it is not reused before the work that `stream` has *then* is
        done. Without it the memory may be reused while the other stream still works on it.
        """

    @abstractmethod
    def free(self) -> None:
        """Give the memory back to the stream's pool. Later work on the *same* stream may reuse it at once, without
        waiting. A freed buffer and its views must not be used again: RuntimeError. Work put on streams before is work
        in flight, and no such use.

        Which buffer gets the memory nobody may count on: any later `alloc` on the stream from the same pool (one for up
        to 1 MiB, one for more), in whole or in part, or none. So whatever still uses this memory has to come before all
        that writes the later ones.
        """

    @abstractmethod
    def tagged(self, tag: Frozen) -> Buffer:
        """The same memory, named together with the version that it should have, for one call.

        An op that writes it so leaves `tag` on these elements; an op that reads it so expects to find the tag there,
        else the run has a finding (STALE:VERSION). A write without a tag leaves none, a read without one expects
        nothing. A collective in place leaves the tag and expects none; of a broadcast the root expects it, of a reduce
        all but the root. Nothing is moved or waited for. TypeError for a tag that is no plain data, ValueError for NaN.
        """


class Event(ABC):
    """A point in a stream, made by `Stream.record`."""

    __slots__ = ()

    @abstractmethod
    def query(self, site: str) -> Awaitable[bool]:
        """Whether the point has passed. It passes some time after the work before it is done. So only a host that has
        waited for the event, has found it passed, or has waited for something behind it can count on yes.
        """

    @abstractmethod
    def synchronize(self, site: str) -> Awaitable[None]:
        """Wait until all work before the point is done."""


class Stream(ABC):
    """A queue of device work, executed in order, while the host runs ahead. Streams run side by side."""

    __slots__ = ("name",)

    name: str

    @abstractmethod
    def alloc(self, shape: int | tuple[int, ...], dtype: DType, site: str, *, per_replay: bool = False) -> Buffer:
        """Take memory for `shape` elements. Its content is undefined: a kernel or a collective has to write it
        first. It may be that of any buffer of this stream that was freed before.

        A kernel gets memory of a type that numpy lacks (bfloat16, float8, complex32) as integers of the same width, on
        every backend. A host gets such elements as numpy's type `dpsim.contract.dtypes.numpy_dtype(dtype)`.

        `per_replay`: each replay of a graph reads fresh contents. A replay that reads what the replay before it has
        read, with no write in between, is a finding (`STALE:NOT_WRITTEN_FOR_REPLAY`). ValueError within a capture: the
        memory that a capture takes is new in each replay.
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

        The kernel gets the arrays of the buffers (numpy in the simulation, torch elsewhere; write it against the array
        API standard), reads them, writes in place those of `writes` and returns nothing; one that writes what it only
        reads, or returns something, fails. It may touch no others: its footprint is exact by construction. `args` are
        bound now, plain data (TypeError for an array). The kernel is a plain function: whatever else can be called is
        refused (TypeError), and so are a closure and a default that is no plain data, since they would read tomorrow's
        state.

        The same holds for globals, of the kernel and of each function of a program that it calls. A kernel may use
        functions, classes, modules, and a cache of a function (functools.cache). Values have to stay as they are:
        numbers, text, tuples, enums, dtypes, frozen dataclasses. A launch refuses anything else by name: a list, a
        dictionary, an array, a ContextVar, `os.environ`, an object or a method bound to one. It refuses a global that
        a function of its module sets. A kernel may set no global and no attribute, nor may it call `globals`, `setattr`
        or `exec`. Lambdas, functions and comprehensions within a kernel are part of it. No program may set a number
        that a kernel reads. A kernel that keeps an array fails where the backend sees it.

        `cost`: nanoseconds of device time in the simulation, None for the backend's default; real hardware
        ignores it.
        """

    @abstractmethod
    def record(self, event: Event | None = None) -> Event:
        """Mark the point that the stream's work has come to. `event`: one that was recorded before is recorded again,
        on whatever stream of the rank; who waits for it from now on waits for this point, who waited before does not.
        """

    @abstractmethod
    def wait(self, event: Event) -> None:
        """Later work on this stream starts after the event's point. The host does not wait."""

    @abstractmethod
    def wait_stream(self, other: Stream) -> None:
        """Later work on this stream starts after all that `other` has so far: `wait(other.record())`."""

    @abstractmethod
    def wait_flag(self, flag: Flag, site: str) -> None:
        """Later work on this stream starts when it finds the flag set. The host does not wait.

        The stream looks when it has come so far, at the flag as the host has left it, and again and again until it is
        set. So it goes on at once behind a flag that was set before and was not cleared; and a flag that is cleared
        before the stream has come to look, or too soon after it was set, holds the stream until it is set once more.
        What is written to a flag before this call is seen; later it may take a while. A stream clears no flag. What a
        thread did before it set the flag lies before what goes on because of that.

        A message needs no call of its own: a host thread takes it, and sets a flag. In a capture the wait is kept, and
        each replay looks at the flag as it is then. ValueError for a flag of another rank.

        CUDA has it as cuStreamWaitValue32 on a word of pinned memory, also in a capture (a batch memory operation). It
        learns nothing of the order that comes of it: what waits so may stand in the way of other streams where a GPU
        has fewer queues than streams. A host function that blocks (cudaLaunchHostFunc) would hold those of all streams.
        """


class Aborted(RuntimeError):
    """This rank has aborted the communicator, or the work of its device that it waits for was broken off by that."""


Result = TypeVar("Result", covariant=True)


class HostWork(Awaitable[Result]):
    """A collective or transfer of a host that was started. Await it once."""

    __slots__ = ()

    @abstractmethod
    def query(self, site: str) -> Awaitable[bool]:
        """Whether it is over. It is over for this rank some time after it could be, so the answer may be no for any
        time. Only a host that has awaited it, or has found it over, can count on yes. To ask takes no result: it has to
        be awaited all the same. Raises Aborted where its await does.

        As `is_completed` of torch's Work. NCCL's collectives have no such work: ask for an event of their stream.
        """

    @abstractmethod
    def within(self, timeout_ns: int, site: str) -> Awaitable[bool]:
        """Wait until it is over, at most for this time, and learn whether it is. The call goes on behind a time-out: it
        can be asked again, and has to be awaited all the same. Raises Aborted where its await does; ValueError for
        less than 1 ns.

        A time-out passes as that of a mailbox does. As `wait(timeout)` of torch's Work for a collective of gloo.
        """


class Received(NamedTuple):
    """What a receive from any source gives: the global rank that sent, and the array."""

    source: int
    array: HostArray


class HostCommunicator(ABC):
    """A group of ranks that exchange host memory (gloo). `index` is this rank's position in `ranks`.

    All members make the same collectives in the same order, with arrays of equal dtype. A collective starts at
    once, with the content that the array has now; await its result (a new array) exactly once: a second await is a
    RuntimeError, and one that is never awaited is a finding.

    Each member is through by itself. The contract promises that it waits for the members whose elements it gets:

    * all_reduce, reduce_scatter with a piece for it, barrier: all members;
    * all_gather: the members that bring something; all_to_all: those that have something for it;
    * broadcast, scatter: the root, and the root waits for no member;
    * reduce, gather: the root waits for all, the others for no member.

    Where no elements move, it waits for no member. It may wait for the others too; a correct protocol tolerates both.
    When a member is through, the members it waited for had *come*; they need not be through.

    Elements of every type can be moved. bool, int8, uint8, int32, int64, float16, bfloat16, float32 and float64 can be
    reduced, with "sum", "max", "min" and "prod". The floating-point ones have "avg", too, and the others "band", "bor"
    and "bxor". Anything else is a ValueError: gloo and NCCL have none. The order in which a library adds floating-point
    numbers is open, and so is the rounding of an average.

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
        Equal shapes. It is no barrier: only the root waits, for all.

        Torch leaves open what the others get (`torch.distributed.reduce`), MPI and NCCL have no result for them.
        """

    @collective
    def all_gather(
        self, array: HostArray, *, sizes: Sequence[int] | None = None, site: str | None = None
    ) -> HostWork[HostArray]:
        """The arrays of all members one after the other, flat. `sizes`: elements of each; None if all bring as many."""

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
        """Send piece i of the array to member i; what came from all members one after the other, flat.

        `source_sizes`: elements that go to each member; `output_sizes`: elements that come from each. None: equal
        pieces.
        """

    @collective
    def gather(self, array: HostArray, root: int, *, site: str | None = None) -> HostWork[HostArray]:
        """The arrays of all members one after the other, flat, on global rank `root`; on the others an empty array.
        Equal shapes. It is no barrier: only the root waits, for all.
        """

    @collective
    def scatter(self, array: HostArray, root: int, *, site: str | None = None) -> HostWork[HostArray]:
        """This member's piece of the array of global rank `root`, flat. Equal shapes, of as many elements for each
        member; of the others' arrays nothing is read. It is no barrier: the root waits for no member.
        """

    @collective
    def barrier(self, *, site: str | None = None) -> HostWork[HostArray]:
        """Wait for all members. The result is an empty array."""

    @abstractmethod
    def send(self, array: HostArray, to: int, *, site: str | None = None) -> HostWork[HostArray]:
        """Send to global rank `to`. The await returns when the memory may be used again: before the peer receives, or
        not until then, and of two sends the one so and the other so. Transfers between two ranks arrive in order. The
        result is an empty array.
        """

    @abstractmethod
    def recv(
        self, shape: int | tuple[int, ...], dtype: DType, source: int, *, site: str | None = None
    ) -> HostWork[HostArray]:
        """Receive from global rank `source`."""

    @abstractmethod
    def recv_any(self, shape: int | tuple[int, ...], dtype: DType, *, site: str | None = None) -> HostWork[Received]:
        """Receive from any other member: the next message of one of them, whichever comes first. A message may be under
        way for any time, also where another one was sent later. Several of these calls take messages in the order of
        the calls, and behind the receives from a named rank that were called before. Until all of them were awaited
        this rank may call no receive from a named rank on the communicator: RuntimeError. Default site:
        "<communicator>.recv_any".

        As gloo's `recvAnysource`, and MPI's MPI_ANY_SOURCE. NCCL has none, so device communicators have none either.
        """

    @abstractmethod
    def abort(self, *, site: str | None = None) -> None:
        """Give the communicator up, for this rank alone and for good. Whoever of this rank waits on it, in another host
        thread, gets Aborted, and so does every later call on it and every await of what was started before. It does not
        wait, and may be called twice. RuntimeError for a program that does not say `aborts = True`.

        What the peers have under way with this rank may still end for each of them, or not at all, from some time on.
        Nobody is told: a peer that waits stands there until it aborts the communicator itself, also where a library
        would raise (gloo, when the connection closes). Default site: "<communicator>.abort".
        """

    @abstractmethod
    def destroy(self, *, site: str | None = None) -> HostWork[HostArray]:
        """Leave the communicator together with all other members, as the last that each does with it: a barrier.
        RuntimeError for every later call. Default site: "<communicator>.destroy".
        """


class DeviceCommunicator(ABC):
    """A group of ranks that exchange device memory in stream order (NCCL).

    All members make the same collectives in the same order. A collective holds a member's stream until those have come
    to it, on their streams, whose elements the member gets; who they are, and what it says that a member is through, is
    as for a `HostCommunicator`. A member that neither gives elements nor gets any has no part: nothing happens on its
    stream, and the call has no place in the order of the communicator. What a rank puts on one communicator, transfers
    too, happens in that order, on whatever streams: each starts when the one before has ended on this rank, and finds
    the memory as that one left it. Two communicators over the same ranks are independent (siblings). Default site:
    "<communicator>.<collective>". ValueError if a root or peer is no member, the peer is this rank itself, or sizes do
    not fit the buffers.
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
        the root before the others have come, and for a receiver before another one has.
        """

    @collective
    def reduce(
        self, buffer: Buffer, root: int, stream: Stream, *, op: ReduceOp = "sum", site: str | None = None
    ) -> None:
        """Put a reduction over the group on `stream`: in place on global rank `root`, while the others' buffers are
        read and stay as they are. Equal sizes. It is no barrier: it may end for the others before the root has come.
        Source: ncclReduce, whose receive buffer counts on the root alone.
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

        `sizes`: elements that each member brings, in group order, known to all; None if all bring as many.
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
        """Send piece i of `source` to member i and put what member i sends at place i of `output`.

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
        """Gather the members' `source` buffers one after the other into `output` on global rank `root`. The others
        give None for `output`, or a buffer that stays as it is. Equal sizes. It is no barrier: it may end for the
        others before the root has come.
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
        `source`, or a buffer that is not read. Equal pieces. It is no barrier: it may end for the root before the
        others have come.
        """

    @abstractmethod
    def send(self, buffer: Buffer, to: int, stream: Stream, *, site: str | None = None) -> None:
        """Put a transfer to global rank `to` on `stream`. It may end before the peer receives (eager) or hold the
        stream until then (rendezvous), and of two sends the one so and the other so: a correct protocol tolerates all.
        """

    @abstractmethod
    def recv(self, buffer: Buffer, source: int, stream: Stream, *, site: str | None = None) -> None:
        """Put a transfer from global rank `source` on `stream`."""

    @abstractmethod
    def occupy(self, places: int) -> None:
        """Let each collective and transfer that this rank puts on the communicator from now on take so many places of
        the device while it waits for its peers, all at once; 1 at first. What a graph keeps keeps those of its capture.
        Places are finite where the world says so (`World.residency`); a real device has what it has, and ignores this.
        ValueError for less than one.
        """

    @abstractmethod
    def coalesced(self, stream: Stream) -> AbstractContextManager[None]:
        """Transfers made within go out as one, in no order among themselves, so that two ranks may both send first.
        Each comes after what the stream and the communicator had before the group; what comes behind the group comes
        after all of them. All name this `stream` (ValueError). RuntimeError for anything but transfers, and for a group
        within a group. It is open for all host threads of the rank.
        """

    @abstractmethod
    def abort(self, *, site: str | None = None) -> None:
        """As that of a `HostCommunicator`. What this rank has put on it and has not ended is broken off: it ends some
        time after this call, with anything in its buffers, and the streams go on behind it. Whoever of this rank waits
        for what lies behind it on the streams, to read or to synchronise, gets Aborted when the wait is over.
        """


class CaptureError(RuntimeError):
    """What a capture does not allow. `code`: the number by which CUDA names the reason, 900 to 908 (`CAPTURE_ERRORS`).
    The capture that it was raised in is invalid from then on: what follows in it raises 901.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (CUDA error {code}, {CAPTURE_ERRORS[code]})")
        self.code = code


class Graph(ABC):
    """Device work that is kept once and issued as a whole, as often as one likes: a CUDA graph.

        async with graph.capture(stream):
            stream.launch("scale", scale, reads=[x], writes=[y])        # kept, not run
            ep.all_reduce(y, stream)
        graph.replay(stream, "decode")                                   # runs both, on the memory of then

    Between the beginning and the end of a capture the plain calls on the captured stream are kept. A stream that waits
    for an event of the capture joins it; its work has to be waited for in turn before the end (else 904). Other streams
    go on as always. Kernels, buffers, arguments and sizes are those of the capture, whatever the program does to them
    later: code of the host is not run again.

    Memory that is taken on a stream of the capture comes from the graph's pool, where other graphs of that pool get
    theirs. What is given back there, within the capture or after it, later allocations of the pool may get, also those
    of other captures: on the same stream, and of the same kind of blocks (see `Buffer.free`). The buffer can be used
    all the same, as a weak reference: it has what the last replay left, until memory that was taken after it was given
    back is taken again by a replay, or used by the program. Kernels and collectives, too, take memory for themselves
    and give it back at once. So a replay leaves nothing for sure in memory of its pool that was taken, on the same
    stream, after the graph's first call there or after it gave some back, but what it writes itself. Buffers from
    elsewhere have to live as long as the graph is replayed: a replay on freed memory is a finding (STALE:FREED).

    Within a capture raise: what learns from the device or from a peer (reading; asking for an event; a host collective
    or transfer; looking into a mailbox or a store, or for a store): 900, for an event of the capture 907; to wait for
    an event that was recorded outside: 905; a second capture: 902. After it its events are no use: 907. A thread that
    captures may send a message, or set a key of a store, and that is a finding (GRAPH:HOST_EFFECT): no replay does it.
    To replay a graph on a stream of the capture raises 900 as well. The host thread that began a capture ends it, but
    in mode "relaxed": 908. What the host does by itself (`decide`, `probe`, `sleep`) happens once, in the capture, and
    in no replay.

    All members of a communicator capture the same collectives in the same order, and replay the graphs of one capture
    together; where one member is eager and another is not, the hardware pairs them all the same, and that is a finding
    (GRAPH:UNPAIRED). Replays of one graph run one after the other, on whatever streams. A fault or delay can be at a
    call that is kept, a delay or death at a replay as well; nothing can be at a call within a replay.
    """

    __slots__ = ("name",)

    name: str

    @abstractmethod
    def capture(
        self, stream: Stream, *, mode: CaptureMode = "global", site: str | None = None
    ) -> AbstractAsyncContextManager[None]:
        """Keep what is put on `stream`. To begin waits until all streams of the rank are through.

        `mode`: which calls of the rank are refused while the capture lasts. "global": those of all its host threads;
        "thread_local": those of this one; "relaxed": of this one, too, but to ask for, or to read, what is
        not captured.
        Default site: "<graph>.capture". RuntimeError if the graph was captured already. If the block raises, the
        capture is given up, and the graph can be captured anew.
        """

    @abstractmethod
    def replay(self, stream: Stream, site: str) -> None:
        """Put what was kept on the stream: it starts after what the stream has so far and after the last replay, and
        later work on this stream starts when all of it has ended. RuntimeError if nothing was captured.
        """


class Mailbox(ABC):
    """Messages to one rank, in the order in which they arrived. Those of one sender arrive in the order they were
    sent.
    """

    __slots__ = ()

    @abstractmethod
    def poll(self, site: str) -> Awaitable[Frozen]:
        """The next message, or None if there is none yet."""

    @abstractmethod
    def get(self, site: str, *, idle: bool = False, timeout_ns: int | None = None) -> Awaitable[Frozen]:
        """Wait for the next message; None when the time is up. Without a time-out it may wait for ever, and `idle` says
        that it should: to stand there is no hang. ValueError for both. A time-out of 0 is a poll.
        """


class Flag(ABC):
    """What the host threads of a rank tell one another: set or not, clear at first; Python's `threading.Event`. Of
    flags a baton, a lock, a barrier are made.

    Whoever waits when the flag is set goes on, also where it is cleared before it comes to do so. To wait does not
    clear it. A wait begins, and a query looks, where it is called, also if it is awaited later. What a thread did
    before it set the flag lies before what goes on because of that.
    """

    __slots__ = ("name",)

    name: str

    @abstractmethod
    def set(self, site: str) -> None:
        """Set it, and let go on who waits. One that is set already stays so."""

    @abstractmethod
    def clear(self, site: str) -> None:
        """From now on who waits stands, until it is set again."""

    @abstractmethod
    def wait(self, site: str) -> Awaitable[None]:
        """Wait until the flag is set; if it is, go on at once."""

    @abstractmethod
    def query(self, site: str) -> Awaitable[bool]:
        """Whether it is set."""


class Thread(ABC):
    """A host thread that the program has started."""

    __slots__ = ("name",)

    name: str

    @abstractmethod
    def join(self, site: str) -> Awaitable[str | None]:
        """Wait until the thread has ended. What it raised is learned here, as "ValueError: the message", and is a crash
        of the rank no longer; None if it came to its end.
        """


class Store(ABC):
    """A table of keys and values behind a port of a node: where processes find one another that share no communicator
    yet. As torch's TCPStore: one process listens, others join it by node and port, and all of them use it alike.

    A port belongs to one listener at a time, and other programs of the node listen, too (`World.strangers`). Whoever
    joins a port gets whoever listens there, and cannot tell a stranger by that.
    """

    __slots__ = ("node", "port")

    node: int
    port: int

    @abstractmethod
    def set(self, key: str, value: Frozen, site: str) -> None:
        """Send a value, plain data as in a message; it is there some time later. The last one counts. What one rank
        sets arrives in that order.
        """

    @abstractmethod
    def get(self, key: str, site: str, *, timeout_ns: int | None = None) -> Awaitable[Frozen]:
        """Wait until the key has a value, and learn it; None when the time is up, or the listener has left. Without a
        time-out it may wait for ever; with one of 0 it looks once.
        """

    @abstractmethod
    def add(self, key: str, amount: int, site: str) -> Awaitable[int | None]:
        """Add to the number of a key, 0 where it has none, and learn the sum. Like the two below it reads and changes
        the key in one step, behind what this rank set before; None if the listener has left.
        """

    @abstractmethod
    def compare_set(self, key: str, expected: Frozen, desired: Frozen, site: str) -> Awaitable[Frozen]:
        """Give the key a value if it has the expected one, or if it has none and that is empty text. Learn the value
        that it has then; the expected one, if it has none. Source: torch.distributed.Store.compare_set.
        """

    @abstractmethod
    def delete(self, key: str, site: str) -> Awaitable[bool | None]:
        """Take the key's value away, and learn whether it had one."""

    @abstractmethod
    def close(self, site: str) -> None:
        """Leave the store; who listens gives the port back, and those who still wait learn None. RuntimeError for any
        use afterwards.
        """


class Rank(ABC):
    """One rank, as each of its host threads sees it: all of the world that a protocol sees.

    A rank begins with the thread "main", and a program that says `threaded = True` may start more. Streams, buffers,
    graphs, communicators, mailboxes and flags are the rank's, for all of its threads to use. `thread` and `step` are
    those of the thread that asks. What the threads put on the rank's streams and communicators lies there in the order
    in which they came to do so, which is anybody's guess: a thread may be held up before each call that it makes.
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
        """The name of the host thread that asks."""

    @abstractmethod
    def stream(self, name: str) -> Stream:
        """The stream of that name; made at first use and then the same."""

    @abstractmethod
    def graph(self, name: str, pool: str | None = None) -> Graph:
        """The graph of that name; made at first use and then the same. `pool`: where its memory comes from, by name,
        to be shared among graphs; None: one of its own. ValueError for another pool than at first, and for a name that
        is no word.
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

        The members call this, and no others do. Each stands until all have called it. All give the same ranks in the
        same order (else MISMATCH:GROUP:RANKS). A rank that makes several groups with another one makes them in the same
        order as that rank. Else each waits for the other (HANG:COLLECTIVE:ORDER_ACROSS_GROUPS). Records name the
        communicator "<name>[0,1]"; with `device` that is the name of the device communicator, and the other one is
        "<name>[0,1].host". Making them is a barrier on the host communicator.

        ValueError for a name that is no word or that the rank has already. ValueError for ranks that do not exist, are
        named twice, or are without this one. Default site: "<name>.group". As torch.distributed.new_group with
        `use_local_synchronization`.
        """

    @abstractmethod
    def mailbox(self, name: str) -> Mailbox:
        """This rank's mailbox of that name; there is one of each name on each rank."""

    @abstractmethod
    def flag(self, name: str) -> Flag:
        """This rank's flag of that name; made at first use and then the same."""

    @abstractmethod
    def start(
        self, name: str, program: Callable[[Rank], Coroutine[Any, Any, None]], *, site: str | None = None
    ) -> Thread:
        """Start a host thread that runs `program(rank)`, with the step of the thread that starts it. All that was done
        before lies before what it does. Default site: "<name>.start".

        The rank has ended when all of its threads have; what a thread raised that nobody joins is a crash of the rank.
        A name can be used again when its thread has been joined. RuntimeError for a program that does not say
        `threaded = True`, and for a name in use; ValueError for a name that is no word; TypeError for what is no
        coroutine function.
        """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of this service (`Program.services`); empty for a rank of the topology."""

    @abstractmethod
    def service(self, name: str) -> int:
        """The number by which messages reach a service: services are counted behind the ranks, as the program names
        them. They have no device work, and no communicators but the host ones of which `Program.groups` makes them
        members. KeyError names the services there are.
        """

    @property
    @abstractmethod
    def node(self) -> int:
        """The node that this rank or service is on, from 0."""

    @abstractmethod
    def open_store(self, port: int, site: str) -> Awaitable[Store | None]:
        """Listen on a port of this node, 0 for any that is free: the store, whose `port` says which; None if somebody
        listens there already (EADDRINUSE). ValueError for no port.
        """

    @abstractmethod
    def join_store(self, node: int, port: int, site: str, *, timeout_ns: int | None = None) -> Awaitable[Store | None]:
        """Connect to whoever listens there, as soon as somebody does: the store; None when the time is up. With a
        time-out of 0 it looks once.
        """

    @abstractmethod
    def send(self, to: int, mailbox: str, message: Frozen, site: str) -> None:
        """Send a message to a mailbox of global rank `to`. Numbers, strings, booleans, None and tuples of these;
        not None itself, which `poll` gives for "nothing there", and not NaN, which equals nothing (ValueError).
        """

    @abstractmethod
    def watch(self, actor: int, mailbox: str, site: str) -> None:
        """Be told when a rank or service is gone: its program has ended or raised, or its process died. Then the
        message ("gone", actor) comes to this mailbox of mine, once for each call, behind all that the actor sent there
        and that arrives at all. Nobody sends it: it is what the machine sees (a sentinel of the process, a pipe that
        closes). It comes if the actor is gone already. It may come long after the end, and what the actor began may
        still go on.

        Who stands in an idle get at the end of a run is not gone, nor is who stands still for ever. ValueError for who
        is no rank or service, and for oneself.
        """

    @abstractmethod
    def sleep(self, ns: int, site: str) -> Awaitable[None]:
        """Let the host stand still for so long: simulated time, or real time."""

    @abstractmethod
    def turn(self, site: str) -> Awaitable[None]:
        """Let other host threads of this rank go on, if there are any. In the simulation what a thread does between two
        calls is one step: a thread that others may interrupt there says so by this call. Its record is a sleep of 0 ns.
        """

    @abstractmethod
    def decide(self, label: str, value: Frozen, kind: str, *, local: bool = False) -> None:
        """Record a value that every member of this rank's communicator of that kind has to decide equally in this step.

        It goes into the trace and to the agreement check; nothing is sent. Plain data, as in a message, and None; NaN
        is a ValueError, since it does not equal itself. Values are compared by step, and by count within a step. A
        member that takes part in the step and does not decide this label disagrees. So does a misspelt label, and one
        that a rank decides on another communicator.

        `local`: not every member decides it, as where a last stage alone has results. Those that decide it are
        compared. Between its first and its last one a member may leave out none.
        """

    @abstractmethod
    def probe(self, label: str) -> None:
        """Say that the protocol came here: a place worth being sure that tests reach. Goes into the trace."""
