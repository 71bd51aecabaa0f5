"""The vocabulary that every backend shares: addresses, collectives, and the records of a rank's journal.

Every effect of a protocol on the world is an *op* with an **address** that survives unrelated change: the rank, the
host thread, the *site* (a name given in the source, never a line number) and the *ordinal* (how often that rank
came to that site before). A collective has a second address, (communicator, sequence number). Faults, delays and
reports all speak of ops by these addresses, and an address means the same op in the simulation and on GPUs.

Each rank keeps a **journal**: one record per op, in the order in which the host issued them. A record is a plain
tuple (a named tuple costs five times as much to make, and a journal has millions); the classes below name the
fields and are what checks and reports read. A record begins with the same six fields everywhere: kind, step, thread,
site, ordinal, where. What reads raw records takes them by the named positions at the end of this file.

    >>> where = "dpsim/vllm/data_parallel/batch.py:88"
    >>> raw = ("collective", 4, "main", "dp.agree", 4, where, None, "dp_cpu", 4)
    >>> raw += ("all_reduce", 8, "int32", None, "sum", (), (), ())
    >>> record = as_record(raw)
    >>> record.describe()
    'all_reduce int32[8] on dp_cpu #4'

The **step** is the *logical step tag*, set by the protocol. A rank that skips one collective pairs up silently with
its peers' next one, as on real hardware; only the tag shows where it went wrong.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias, get_args, get_type_hints

DType: TypeAlias = Literal["int32", "int64", "float32"]
"""Element types that numpy, torch, gloo and NCCL all reduce."""

DTYPES: dict[str, int] = {"int32": 4, "int64": 8, "float32": 4}
"""Bytes per element."""

ReduceOp: TypeAlias = Literal["sum", "max", "min"]
"""The reductions; `dpsim.contract.collectives.reductions` has how each is computed."""

Ref: TypeAlias = tuple[int, int, int] | tuple[int, int, int, Any]
"""A piece of device memory as the program names it: number of the allocation on this rank, first element, end. A
fourth item is the tag of `Buffer.tagged`: the version that an op expects to find there, or leaves.
"""

Refs: TypeAlias = tuple[Ref, ...]

Place: TypeAlias = tuple[int, int, int]
"""A piece of device memory as the machine names it: segment, first byte, end. Buffers share memory iff places
overlap. A check may not count on it: another run may place them differently.
"""

SMALL_BLOCK = 1 << 20
"""Bytes up to which memory comes from the small blocks of a stream's pool; what is larger never shares with these."""

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
"""CUDA's names of what can go wrong in a capture (CUDA Runtime API, error handling)."""

BROKEN_OFF = "aborted"
"""What an await learns that ended because its rank aborted the communicator."""

MAIN = "main"
"""The host thread that a rank begins with; addresses name no other one unless they say so."""

RawRecord: TypeAlias = tuple[Any, ...]
"""A record as it is kept and sent: one of the named tuples below, without its name."""


