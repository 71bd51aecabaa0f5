"""Entries: turns each entry of a flight recorder into a `RecordedCall`, or reports which field is wrong.

    {"process_group": ["0", "default_pg"], "collective_seq_id": 6, "profiling_name": "nccl:all_reduce", ...}
    RecordedCall(group="nccl:0", seq=6, shape=Shape("all_reduce", ...), place=CallPlace("train.py:42", ...), ...)

How NCCL and gloo of torch 2.11 to 2.14 fill the recorder's fields:

* `retired` is true if a call is over. `state` may be wrong: it is "completed" while the host is still inside the
  library's call, and with gloo it is always "scheduled".
* The calls of a coalesced group have no state. They are over if the entry that closes the group is.
* In "send 0->1" and "recv 1<-0", the numbers are positions in the group and not global ranks.
* The recorder keeps neither root nor reduction. Dumps in JSON have no stacks.

The dumps of a large job have a million entries, so entries with equal contents share their objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from dpsim.contract.chain import Chain
from dpsim.contract.words import BadInput, middle_cut
from dpsim.diagnose.dumps.own_lines import is_own

STATES = ("scheduled", "started", "completed")

FRAMES = 100
"""The largest number of stack frames that are read."""

_TRANSFER = re.compile(r"(send|recv) (\d{1,9})(?:->|<-)(\d{1,9})")


class DumpError(BadInput):
    """The content of a dump is invalid."""


class Shape(NamedTuple):
    """The arguments of a call.

    `me`, `peer`: the positions of a transfer's two ranks in the group. `dims`, `types`: of the inputs and the outputs.
    `root` and `reduction` are -1 and "" in a dump, which keeps neither.
    """

    op: str
    me: int
    peer: int
    dims: tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]
    types: tuple[tuple[str, ...], tuple[str, ...]]
    root: int = -1
    reduction: str = ""

    @property
    def is_transfer(self) -> bool:
        return self.op in ("send", "recv")


class CallPlace(NamedTuple):
    """The source line at which the user's program made a call, and the functions that led there, the
    innermost first.
    """

    line: str
    chain: Chain


NOWHERE = CallPlace("", ())


class RecordedCall(NamedTuple):
    """A call of a rank.

    `group`: library and name of its group. `seq`: the number of the collective, or of the transfer, in the group.
    `record`: the number of the entry. `created`, `ended`: in ns of the rank's clock, 0 if unknown. `op_id` also counts
    operations without an entry.
    """

    group: str
    seq: int
    shape: Shape
    place: CallPlace
    over: bool
    created: int
    ended: int
    record: int
    op_id: int
    timeout_ms: int


class RecordedCalls(NamedTuple):
    """The calls of a dump in order, and the descriptions of their groups."""

    calls: list[RecordedCall]
    described: dict[str, str]


class EntryReader:
    """Reads the entries of many dumps. Equal contents share one object."""

    def __init__(self) -> None:
        self._shapes: dict[Any, tuple[str, Shape]] = {}
        self._places: dict[Any, CallPlace] = {}
        self._names: dict[Any, str] = {}

    def read(self, entries: Any, name: str) -> RecordedCalls:
        """Returns the calls of a list of entries. `name` is the file. Raises a DumpError that names the entry."""
        if type(entries) is not list:
            raise DumpError(f"{name}: `entries` is {_kind(entries)}; expected a list")
        calls: list[RecordedCall] = []
        described: dict[str, str] = {}
        by_id: dict[tuple[int, ...], CallPlace] = {}
        try:
            for entry in entries:
                calls.append(self._call(entry, described, by_id))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            said = middle_cut(f"no {error}" if isinstance(error, KeyError) else error)
            raise DumpError(
                f"{name}: entries[{len(calls)}]: {said}; expected an entry as torch's flight recorder writes it"
            ) from None
        calls.sort(key=lambda call: call.record)
        return RecordedCalls(_coalesced(calls), described)

    def _call(self, entry: Any, described: dict[str, str], by_id: dict[tuple[int, ...], CallPlace]) -> RecordedCall:
        if type(entry) is not dict:
            raise TypeError(f"is {_kind(entry)}")
        group = entry["process_group"]
        if type(group) is not list or len(group) != 2 or type(group[0]) is not str or type(group[1]) is not str:
            raise TypeError("`process_group` is not the name and the description of a group")
        library, shape = self._shape(entry)
        key = library, group[0]
        named = self._names.get(key) or self._names.setdefault(key, f"{library}:{group[0]}")
        described[named] = group[1]
        retired, state = entry.get("retired"), entry.get("state", "scheduled")
        if state not in STATES or retired not in (True, False, None):
            raise ValueError(f"`state` or `retired` is unknown; expected {', '.join(STATES)}, true or false")
        of_transfers = shape.is_transfer or entry.get("is_p2p") is True
        seq = _number(entry, "p2p_seq_id" if of_transfers else "collective_seq_id", "seq_id")
        over = retired if retired is not None else state == "completed"
        ended = entry.get("time_discovered_completed_ns") or 0
        return RecordedCall(
            group=named,
            seq=seq,
            shape=shape,
            place=self._place(entry.get("frames"), by_id),
            over=over,
            created=_number(entry, "time_created_ns"),
            ended=ended if type(ended) is int else 0,
            record=_number(entry, "record_id", "id"),
            op_id=_number(entry, "op_id") if "op_id" in entry else 0,
            timeout_ms=_number(entry, "timeout_ms") if "timeout_ms" in entry else 0,
        )

    def _shape(self, entry: Mapping[str, Any]) -> tuple[str, Shape]:
        """Returns the library and the arguments of a call."""
        inputs, outputs = entry.get("input_sizes") or (), entry.get("output_sizes") or ()
        kinds, made = entry.get("input_dtypes") or (), entry.get("output_dtypes") or ()
        profiled = entry["profiling_name"]
        key = profiled, tuple(map(tuple, inputs)), tuple(map(tuple, outputs)), tuple(kinds), tuple(made)
        known = self._shapes.get(key)
        if known is not None:
            return known
        if type(profiled) is not str or len(profiled) > 200:
            raise TypeError("`profiling_name` is no name")
        if not all(type(size) is int and abs(size) < 1 << 63 for dims in (*key[1], *key[2]) for size in dims):
            raise TypeError("`input_sizes` or `output_sizes` are no lists of numbers")
        if not all(type(kind) is str and len(kind) < 100 for kind in (*key[3], *key[4])):
            raise TypeError("`input_dtypes` or `output_dtypes` are no names")
        library, _, op = profiled.rpartition(":")
        found = _TRANSFER.fullmatch(op)
        who = (int(found[2]), int(found[3])) if found else (-1, -1)
        shape = Shape(found[1] if found else op, *who, (key[1], key[2]), (key[3], key[4]))
        return self._shapes.setdefault(key, (library or "nccl", shape))

    def _place(self, frames: Any, by_id: dict[tuple[int, ...], CallPlace]) -> CallPlace:
        """Returns where the user's program made the call. `by_id` works because a pickle stores equal frames as one
        object.
        """
        if not frames:
            return NOWHERE
        if type(frames) is not list:
            raise TypeError("`frames` is no list")
        key = tuple(map(id, frames))
        known = by_id.get(key)
        if known is None:
            known = by_id[key] = self._of_frames(frames[:FRAMES])
        return known

    def _of_frames(self, frames: list[Any]) -> CallPlace:
        key = tuple([(frame["name"], frame["filename"], frame["line"]) for frame in frames])
        known = self._places.get(key)
        if known is None:
            if not all(type(name) is str and type(file) is str and type(line) is int for name, file, line in key):
                raise TypeError("`frames` have no name, filename and line")
            own = [frame for frame in key if is_own(frame[1])] or [*key]
            chain = tuple((middle_cut(name, 60), f"{middle_cut(file, 160)}:{line}") for name, file, line in own)
            known = self._places[key] = CallPlace(chain[0][1], chain)
        return known


def _coalesced(calls: list[RecordedCall]) -> list[RecordedCall]:
    """Returns the calls. Those of a coalesced group end with the entry that closes it, and this entry is dropped."""
    if not any("coalesced" in call.shape.op for call in calls):
        return calls
    kept: list[RecordedCall] = []
    of_group: dict[str, list[int]] = {}
    for call in calls:
        members = of_group.setdefault(call.group, [])
        if call.shape.op != "coalesced":
            members.append(len(kept))
            kept.append(call)
            continue
        own = [at for at in members if not kept[at].over and kept[at].seq == call.seq]
        for at in own:
            kept[at] = kept[at]._replace(over=call.over, ended=call.ended)
        if not own:
            kept.append(call)
        members.clear()
    return kept


def _number(entry: Mapping[str, Any], field: str, older: str = "") -> int:
    """Returns a field that is a whole number. `older` is its name in dumps of older versions."""
    value = entry[field] if field in entry or not older else entry[older]
    if type(value) is not int or abs(value) >= 1 << 63:
        raise TypeError(f"`{field}` is {_kind(value)}; expected a whole number")
    return value


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"
