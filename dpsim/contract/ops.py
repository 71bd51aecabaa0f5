"""The vocabulary of all backends: the addresses of ops, and the records of a rank's journal.

Every effect of a protocol on the world is an *op*. Its **address** consists of the rank, the host thread, the *site*
and the *ordinal*, so unrelated changes of the source do not alter it. A site is a name in the source and never a line
number. The ordinal counts the earlier calls of the rank at the site. A collective has a second address, (communicator,
sequence number). Faults, delays and reports use these addresses. An address means the same op in the simulation and on
GPUs.

Each rank keeps a **journal**: one record per op, in the order in which the host issued them. A record is a plain tuple,
because a journal has millions of them and a named tuple costs five times as much. The classes below name the fields,
and checks and reports use these names. Every record begins with the same six fields: kind, step, thread, site, ordinal,
where. Code that reads raw records uses the named positions at the end of this file.

    >>> where = "dpsim/vllm/data_parallel/batch.py:88"
    >>> raw = ("collective", 4, "main", "dp.agree", 4, where, None, "dp_cpu", 4)
    >>> raw += ("all_reduce", 8, "int32", None, "sum", (), (), ())
    >>> record = as_record(raw)
    >>> record.describe()
    'all_reduce int32[8] on dp_cpu #4'

The **step** of a record is the *logical step tag*, which the program sets (`Rank.step`). If a rank skips one
collective, its next call silently matches the skipped call of its peers, as on real hardware. Only the differing step
tags show the mistake.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, TypeVar, dataclass_transform, get_args

DType: TypeAlias = Literal[
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex32",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]
"""Element types, by torch's names. Programs can move all of them; `dpsim.contract.collectives.reductions` lists which
they can reduce.
"""

DTYPES: dict[str, int] = {name: int((re.findall(r"\d+", name) or ["8"])[0]) // 8 for name in get_args(DType)}
"""Bytes per element, from the bits in the name. A bool takes a byte."""

ReduceOp: TypeAlias = Literal["sum", "max", "min", "prod", "avg", "band", "bor", "bxor"]
"""The names of reductions. `dpsim.contract.collectives.reductions` computes them and lists their element types."""

Ref: TypeAlias = tuple[int, int, int] | tuple[int, int, int, Any]
"""A piece of device memory as the program names it: number of the allocation on this rank, first element, end. A fourth
item is the tag of `Buffer.tagged`: the version that an op expects there, or leaves there.
"""

Refs: TypeAlias = tuple[Ref, ...]

Place: TypeAlias = tuple[int, int, int]
"""A piece of device memory as the machine names it: segment, first byte, end. Two buffers share memory if and only if
their places overlap. Checks must not rely on places, since another run may have others.
"""

SMALL_BLOCK = 1 << 20
"""The largest size in bytes of an allocation from the small blocks of a stream's pool. Larger allocations never share
memory with these.
"""

Domain: TypeAlias = Literal["host", "device"]

CaptureMode: TypeAlias = Literal["global", "thread_local", "relaxed"]
"""Which calls a capture of a graph forbids, as CUDA names them."""

CAPTURE_ERRORS: dict[int, str] = {
    900: "cudaErrorStreamCaptureUnsupported",
    901: "cudaErrorStreamCaptureInvalidated",
    902: "cudaErrorStreamCaptureMerge",
    903: "cudaErrorStreamCaptureUnmatched",
    904: "cudaErrorStreamCaptureUnjoined",
    905: "cudaErrorStreamCaptureIsolation",
    906: "cudaErrorStreamCaptureImplicit",
    907: "cudaErrorCapturedEvent",
    908: "cudaErrorStreamCaptureWrongThread",
}
"""CUDA's names for the errors of a capture, by number (CUDA Runtime API, error handling)."""

BROKEN_OFF = "aborted"
"""The outcome of an await that raised `Aborted`, because its rank aborted the communicator."""

MAIN = "main"
"""The first host thread of a rank. An address means this thread unless it names another one."""

