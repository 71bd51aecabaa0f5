"""The vocabulary that every backend shares: addresses, collectives, and the records of a rank's journal.

Every effect of a protocol on the world is an *op*. Its **address** survives unrelated changes of the source: the rank,
the host thread, the *site* and the *ordinal*. A site is a name in the source and never a line number. The ordinal is
the number of earlier visits of the rank to the site. A collective has a second address, (communicator, sequence
number). Faults, delays and reports use these addresses, and an address means the same op in the simulation and on GPUs.

Each rank keeps a **journal**: one record per op, in the order in which the host issued them. A record is a plain tuple,
because a journal has millions of them and a named tuple costs five times as much. The classes below name the fields,
and checks and reports read these. Every record begins with the same six fields: kind, step, thread, site, ordinal,
where. Code that reads raw records uses the named positions at the end of this file.

    >>> where = "dpsim/vllm/data_parallel/batch.py:88"
    >>> raw = ("collective", 4, "main", "dp.agree", 4, where, None, "dp_cpu", 4)
    >>> raw += ("all_reduce", 8, "int32", None, "sum", (), (), ())
    >>> record = as_record(raw)
    >>> record.describe()
    'all_reduce int32[8] on dp_cpu #4'

The **step** is the *logical step tag*, which the protocol sets. If a rank skips one collective, its next call silently
pairs up with the skipped call of its peers, as on real hardware. Only the tag shows the mistake.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, TypeVar, dataclass_transform

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
"""Element types, by torch's names. Programs can move all of them; `dpsim.contract.collectives.reductions` says which
they can reduce.
"""

DTYPES: dict[str, int] = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}
"""Bytes per element."""

ReduceOp: TypeAlias = Literal["sum", "max", "min", "prod", "avg", "band", "bor", "bxor"]
"""The reductions; `dpsim.contract.collectives.reductions` computes them and has their types."""

Ref: TypeAlias = tuple[int, int, int] | tuple[int, int, int, Any]
"""A piece of device memory as the program names it: number of the allocation on this rank, first element, end. A
fourth item is the tag of `Buffer.tagged`: the version that an op expects to find there, or leaves.
"""

Refs: TypeAlias = tuple[Ref, ...]

Place: TypeAlias = tuple[int, int, int]
"""A piece of device memory as the machine names it: segment, first byte, end. Buffers share memory iff places overlap.
A check may not rely on it: another run may place them differently.
"""

SMALL_BLOCK = 1 << 20
"""Bytes up to which memory comes from the small blocks of a stream's pool. Larger memory never shares with these."""

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
"""CUDA's names of the errors of a capture (CUDA Runtime API, error handling)."""

BROKEN_OFF = "aborted"
"""The outcome of an await that ended because its rank aborted the communicator."""

MAIN = "main"
"""The first host thread of a rank. An address means this thread unless it names another one."""

T = TypeVar("T", bound="Record")

RawRecord: TypeAlias = tuple[Any, ...]
"""A record in a journal or a message: one of the named tuples below, without its name."""


@dataclass_transform(frozen_default=True)
def _typed(cls: type[T]) -> type[T]:
    """For type checkers: the fields of this class are arguments of those that derive from it."""
    return cls


@_typed
class Record(tuple[Any, ...]):
    """A record with names for its fields. This class has the fields of all kinds; a kind adds its own fields, and
    `describe`.
    """

    __slots__ = ()

    kind: str
    step: int
    thread: str
    site: str
    ordinal: int
    where: str

    if TYPE_CHECKING:  # as of any named tuple
        _fields: ClassVar[tuple[str, ...]]

        @classmethod
        def _make(cls, raw: RawRecord) -> Self: ...

        def _asdict(self) -> dict[str, Any]: ...

        def _replace(self, **fields: Any) -> Self: ...

    def describe(self) -> str:
        """The op in a few words, without its address."""
        raise NotImplementedError


RECORDS: dict[str, type[Any]] = {}
"""The classes by kind."""


