"""What each kind of record is: one row a kind, and the sets of kinds that readers of journals ask.

    raw[KIND] in MEETS             a collective or transfer: members or a peer take part in it
    raw[KIND] in WORK              it may be work on a stream of the device
    learns(raw)                    the host awaits this call: a `Learned` follows, unless it is blocked there

Readers ask these sets, because a list of kinds in a reader forgets a kind that is added later. The fields of a row have
no defaults, so the author of a kind decides each of them. A few readers have sets that no trait gives.
`tests/contract/test_kinds.py` lists them with the reasons. It fails for a new kind until these readers decide, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from dpsim.contract.ops import DECISION_VALUE, KIND, LEARNED_OUTCOME, RECORDS, STORE_HOW, STORE_VALUE, STREAM, RawRecord


class Traits(NamedTuple):
    """The row of a kind."""

    role: Literal["call", "statement", "outcome", "planted", "end"]  # a statement is a decision or a probe
    site: Literal["named", "fixed", "shared"]  # named by the program, by the backend, or the address of another record
    stream: Literal["", "work", "order", "memory", "graph"]  # what it does to a stream
    awaits: Literal["", "peers", "device", "message", "store", "threads", "time"]  # for what the host waits
    learns: Literal["", "always", "host", "how"]  # a `Learned` follows: always, if on no stream, or as `how` says
    sends: bool  # it may send to other actors
    polls: bool  # it may return "not yet", so that a program can repeat it
    late: bool  # a scenario can delay it


KINDS: dict[str, Traits] = {
    #                         role        site      stream    awaits    learns   sends  polls  late
    "collective": Traits("call", "named", "work", "peers", "host", True, False, True),
    "transfer": Traits("call", "named", "work", "peers", "host", True, False, True),
    "receive_any": Traits("call", "named", "", "peers", "always", False, False, True),
    "look": Traits("call", "named", "", "time", "always", False, True, False),
    "group": Traits("call", "fixed", "", "", "", False, False, False),
    "launch": Traits("call", "named", "work", "", "", False, False, True),
    "alloc": Traits("call", "named", "memory", "", "", False, False, False),
    "free": Traits("call", "shared", "memory", "", "", False, False, False),
    "used": Traits("call", "fixed", "memory", "", "", False, False, False),
    "fresh": Traits("call", "fixed", "memory", "", "", False, False, False),
    "mark": Traits("call", "fixed", "order", "", "", False, False, False),
    "wait": Traits("call", "fixed", "order", "", "", False, False, False),
    "flag_wait": Traits("call", "named", "order", "", "", False, False, True),
    "capture": Traits("call", "named", "graph", "", "", False, False, True),
    "kept": Traits("call", "named", "graph", "", "", False, False, True),
    "replay": Traits("call", "named", "graph", "", "", False, False, True),
    "ask": Traits("call", "named", "", "device", "always", False, True, False),
    "read": Traits("call", "named", "work", "device", "always", False, False, True),
    "post": Traits("call", "named", "", "", "", True, False, True),
    "take": Traits("call", "named", "", "message", "always", False, True, True),
    "watch": Traits("call", "named", "", "", "", False, False, False),
    "abort": Traits("call", "named", "", "", "", False, False, False),
    "sleep": Traits("call", "named", "", "time", "always", False, False, True),
    "flag": Traits("call", "named", "", "threads", "how", False, True, True),
    "thread": Traits("call", "named", "", "threads", "how", False, False, False),
    "store": Traits("call", "named", "", "store", "how", True, True, False),
    "learned": Traits("outcome", "shared", "", "", "", False, False, False),
    "decision": Traits("statement", "named", "", "", "", False, False, False),
    "probe": Traits("statement", "named", "", "", "", False, False, False),
    "injected": Traits("planted", "shared", "", "", "", False, False, False),
    "ended": Traits("end", "fixed", "", "", "", False, False, False),
    "raised": Traits("end", "fixed", "", "", "", False, False, False),
    "finished": Traits("end", "fixed", "", "", "", False, False, False),
}


def _kinds(fits: Callable[[Traits], bool]) -> frozenset[str]:
    return frozenset(kind for kind, row in KINDS.items() if fits(row))


CALLS = _kinds(lambda row: row.role == "call")
ENDS = _kinds(lambda row: row.role == "end")
RANK_ENDS = ENDS - {"ended"}  # `ended` is the end of a thread
ADDED = _kinds(lambda row: row.role in ("outcome", "planted"))  # by a backend, to a call of the program
NO_ACTS = ADDED | {"finished"}  # all that is no act of the program; an exception is one
SHARED = _kinds(lambda row: row.site == "shared")
NAMED = _kinds(lambda row: row.site == "named")

MEETS = _kinds(lambda row: row.awaits == "peers" and row.stream == "work")  # collectives and transfers
WORK = _kinds(lambda row: row.stream == "work")  # if the record has a stream
ORDER = _kinds(lambda row: row.stream == "order")
MEMORY = _kinds(lambda row: row.stream == "memory")

LEARNS = _kinds(lambda row: row.learns == "always")  # `learns` also knows the calls that depend on a field
LAUNCHED = (WORK | ORDER) - LEARNS  # what a graph can contain, and each replay makes again
TIMED = _kinds(lambda row: row.awaits == "time")  # they return by themselves
FOR_DEVICE = _kinds(lambda row: row.awaits == "device")  # the host learns that work of its device is over
FOR_ACTORS = _kinds(lambda row: row.awaits in ("message", "store"))  # the host waits for what another actor sends
RECEIVES = FOR_ACTORS | _kinds(lambda row: row.awaits == "peers")
SENDS = _kinds(lambda row: row.sends)
POLLS = _kinds(lambda row: row.polls)
OF_THREADS = _kinds(lambda row: row.awaits == "threads")
AT_ONCE = _kinds(lambda row: not row.awaits and row.role != "end" and row.stream in ("", "memory")) - {"alloc"}
"""The host never waits there, not even for room in a queue of its device."""
IN_TIME = _kinds(lambda row: not row.late)  # a delay has no effect there
SILENT = frozenset(KINDS) - (CALLS | {"raised"}) | {"sleep"}  # no work that a rank issued, to its device or to others


def _field(name: str) -> dict[str, int]:
    return {kind: record._fields.index(name) for kind, record in RECORDS.items() if name in record._fields}


HOW = _field("how")  # the index of the field that names the call, for kinds that stand for several calls
TIMEOUT = _field("timeout_ns")
READS, WRITES = _field("reads"), _field("writes")
VALUE = {"learned": LEARNED_OUTCOME, "decision": DECISION_VALUE}

_LEARNS_NOTHING = frozenset({"set", "clear", "start", "close"})


def learns(raw: RawRecord) -> bool:
    """Returns whether the host awaits this call, so that a `Learned` follows unless the host is blocked there.

    >>> store = ("store", 0, "main", "key", 0, "p.py:1", 0, 7000, "get", "key", None)
    >>> learns(store), learns(store[:8] + ("set", "key", 1))
    (True, False)
    """
    kind = raw[KIND]
    if kind in MEETS:
        return raw[STREAM] is None
    return kind in LEARNS or (kind in HOW and raw[HOW[kind]] not in _LEARNS_NOTHING)


def timeout_ns(raw: RawRecord) -> int | None:
    """Returns how long a call waits at most, in ns; None without a time-out."""
    ns: int | None = raw[TIMEOUT[raw[KIND]]] if raw[KIND] in TIMEOUT else None
    return raw[STORE_VALUE] if raw[KIND] == "store" and raw[STORE_HOW] in ("get", "join") else ns