T = TypeVar("T", bound="Record")

RawRecord: TypeAlias = tuple[Any, ...]
"""A record in a journal or a message: one of the named tuples below, without its name."""


@dataclass_transform(frozen_default=True)
def _typed(cls: type[T]) -> type[T]:
    """Tells type checkers that the fields of this class are the constructor arguments of its subclasses."""
    return cls


@_typed
class Record(tuple[Any, ...]):
    """A record of a journal, with names for its fields. This class has the fields that all kinds share; a kind adds
    more fields, and `describe`.
    """

    __slots__ = ()

    kind: str
    step: int
    thread: str
    site: str
    ordinal: int
    where: str

    if TYPE_CHECKING:  # like any named tuple
        _fields: ClassVar[tuple[str, ...]]

        @classmethod
        def _make(cls, raw: RawRecord) -> Self: ...

        def _asdict(self) -> dict[str, Any]: ...

        def _replace(self, **fields: Any) -> Self: ...

    def describe(self) -> str:
        """The op in a few words, without its address."""
        raise NotImplementedError


RECORDS: dict[str, type[Any]] = {}
"""The classes of records, by kind."""


@dataclass_transform(frozen_default=True)
def record(kind: str) -> Callable[[type[T]], type[T]]:
    """A class decorator: makes a named tuple with the fields of `Record`, then those that the class adds."""

    def named(cls: type[T]) -> type[T]:
        own, fields = cls.__annotations__, Record.__annotations__
        defaults = [vars(cls)[name] for name in own if name in vars(cls)]
        base = namedtuple(cls.__name__, [*fields, *own], defaults=defaults)  # type: ignore[misc]  # fields known at run time
        names = {name: value for name, value in vars(cls).items() if name not in (*own, "__dict__", "__weakref__")}
        made = type(cls.__name__, (base, Record), names | {"__slots__": (), "__annotations__": fields | own})
        RECORDS[kind] = made
        return made

    return named


@record("collective")
class Collective(Record):
    """One rank's part in one collective, journaled when the host issues it.

    `count`: elements that this rank sends. `sizes`: elements that each member sends or receives, if the call has them.
    """

    stream: str | None  # None: host domain
    communicator: str
    seq: int  # position in this rank's sequence on this communicator, from 0
    op: str
    count: int  # type: ignore[assignment]  # the field hides tuple.count, which no caller uses
    dtype: str
    root: int | None  # global rank; None: the op has no root
    reduce: str | None
    sizes: tuple[int, ...]
    reads: Refs
    writes: Refs

    def describe(self) -> str:
        root = "" if self.root is None else f" root {self.root}"
        reduce = "" if self.reduce in (None, "sum") else f" {self.reduce}"
        sizes = f" sizes {list(self.sizes)}" if self.sizes else ""
        return f"{self.op}{reduce} {self.dtype}[{self.count}]{root}{sizes} on {self.communicator} #{self.seq}"


@record("transfer")
class Transfer(Record):
    """A send or a receive. `seq` counts the transfers of this direction between this rank and `peer` on the
    communicator. Transfers with the same `group` belong to one coalesced group.
    """

    stream: str | None  # None: host domain
    communicator: str
    seq: int
    op: str  # send or recv
    count: int  # type: ignore[assignment]  # as above
    dtype: str
    peer: int
    group: int | None
    reads: Refs
    writes: Refs

    def describe(self) -> str:
        way = "to" if self.op == "send" else "from"
        return f"{self.op} {self.dtype}[{self.count}] {way} rank {self.peer} on {self.communicator} #{self.seq}"


@record("receive_any")
class ReceiveAny(Record):
    """A host receive from any other member of a communicator. `number` counts those of this rank there. Its `Learned`
    contains (source, checksum). From then on it counts as the next transfer from that source.
    """

    communicator: str
    number: int
    count: int  # type: ignore[assignment]  # as above
    dtype: str

    @property
    def op(self) -> str:
        return "recv_any"

    def describe(self) -> str:
        return f"recv {self.dtype}[{self.count}] from any rank on {self.communicator}"