class Collective(NamedTuple):
    """One rank's part in one collective, journaled when the host issues it.

    `count`: elements that this rank brings. `sizes`: what each member brings or gets, where the call says so.
    """

    kind: Literal["collective"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    stream: str | None  # None: host domain
    communicator: str
    seq: int  # position in this rank's sequence on this communicator, from 0
    op: str
    count: int  # type: ignore[assignment]  # the field hides tuple.count, which nobody wants
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


class Transfer(NamedTuple):
    """A send or a receive. `seq` counts transfers of this direction between this rank and `peer` on the communicator;
    transfers with the same `group` went out as one.
    """

    kind: Literal["transfer"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
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


class Launch(NamedTuple):
    """A kernel put on a stream, with the memory that it reads and writes."""

    kind: Literal["launch"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    stream: str
    reads: Refs
    writes: Refs

    def describe(self) -> str:
        return f"kernel on stream {self.stream}"


class Alloc(NamedTuple):
    """Memory taken from a stream's pool. `buffer` numbers the allocations of the rank; `place` is where it lies, None
    where the backend does not say.
    """

    kind: Literal["alloc"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    stream: str
    buffer: int
    count: int  # type: ignore[assignment]  # as above
    dtype: str
    place: Place | None

    def describe(self) -> str:
        return f"alloc {self.dtype}[{self.count}] on stream {self.stream}"


class Free(NamedTuple):
    """Memory given back; `site` and `ordinal` are those of its `Alloc`."""

    kind: Literal["free"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    stream: str
    buffer: int

    def describe(self) -> str:
        return f"free on stream {self.stream}"


class Used(NamedTuple):
    """`record_stream`: `stream` uses the memory of a buffer that was taken for another one."""

    kind: Literal["used"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    stream: str
    buffer: int

    def describe(self) -> str:
        return f"record_stream {self.stream}"


class Mark(NamedTuple):
    """An event recorded on a stream. `event` numbers the events of the rank."""

    kind: Literal["mark"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    stream: str
    event: int

    def describe(self) -> str:
        return f"record event {self.event} on stream {self.stream}"


class Wait(NamedTuple):
    """A stream told to wait for an event of this rank."""

    kind: Literal["wait"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    stream: str
    event: int

    def describe(self) -> str:
        return f"stream {self.stream} waits for event {self.event}"


class FlagWait(NamedTuple):
    """A stream told to wait for a flag of this rank. What is behind it on the stream waits, and the host does not."""

    kind: Literal["flag_wait"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    stream: str
    flag: str

    def describe(self) -> str:
        return f"stream {self.stream} waits for flag {self.flag}"


class Capture(NamedTuple):
    """A capture begins or ends. `pool`: where the graph's memory comes from. `calls`: at its end, how many it has kept;
    else 0. The begin is journaled when all streams of the rank were through.
    """

    kind: Literal["capture"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    stream: str
    graph: str
    what: str  # begin, end, or abandon: it was given up
    mode: str
    pool: str
    calls: int

    def describe(self) -> str:
        calls = "" if self.what == "begin" else f" ({self.calls} call{'s' * (self.calls != 1)})"
        return f"{self.what} capture of graph {self.graph} on stream {self.stream}{calls}"


class Kept(NamedTuple):
    """A call that a capture has kept. `call`: the kind of record that each replay makes of it; `fields`: those of that
    record after `where`. A collective or transfer has in the place of `seq` how many the capture had kept before on
    that communicator (transfers: of that direction and peer). The event of a mark and of a wait is that of the capture.
    """

    kind: Literal["kept"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    stream: str
    graph: str
    call: str
    fields: Any  # a tuple

    def describe(self) -> str:
        return f"kept in graph {self.graph}: {self.call} on stream {self.stream}"


class Replay(NamedTuple):
    """A graph put on a stream. The next `calls` records of the rank are those of its calls: ordinary ones, at the sites
    of the capture, of work on `stream` and on branches of its own, named "<stream of the capture>@<graph>".
    """

    kind: Literal["replay"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    stream: str
    graph: str
    number: int  # how often it was replayed before
    calls: int

    def describe(self) -> str:
        calls = f"{self.calls} call{'s' * (self.calls != 1)}"
        return f"replay {self.number} of graph {self.graph} on stream {self.stream} ({calls})"


class Ask(NamedTuple):
    """The host asks for an event: `query` (learns whether it has passed) or `synchronize` (waits until it has)."""

    kind: Literal["ask"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    how: str
    event: int

    def describe(self) -> str:
        return f"{self.how} event {self.event}"


class Read(NamedTuple):
    """The host asked for the content of a buffer and waits for a stream."""

    kind: Literal["read"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    stream: str
    count: int  # type: ignore[assignment]  # as above
    dtype: str
    reads: Refs

    def describe(self) -> str:
        return f"read {self.dtype}[{self.count}] from stream {self.stream}"


class Post(NamedTuple):
    """A message sent to a mailbox of a rank."""

    kind: Literal["post"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    to: int
    mailbox: str
    content: Any

    def describe(self) -> str:
        return f"send {self.content} to {self.mailbox} of rank {self.to}"


class Take(NamedTuple):
    """The host looks into a mailbox of its rank: `poll`, `get`, or `idle` (a get that may wait for ever). `timeout_ns`:
    of a get that learns None when the time is up.
    """

    kind: Literal["take"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    mailbox: str
    how: str
    timeout_ns: int | None = None

    def describe(self) -> str:
        limit = "" if self.timeout_ns is None else f" for at most {self.timeout_ns} ns"
        return f"{self.how} {self.mailbox}{limit}"


class Watched(NamedTuple):
    """From now on this rank is told of the end of a rank or service: the message ("gone", actor) comes to its mailbox.
    Nobody posts it, so no other record tells of it but the `Learned` of whoever takes it.
    """

    kind: Literal["watch"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    actor: int
    mailbox: str

    def describe(self) -> str:
        return f"watch rank {self.actor}; its end comes to {self.mailbox}"


class Abort(NamedTuple):
    """The rank gave a communicator up. What it has under way there and awaits learns "aborted"."""

    kind: Literal["abort"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    communicator: str

    def describe(self) -> str:
        return f"abort {self.communicator}"


class Sleep(NamedTuple):
    """The host stands still for `ns` nanoseconds."""

    kind: Literal["sleep"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    ns: int

    def describe(self) -> str:
        return f"sleep {self.ns} ns"


class Flagged(NamedTuple):
    """A host thread set, cleared or looked at a flag of its rank. A `wait` or `query` has a `Learned` when it returned:
    None, or whether it was set.
    """

    kind: Literal["flag"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    flag: str
    how: str  # set, clear, wait or query

    def describe(self) -> str:
        return f"{self.how} flag {self.flag}"


class Threaded(NamedTuple):
    """A host thread started another one, or waits for its end. A `join` has a `Learned`: what that raised, or None."""

    kind: Literal["thread"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    name: str
    how: str  # start or join

    def describe(self) -> str:
        return f"{self.how} thread {self.name}"


class Ended(NamedTuple):
    """A host thread other than main ended. `message`: what it raised, as "ValueError: text"; empty if nothing.
    `where`: then the innermost line of the program. A rank's own end is `Finished` or `Raised`.
    """

    kind: Literal["ended"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    message: str

    def describe(self) -> str:
        return f"thread raised {self.message}" if self.message else "thread ended"


class Stored(NamedTuple):
    """A rank opened, joined, used or left a store at a port of a node. `port` of an `open`: as asked for, 0 for any.
    `value`: what a `set` sends; of a `get` or `join` the time-out in ns. An `open` or `join` has a `Learned` with the
    port, or None where it came to nothing; a `get` one with the value.
    """

    kind: Literal["store"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    node: int
    port: int
    how: str  # open, join, set, get, close
    key: str
    value: Any

    def describe(self) -> str:
        what = f" {self.key}" if self.key else ""
        return f"{self.how}{what} at port {self.port} of node {self.node}"


class Learned(NamedTuple):
    """The outcome of an op that learns something, when it returned. `site` and `ordinal` are those of the op.

    `outcome`: for arrays the CRC-32 of the bytes, so that two backends that computed different values differ in their
    journals; else what was learned: a message, whether an event had passed, None.
    """

    kind: Literal["learned"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    outcome: Any

    def describe(self) -> str:
        return "returned"


class Decision(NamedTuple):
    """A value that every member of `communicator`'s group has to decide equally. `site` is the label."""

    kind: Literal["decision"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    communicator: str
    value: Any  # numbers, strings, booleans, None and tuples of these

    def describe(self) -> str:
        return f"decided {self.value}"


class Probe(NamedTuple):
    """The protocol came to a place that has a name. `site` is the label."""

    kind: Literal["probe"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str

    def describe(self) -> str:
        return "came here"


class Raised(NamedTuple):
    """The program of this rank ended in an exception. `site` is the exception's type, `where` the innermost line of
    the program.
    """

    kind: Literal["raised"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    message: str

    def describe(self) -> str:
        return f"raised {self.site}: {self.message}"


class Injected(NamedTuple):
    """A fault or delay was applied here, or a message sent from outside. Shown in reports; of faults and delays checks
    must not read it, since a real bug leaves no such record.
    """

    kind: Literal["injected"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str
    what: str  # skip, repeat, alter, die, raise, hang, delay, kill, message
    ns: int = 0  # of a delay
    change: tuple[tuple[str, Any], ...] = ()  # of an altered op: field and value; of a message to, mailbox, content
    communicator: str | None = None  # with `seq`: the second address of a collective, where the scenario used it
    seq: int | None = None

    def describe(self) -> str:
        return f"injected: {self.what}"


class Finished(NamedTuple):
    """The program of this rank ran to its end and its streams are empty."""

    kind: Literal["finished"]
    step: int
    thread: str
    site: str
    ordinal: int
    where: str

    def describe(self) -> str:
        return "finished"


Record: TypeAlias = (
    Collective
    | Transfer
    | Launch
    | Alloc
    | Free
    | Used
    | Mark
    | Wait
    | FlagWait
    | Capture
    | Kept
    | Replay
    | Ask
    | Read
    | Post
    | Take
    | Watched
    | Abort
    | Sleep
    | Flagged
    | Threaded
    | Ended
    | Stored
    | Learned
    | Decision
    | Probe
    | Raised
    | Injected
    | Finished
)

RECORDS: dict[str, type[Any]] = {get_args(get_type_hints(kind)["kind"])[0]: kind for kind in get_args(Record)}
"""The classes by kind."""


# ---- named positions: where a field stands in a raw record. Without the name of a kind it is one in several kinds.


def _position(field: str, *kinds: type[Any]) -> int:
    """Where a field stands in records of these kinds (default: of all). Raises ValueError if that is not one place."""
    position: int
    (position,) = {kind._fields.index(field) for kind in kinds or RECORDS.values()}
    return position


KIND, STEP, THREAD, SITE, ORDINAL, WHERE = map(_position, ("kind", "step", "thread", "site", "ordinal", "where"))

ADDRESS = slice(THREAD, ORDINAL + 1)
"""The address of an op on its rank; the record of what it learned has the same."""

STREAM = _position(
    "stream", Collective, Transfer, Launch, Alloc, Free, Used, Mark, Wait, FlagWait, Read, Capture, Kept, Replay
)
COMMUNICATOR = _position("communicator", Collective, Transfer)
SEQ = _position("seq", Collective, Transfer)
OP = _position("op", Collective, Transfer)
COUNT = _position("count", Collective, Transfer)
DTYPE = _position("dtype", Collective, Transfer)
EVENT = _position("event", Mark, Wait, Ask)
BUFFER = _position("buffer", Alloc, Free, Used)

COLLECTIVE_ROOT = _position("root", Collective)
COLLECTIVE_REDUCE = _position("reduce", Collective)
COLLECTIVE_SIZES = _position("sizes", Collective)
CALL = slice(OP, COLLECTIVE_SIZES + 1)
"""What the call of a collective asks for: op, count, dtype, root, reduce and sizes."""

COLLECTIVE_READS = _position("reads", Collective)
COLLECTIVE_WRITES = _position("writes", Collective)
TRANSFER_PEER = _position("peer", Transfer)
TRANSFER_GROUP = _position("group", Transfer)
TRANSFER_READS = _position("reads", Transfer)
TRANSFER_WRITES = _position("writes", Transfer)
LAUNCH_READS = _position("reads", Launch)
LAUNCH_WRITES = _position("writes", Launch)
ALLOC_COUNT = _position("count", Alloc)
ALLOC_DTYPE = _position("dtype", Alloc)
ALLOC_PLACE = _position("place", Alloc)
GRAPH = _position("graph", Capture, Kept, Replay)
CAPTURE_WHAT = _position("what", Capture)
KEPT_CALL = _position("call", Kept)
KEPT_FIELDS = _position("fields", Kept)
REPLAY_CALLS = _position("calls", Replay)
ASK_HOW = _position("how", Ask)
READ_READS = _position("reads", Read)
POST_TO = _position("to", Post)
POST_MAILBOX = _position("mailbox", Post)
POST_CONTENT = _position("content", Post)
TAKE_MAILBOX = _position("mailbox", Take)
TAKE_HOW = _position("how", Take)
TAKE_TIMEOUT = _position("timeout_ns", Take)
WATCH_ACTOR = _position("actor", Watched)
WATCH_MAILBOX = _position("mailbox", Watched)
ABORT_COMMUNICATOR = _position("communicator", Abort)
SLEEP_NS = _position("ns", Sleep)
STORE_NODE = _position("node", Stored)
STORE_PORT = _position("port", Stored)
STORE_HOW = _position("how", Stored)
STORE_KEY = _position("key", Stored)
STORE_VALUE = _position("value", Stored)
FLAG = _position("flag", Flagged)
FLAG_HOW = _position("how", Flagged)
FLAG_AWAITED = _position("flag", FlagWait)
THREAD_NAME = _position("name", Threaded)
THREAD_HOW = _position("how", Threaded)
ENDED_MESSAGE = _position("message", Ended)
LEARNED_OUTCOME = _position("outcome", Learned)
DECISION_COMMUNICATOR = _position("communicator", Decision)
DECISION_VALUE = _position("value", Decision)
RAISED_MESSAGE = _position("message", Raised)
INJECTED_WHAT = _position("what", Injected)
INJECTED_CHANGE = _position("change", Injected)
INJECTED_COMMUNICATOR = _position("communicator", Injected)
INJECTED_SEQ = _position("seq", Injected)


def posted(raw: RawRecord) -> tuple[int, str, Any] | None:
    """To whom a message went by this record, into which mailbox, and its content; None if it tells of none. That of an
    `Injected` is from outside.
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