@dataclass_transform(frozen_default=True)
def record(kind: str) -> Callable[[type[T]], type[T]]:
    """Makes a named tuple of a class: the fields of `Record`, then those that the class adds."""

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

    `count`: elements that this rank brings. `sizes`: elements that each member brings or gets, if the call says so.
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
    """A send or a receive. `seq` counts transfers of this direction between this rank and `peer` on the communicator;
    transfers with the same `group` went out as one.
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
    """A receive on the host from any other member of a communicator. `number` counts those of this rank there. Its
    `Learned` has (source, checksum): with the source it is the next transfer from that rank.
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
    """The host queries whether a collective or transfer that it started is over. `of`: the site of that op, `number`:
    its ordinal there. `timeout_ns`: the most ns that it waits for a yes. Its `Learned` has the answer.
    """

    of: str
    number: int
    timeout_ns: int | None = None

    def describe(self) -> str:
        limit = "" if self.timeout_ns is None else f" within {self.timeout_ns / 1e6:.15g} ms"
        return f"ask whether {self.of}[{self.number}] is over{limit}"


@record("group")
class Grouped(Record):
    """The rank makes a communicator together with the other members. Their first collective on it, a barrier, is the
    next record. `device`: they make a device communicator, too.
    """

    communicator: str
    group: str  # the kind by which a rank finds it
    device: bool
    ranks: tuple[int, ...]

    def describe(self) -> str:
        return f"make group {self.group} of ranks {', '.join(map(str, self.ranks))}"


@record("launch")
class Launch(Record):
    """A kernel put on a stream, with the memory that it reads and writes."""

    stream: str
    reads: Refs
    writes: Refs

    def describe(self) -> str:
        return f"kernel on stream {self.stream}"


@record("alloc")
class Alloc(Record):
    """Memory taken from a stream's pool. `buffer` numbers the allocations of the rank; `place` is where it lies, None
    where the backend does not say.
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
    """Memory given back; `site` and `ordinal` are those of its `Alloc`."""

    stream: str
    buffer: int

    def describe(self) -> str:
        return f"free on stream {self.stream}"


@record("used")
class Used(Record):
    """`record_stream`: `stream` uses the memory of a buffer that was taken for another one."""

    stream: str
    buffer: int

    def describe(self) -> str:
        return f"record_stream {self.stream}"


@record("fresh")
class Fresh(Record):
    """Each replay of a graph has to find a buffer written since the one before it: `per_replay` of its alloc, whose
    record comes before.
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
    """A stream waits for a flag of this rank. Later work of the stream waits, and the host does not."""

    stream: str
    flag: str

    def describe(self) -> str:
        return f"stream {self.stream} waits for flag {self.flag}"


@record("capture")
class Capture(Record):
    """A capture begins or ends. `pool`: the pool of the graph's memory. `calls`: at its end, the number of kept calls;
    otherwise 0. The host journals the beginning when all streams of the rank are idle.
    """

    stream: str
    graph: str
    what: str  # begin, end, or abandon: it was given up
    mode: str
    pool: str
    calls: int

    def describe(self) -> str:
        calls = "" if self.what == "begin" else f" ({self.calls} call{'s' * (self.calls != 1)})"
        return f"{self.what} capture of graph {self.graph} on stream {self.stream}{calls}"


@record("kept")
class Kept(Record):
    """A call that a capture keeps. `call`: the kind of record that each replay makes of it; `fields`: the fields of
    that record after `where`. In a collective, `seq` is the number of calls that the capture kept before on that
    communicator. In a transfer, it counts those of the same direction and peer. The event of a mark and of a wait is
    that of the capture.
    """

    stream: str
    graph: str
    call: str
    fields: Any  # a tuple

    def describe(self) -> str:
        return f"kept in graph {self.graph}: {self.call} on stream {self.stream}"


@record("replay")
class Replay(Record):
    """The rank puts a graph on a stream. The next `calls` records of the rank are those of its calls: ordinary records,
    at the sites of the capture. Their work is on `stream` and on branches of the graph, named "<stream of the
    capture>@<graph>".
    """

    stream: str
    graph: str
    number: int  # how often it was replayed before
    calls: int

    def describe(self) -> str:
        calls = f"{self.calls} call{'s' * (self.calls != 1)}"
        return f"replay {self.number} of graph {self.graph} on stream {self.stream} ({calls})"


@record("ask")
class Ask(Record):
    """The host asks about an event: `query` (learns whether it has passed) or `synchronize` (waits until it has)."""

    how: str
    event: int

    def describe(self) -> str:
        return f"{self.how} event {self.event}"


@record("read")
class Read(Record):
    """The host reads the content of a buffer and waits for a stream."""

    stream: str
    count: int  # type: ignore[assignment]  # as above
    dtype: str
    reads: Refs

    def describe(self) -> str:
        return f"read {self.dtype}[{self.count}] from stream {self.stream}"