@record("look")
class Look(Record):
    """The host queries whether a collective or transfer that it started has ended. `of`, `number`: the site and ordinal
    of that call. `timeout_ns`: how long it waits at most. Its `Learned` contains the answer.
    """

    of: str
    number: int
    timeout_ns: int | None = None

    def describe(self) -> str:
        limit = "" if self.timeout_ns is None else f" within {self.timeout_ns / 1e6:.15g} ms"
        return f"ask whether {self.of}[{self.number}] is over{limit}"


@record("group")
class Grouped(Record):
    """The rank creates a communicator together with the other members (`Rank.group`). Their first collective on it, a
    barrier, is the next record. `device`: they make a device communicator, too.
    """

    communicator: str
    group: str  # the name by which a rank finds it
    device: bool
    ranks: tuple[int, ...]

    def describe(self) -> str:
        return f"make group {self.group} of ranks {', '.join(map(str, self.ranks))}"


@record("launch")
class Launch(Record):
    """A kernel launch on a stream, with the memory that the kernel reads and writes."""

    stream: str
    reads: Refs
    writes: Refs

    def describe(self) -> str:
        return f"kernel on stream {self.stream}"


@record("alloc")
class Alloc(Record):
    """An allocation from a stream's pool. `buffer` numbers the allocations of the rank. `place` is the memory's address
    range; None if the backend does not know it.
    """

    stream: str
    buffer: int
    count: int  # type: ignore[assignment]  # as above
    dtype: str
    place: Place | None

    def describe(self) -> str:
        return f"alloc {self.dtype}[{self.count}] on stream {self.stream}"


@record("free")
class Free(Record):
    """The program freed a buffer; `site` and `ordinal` are those of its `Alloc`."""

    stream: str
    buffer: int

    def describe(self) -> str:
        return f"free on stream {self.stream}"


@record("used")
class Used(Record):
    """A call of `record_stream`: `stream` uses the memory of a buffer that the program allocated on another stream."""

    stream: str
    buffer: int

    def describe(self) -> str:
        return f"record_stream {self.stream}"


@record("fresh")
class Fresh(Record):
    """A buffer allocated with `per_replay`: each replay of a graph has to find it written since the replay before. The
    record of its `Alloc` comes before.
    """

    stream: str
    buffer: int

    def describe(self) -> str:
        return f"fresh contents for each replay, on stream {self.stream}"


@record("mark")
class Mark(Record):
    """An event recorded on a stream. `event` numbers the events of the rank."""

    stream: str
    event: int

    def describe(self) -> str:
        return f"record event {self.event} on stream {self.stream}"


@record("wait")
class Wait(Record):
    """A stream waits for an event of this rank."""

    stream: str
    event: int

    def describe(self) -> str:
        return f"stream {self.stream} waits for event {self.event}"


@record("flag_wait")
class FlagWait(Record):
    """A stream waits for a flag of this rank. The stream's later work waits; the host does not."""

    stream: str
    flag: str

    def describe(self) -> str:
        return f"stream {self.stream} waits for flag {self.flag}"


@record("capture")
class Capture(Record):
    """A capture begins or ends. `pool`: the pool of the graph's memory. `calls`: at its end, the number of captured
    calls; otherwise 0. The host records the beginning when all streams of the rank are idle.
    """

    stream: str
    graph: str
    what: str  # begin, end, or abandon (the block raised)
    mode: str
    pool: str
    calls: int

    def describe(self) -> str:
        calls = "" if self.what == "begin" else f" ({self.calls} call{'s' * (self.calls != 1)})"
        return f"{self.what} capture of graph {self.graph} on stream {self.stream}{calls}"


