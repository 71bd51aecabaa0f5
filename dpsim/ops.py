"""The vocabulary that every backend shares: addresses, collectives, and the records of a rank's journal.

Every effect of a protocol on the world is an *op* with an **address** that survives unrelated change: the rank, the
host thread, the *site* (a name given in the source, never a line number) and the *ordinal* (how often that rank
came to that site before). A collective has a second address, (communicator, sequence number). Faults, delays and
reports all speak of ops by these addresses, and an address means the same op in the simulation and on GPUs.

Each rank keeps a **journal**: one record per op, in the order in which the host issued them. A record is a plain
tuple (a named tuple costs five times as much to make, and a journal has millions); the classes below name the
fields and are what checks and reports read. A record begins with the same five fields everywhere: kind, step, site,
ordinal, where.

    >>> where = "dpsim/protocol/batch.py:88"
    >>> raw = ("collective", 4, "dp.agree", 4, where, None, "dp_cpu", 4, "all_reduce", 8, "int32", None)
    >>> record = as_record(raw)
    >>> record.describe()
    'all_reduce int32[8] on dp_cpu #4'

The **step** is the *logical step tag*, set by the protocol. A rank that skips one collective pairs up silently with
its peers' next one, as on real hardware; only the tag shows where it went wrong.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

DType: TypeAlias = Literal["int32", "int64", "float32"]
"""Element types that numpy, torch, gloo and NCCL all reduce."""

DTYPES: dict[str, int] = {"int32": 4, "int64": 8, "float32": 4}
"""Bytes per element."""

CollectiveName: TypeAlias = Literal["all_reduce", "broadcast"]

ROOTED: dict[str, bool] = {"all_reduce": False, "broadcast": True}
"""The collectives of the contract; True where the call names a root."""

Domain: TypeAlias = Literal["host", "device"]

RawRecord: TypeAlias = tuple[Any, ...]
"""A record as it is kept and sent: one of the named tuples below, without its name."""


class Address(NamedTuple):
    """Where in a program an op was issued. Stable under unrelated change of the program, equal on every backend."""

    rank: int
    thread: str
    site: str
    ordinal: int

    def __str__(self) -> str:
        return f"rank {self.rank} {self.site}[{self.ordinal}]"


class Collective(NamedTuple):
    """One rank's part in one collective, journaled when the host issues it."""

    kind: Literal["collective"]
    step: int
    site: str
    ordinal: int
    where: str
    stream: str | None  # None: host domain
    communicator: str
    seq: int  # position in this rank's sequence on this communicator, from 0
    op: str
    count: int  # type: ignore[assignment]  # elements; the field hides tuple.count, which nobody wants
    dtype: str
    root: int | None  # global rank; None: the op has no root

    def describe(self) -> str:
        root = "" if self.root is None else f" root {self.root}"
        return f"{self.op} {self.dtype}[{self.count}]{root} on {self.communicator} #{self.seq}"


class Launch(NamedTuple):
    """A kernel put on a stream. Sizes are elements of the buffers read, then of those written."""

    kind: Literal["launch"]
    step: int
    site: str
    ordinal: int
    where: str
    stream: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]

    def describe(self) -> str:
        return f"kernel on stream {self.stream}"


class Alloc(NamedTuple):
    """Memory taken from a stream's pool."""

    kind: Literal["alloc"]
    step: int
    site: str
    ordinal: int
    where: str
    stream: str
    count: int  # type: ignore[assignment]  # as above
    dtype: str

    def describe(self) -> str:
        return f"alloc {self.dtype}[{self.count}] on stream {self.stream}"


class Free(NamedTuple):
    """Memory given back; `site` and `ordinal` are those of its `Alloc`."""

    kind: Literal["free"]
    step: int
    site: str
    ordinal: int
    where: str
    stream: str

    def describe(self) -> str:
        return f"free on stream {self.stream}"


class Read(NamedTuple):
    """The host asked for the content of a buffer and waits for its stream."""

    kind: Literal["read"]
    step: int
    site: str
    ordinal: int
    where: str
    stream: str
    count: int  # type: ignore[assignment]  # as above
    dtype: str

    def describe(self) -> str:
        return f"read {self.dtype}[{self.count}] from stream {self.stream}"


class Learned(NamedTuple):
    """The outcome of an op that learns something: a host collective or a read that returned.

    `site` and `ordinal` are those of the op; `outcome` is the CRC-32 of the result's bytes, so that two backends
    that computed different values differ in their journals.
    """

    kind: Literal["learned"]
    step: int
    site: str
    ordinal: int
    where: str
    outcome: int

    def describe(self) -> str:
        return "returned"


class Decision(NamedTuple):
    """A value that every member of `communicator`'s group has to decide equally. `site` is the label."""

    kind: Literal["decision"]
    step: int
    site: str
    ordinal: int
    where: str
    communicator: str
    value: Any  # numbers, strings, booleans, None and tuples of these

    def describe(self) -> str:
        return f"decided {self.value}"


class Raised(NamedTuple):
    """The program of this rank ended in an exception. `site` is the exception's type, `where` the innermost line of
    the program.
    """

    kind: Literal["raised"]
    step: int
    site: str
    ordinal: int
    where: str
    message: str

    def describe(self) -> str:
        return f"raised {self.site}: {self.message}"


class Injected(NamedTuple):
    """A fault or delay was applied here. Shown in reports; checks must not read it, since a real bug leaves no such
    record.
    """

    kind: Literal["injected"]
    step: int
    site: str
    ordinal: int
    where: str
    what: str

    def describe(self) -> str:
        return f"injected: {self.what}"


class Finished(NamedTuple):
    """The program of this rank ran to its end and its streams are empty."""

    kind: Literal["finished"]
    step: int
    site: str
    ordinal: int
    where: str

    def describe(self) -> str:
        return "finished"


Record: TypeAlias = Collective | Launch | Alloc | Free | Read | Learned | Decision | Raised | Injected | Finished

RECORDS: dict[str, type[Any]] = {
    "collective": Collective,
    "launch": Launch,
    "alloc": Alloc,
    "free": Free,
    "read": Read,
    "learned": Learned,
    "decision": Decision,
    "raised": Raised,
    "injected": Injected,
    "finished": Finished,
}


def as_record(raw: RawRecord) -> Record:
    """Name the fields of a raw record. Raises KeyError for an unknown kind, TypeError for a wrong number of fields."""
    record: Record = RECORDS[raw[0]]._make(raw)
    return record