@record("post")
class Post(Record):
    """A message sent to a mailbox of a rank."""

    to: int
    mailbox: str
    content: Any

    def describe(self) -> str:
        return f"send {self.content} to {self.mailbox} of rank {self.to}"


@record("take")
class Take(Record):
    """The host looks into a mailbox of its rank: `poll`, `get`, or `idle` (a get that may wait without end).
    `timeout_ns`: the limit of a get, which learns None when the time is up.
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
    actor posts it, so its only record is the `Learned` of the host that takes it.
    """

    actor: int
    mailbox: str

    def describe(self) -> str:
        return f"watch rank {self.actor}; {self.mailbox} gets its end"


@record("abort")
class Abort(Record):
    """The rank gave a communicator up. Its pending awaits on the communicator learn "aborted"."""

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
    """A host thread set, cleared or looked at a flag of its rank. A `wait` or `query` that returned has a `Learned`:
    None, or whether the flag was set.
    """

    flag: str
    how: str  # set, clear, wait or query

    def describe(self) -> str:
        return f"{self.how} flag {self.flag}"


@record("thread")
class Threaded(Record):
    """A host thread started another one, or waits for its end. A `join` has a `Learned`: the exception of that thread,
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
    """The outcome of an op that learns something, after its return. `site` and `ordinal` are those of the op.

    `outcome`: for arrays the CRC-32 of the bytes, so that different values on two backends give different journals. For
    other ops it is the learned value: a message, whether an event had passed, None.
    """

    outcome: Any

    def describe(self) -> str:
        return "returned"


@record("decision")
class Decision(Record):
    """A value that every member of `communicator`'s group has to decide equally. `site` is the label. `local`: members
    may leave it out.
    """

    communicator: str
    value: Any  # numbers, strings, booleans, None and tuples of these
    local: bool = False

    def describe(self) -> str:
        return f"decided {self.value}"


@record("probe")
class Probe(Record):
    """The protocol reached a place with a name. `site` is the label."""

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
    """The backend applied a fault or delay here, or sent a message from outside. Reports show it. Checks must not read
    the records of faults and delays, because a real bug leaves none.
    """

    what: str  # skip, repeat, alter, die, raise, hang, delay, kill, message
    ns: int = 0  # of a delay
    change: tuple[tuple[str, Any], ...] = ()  # of an altered op: field and value; of a message to, mailbox, content
    communicator: str | None = None  # with `seq`: the second address of a collective, where the scenario used it
    seq: int | None = None

    def describe(self) -> str:
        return f"injected: {self.what}"


@record("finished")
class Finished(Record):
    """The program of this rank ran to its end and its streams are empty."""

    def describe(self) -> str:
        return "finished"


# ---- named positions: the place of a field in a raw record. A name without a kind holds for several kinds.


def _position(field: str, *kinds: type[Any]) -> int:
    """The place of a field in records of these kinds (default: all). Raises ValueError if the kinds differ."""
    position: int
    (position,) = {kind._fields.index(field) for kind in kinds or RECORDS.values()}
    return position


def _positions(kind: type[Any], *fields: str) -> tuple[int, ...]:
    """The places of several fields in records of a kind."""
    return tuple(_position(field, kind) for field in fields)


KIND, STEP, THREAD, SITE, ORDINAL, WHERE = map(_position, ("kind", "step", "thread", "site", "ordinal", "where"))

ADDRESS = slice(THREAD, ORDINAL + 1)
"""The address of an op on its rank; its `Learned` has the same."""

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
    """The receiver, the mailbox and the content of the message that this record sends; None if it sends none. The
    message of an `Injected` is from outside.
    """
    if raw[KIND] == "post":
        return raw[POST_TO], raw[POST_MAILBOX], raw[POST_CONTENT]
    if raw[KIND] == "injected" and raw[INJECTED_WHAT] == "message":
        (_, to), (_, mailbox), (_, content) = raw[INJECTED_CHANGE]
        return to, mailbox, content
    return None


def as_record(raw: RawRecord) -> Record:
    """Name the fields of a raw record. Raises KeyError for an unknown kind, TypeError for a wrong number of fields."""
    record: Record = RECORDS[raw[KIND]]._make(raw)
    return record