@record("kept")
class Kept(Record):
    """A call that a capture has captured. `call`: the kind of record that each replay makes of it. `fields`: the fields
    of that record after `where`.

    In a collective, `seq` counts the calls that the capture contains before it on that communicator. In a transfer, it
    counts those of the same direction and peer. The event of a mark or a wait is that of the capture.
    """

    stream: str
    graph: str
    call: str
    fields: Any  # a tuple

    def describe(self) -> str:
        return f"kept in graph {self.graph}: {self.call} on stream {self.stream}"


@record("replay")
class Replay(Record):
    """The rank replays a graph on a stream. The next `calls` records of the rank are the graph's calls: ordinary
    records, at the sites of the capture. Their work is on `stream` and on branches of the graph, named "<stream of the
    capture>@<graph>".
    """

    stream: str
    graph: str
    number: int  # how often the rank replayed it before
    calls: int

    def describe(self) -> str:
        calls = f"{self.calls} call{'s' * (self.calls != 1)}"
        return f"replay {self.number} of graph {self.graph} on stream {self.stream} ({calls})"


@record("ask")
class Ask(Record):
    """The host queries an event (`query`: whether it has passed), or waits until it has passed (`synchronize`)."""

    how: str
    event: int

    def describe(self) -> str:
        return f"{self.how} event {self.event}"


@record("read")
class Read(Record):
    """The host reads the contents of a buffer, after the present work of a stream."""

    stream: str
    count: int  # type: ignore[assignment]  # as above
    dtype: str
    reads: Refs

    def describe(self) -> str:
        return f"read {self.dtype}[{self.count}] from stream {self.stream}"


@record("post")
class Post(Record):
    """The rank sends a message to a mailbox."""

    to: int
    mailbox: str
    content: Any

    def describe(self) -> str:
        return f"send {self.content} to {self.mailbox} of rank {self.to}"


@record("take")
class Take(Record):
    """The host reads a mailbox of its rank: `poll`, `get`, or `idle` (a get that may wait without end). `timeout_ns`:
    the limit of a get. Its `Learned` contains the message, or None.
    """

    mailbox: str
    how: str
    timeout_ns: int | None = None

    def describe(self) -> str:
        limit = "" if self.timeout_ns is None else f" for at most {self.timeout_ns / 1e6:.15g} ms"
        return f"{self.how} {self.mailbox}{limit}"


@record("watch")
class Watched(Record):
    """This rank watches a rank or service: when that actor ends, the message ("gone", actor) arrives in the mailbox. No
    actor sends that message, so its only record is the `Learned` of the rank that takes it.
    """

    actor: int
    mailbox: str

    def describe(self) -> str:
        return f"watch rank {self.actor}; {self.mailbox} gets its end"


@record("abort")
class Abort(Record):
    """The rank aborted a communicator. Its pending awaits there raise `Aborted`, and their `Learned` contains
    "aborted".
    """

    communicator: str

    def describe(self) -> str:
        return f"abort {self.communicator}"


@record("sleep")
class Sleep(Record):
    """The host sleeps for `ns` nanoseconds."""

    ns: int

    def describe(self) -> str:
        return f"sleep {self.ns} ns"


@record("flag")
class Flagged(Record):
    """A host thread set, cleared, queried or awaited a flag of its rank. A `wait` or `query` that returned has a
    `Learned`: None, or whether the flag was set.
    """

    flag: str
    how: str  # set, clear, wait or query

    def describe(self) -> str:
        return f"{self.how} flag {self.flag}"


@record("thread")
class Threaded(Record):
    """A host thread starts another one, or waits for its end. A `join` has a `Learned`: the exception of that thread,
    or None.
    """

    name: str
    how: str  # start or join

    def describe(self) -> str:
        return f"{self.how} thread {self.name}"


@record("ended")
class Ended(Record):
    """A host thread other than main ended. `message`: its exception, as "ValueError: text", or empty. With an
    exception, `where` is the innermost line of the program. A rank's own end is `Finished` or `Raised`.
    """

    message: str

    def describe(self) -> str:
        return f"thread raised {self.message}" if self.message else "thread ended"


@record("store")
class Stored(Record):
    """A rank opened, joined, used or left a store at a port of a node. `port` of an `open`: the requested port, 0 for
    any. `value`: the value of a `set`, the operands of a change, or the time-out in ns of a `get` or `join`. An `open`
    or `join` has a `Learned` with the port, or None if it failed. A `get` or a change has one with the value.
    """

    node: int
    port: int
    how: str  # open, join, set, get, add, compare_set, delete, close
    key: str
    value: Any

    def describe(self) -> str:
        what = f" {self.key}" if self.key else ""
        return f"{self.how}{what} at port {self.port} of node {self.node}"


@record("learned")
class Learned(Record):
    """The outcome of an awaited call, recorded when the call returns. `site` and `ordinal` are those of the call.

    `outcome`: for arrays the CRC-32 of the bytes, so that different values on two backends give different journals. For
    other calls it is the value itself: a message, whether an event had passed, None.
    """

    outcome: Any

    def describe(self) -> str:
        return "returned"


@record("decision")
class Decision(Record):
    """A value on which all members of `communicator`'s group have to decide equally (`Rank.decide`). `site` is the
    label. `local`: members may leave it out.
    """

    communicator: str
    value: Any  # numbers, strings, booleans, None and tuples of these
    local: bool = False

    def describe(self) -> str:
        return f"decided {self.value}"


@record("probe")
class Probe(Record):
    """The program called `Rank.probe`. `site` is the label."""

    def describe(self) -> str:
        return "came here"


@record("raised")
class Raised(Record):
    """The program of this rank ended in an exception. `site` is the exception's type, `where` the innermost line of
    the program.
    """

    message: str

    def describe(self) -> str:
        return f"raised {self.site}: {self.message}"


@record("injected")
class Injected(Record):
    """The backend applied a fault or delay here, or sent a message from outside. Reports show this record. Checks must
    not read it, because a real bug leaves no such record.
    """

    what: str  # skip, repeat, alter, insert, die, raise, hang, delay, kill, message
    ns: int = 0  # of a delay
    change: tuple[tuple[str, Any], ...] = ()  # of an altered op: field and value; of a message to, mailbox, content
    communicator: str | None = None  # with `seq`: the second address of a collective, where the scenario used it
    seq: int | None = None

    def describe(self) -> str:
        return f"injected: {self.what}"


@record("finished")
class Finished(Record):
    """The program of this rank has ended, and so has all work on its streams."""

    def describe(self) -> str:
        return "finished"


# ---- named positions: the index of a field in a raw record. A name without a kind is valid for several kinds.


def _position(field: str, *kinds: type[Any]) -> int:
    """Returns the index of a field in records of these kinds (default: all). Raises ValueError if the kinds differ."""
    position: int
    (position,) = {kind._fields.index(field) for kind in kinds or RECORDS.values()}
    return position


def _positions(kind: type[Any], *fields: str) -> tuple[int, ...]:
    """Returns the indices of several fields in records of a kind."""
    return tuple(_position(field, kind) for field in fields)


KIND, STEP, THREAD, SITE, ORDINAL, WHERE = map(_position, ("kind", "step", "thread", "site", "ordinal", "where"))

ADDRESS = slice(THREAD, ORDINAL + 1)
"""The address of an op on its rank. The op's `Learned` has the same address."""

STREAM = _position(
    "stream", Collective, Transfer, Launch, Alloc, Free, Used, Fresh, Mark, Wait, FlagWait, Read, Capture, Kept, Replay
)
COMMUNICATOR = _position("communicator", Collective, Transfer)
SEQ = _position("seq", Collective, Transfer)
OP = _position("op", Collective, Transfer)
COUNT = _position("count", Collective, Transfer)
DTYPE = _position("dtype", Collective, Transfer)
EVENT = _position("event", Mark, Wait, Ask)
BUFFER = _position("buffer", Alloc, Free, Used, Fresh)

COLLECTIVE_ROOT, COLLECTIVE_REDUCE, COLLECTIVE_SIZES = _positions(Collective, "root", "reduce", "sizes")
CALL = slice(OP, COLLECTIVE_SIZES + 1)
"""The arguments of a collective: op, count, dtype, root, reduce and sizes."""

COLLECTIVE_READS, COLLECTIVE_WRITES = _positions(Collective, "reads", "writes")
TRANSFER_PEER, TRANSFER_GROUP = _positions(Transfer, "peer", "group")
TRANSFER_READS, TRANSFER_WRITES = _positions(Transfer, "reads", "writes")
ANY_COMMUNICATOR, ANY_NUMBER, ANY_COUNT, ANY_DTYPE = _positions(ReceiveAny, "communicator", "number", "count", "dtype")
LOOK_OF, LOOK_NUMBER, LOOK_TIMEOUT = _positions(Look, "of", "number", "timeout_ns")
GROUP_COMMUNICATOR, GROUP_KIND = _positions(Grouped, "communicator", "group")
GROUP_DEVICE, GROUP_RANKS = _positions(Grouped, "device", "ranks")
LAUNCH_READS, LAUNCH_WRITES = _positions(Launch, "reads", "writes")
ALLOC_COUNT, ALLOC_DTYPE, ALLOC_PLACE = _positions(Alloc, "count", "dtype", "place")
GRAPH = _position("graph", Capture, Kept, Replay)
CAPTURE_WHAT = _position("what", Capture)
KEPT_CALL, KEPT_FIELDS = _positions(Kept, "call", "fields")
REPLAY_CALLS = _position("calls", Replay)
ASK_HOW = _position("how", Ask)
READ_READS = _position("reads", Read)
POST_TO, POST_MAILBOX, POST_CONTENT = _positions(Post, "to", "mailbox", "content")
TAKE_MAILBOX, TAKE_HOW, TAKE_TIMEOUT = _positions(Take, "mailbox", "how", "timeout_ns")
WATCH_ACTOR, WATCH_MAILBOX = _positions(Watched, "actor", "mailbox")
ABORT_COMMUNICATOR = _position("communicator", Abort)
SLEEP_NS = _position("ns", Sleep)
STORE_NODE, STORE_PORT, STORE_HOW, STORE_KEY, STORE_VALUE = _positions(Stored, "node", "port", "how", "key", "value")
FLAG, FLAG_HOW = _positions(Flagged, "flag", "how")
FLAG_AWAITED = _position("flag", FlagWait)
THREAD_NAME, THREAD_HOW = _positions(Threaded, "name", "how")
ENDED_MESSAGE = _position("message", Ended)
LEARNED_OUTCOME = _position("outcome", Learned)
DECISION_COMMUNICATOR, DECISION_VALUE, DECISION_LOCAL = _positions(Decision, "communicator", "value", "local")
RAISED_MESSAGE = _position("message", Raised)
INJECTED_WHAT, INJECTED_CHANGE = _positions(Injected, "what", "change")
INJECTED_COMMUNICATOR, INJECTED_SEQ = _positions(Injected, "communicator", "seq")


def posted(raw: RawRecord) -> tuple[int, str, Any] | None:
    """Returns the receiver, the mailbox and the content of the message that this record sends; None if it sends none.
    The message of an `Injected` record is from outside.
    """
    if raw[KIND] == "post":
        return raw[POST_TO], raw[POST_MAILBOX], raw[POST_CONTENT]
    if raw[KIND] == "injected" and raw[INJECTED_WHAT] == "message":
        (_, to), (_, mailbox), (_, content) = raw[INJECTED_CHANGE]
        return to, mailbox, content
    return None


def as_record(raw: RawRecord) -> Record:
    """Returns a raw record as an object with named fields. Raises KeyError for an unknown kind, TypeError for a wrong
    number of fields.
    """
    record: Record = RECORDS[raw[KIND]]._make(raw)
    return record
