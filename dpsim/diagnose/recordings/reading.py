"""Reads a file that `dpsim record` wrote for one process: its header, its texts, and its records in order.

    recording = read_recording(path)
    recording.rank, recording.end            # 2, "runs"
    recording.records[-1]                    # RingRecord(kind=CALL, op="all_reduce", seq=6, place=..., end=0, ...)

The records are in a ring buffer of `slots` slots, and the recorder numbers the records from 1. Record n is in slot
n modulo `slots`. The process may still run, or may have died while it wrote a record, so a slot may be half-written.
The reader skips a slot whose number is 0 or belongs into another slot, and a slot with an unknown kind of record. For
other content that the recorder never writes, it raises `RecordingError`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from dpsim.contract import recording as layout
from dpsim.contract.words import BadInput, middle_cut
from dpsim.diagnose.dumps.entries import NOWHERE, CallPlace
from dpsim.trace.strict_json import loads

LARGEST = 1 << 30
"""The largest number of bytes of a file."""

RANKS = 1 << 20

TO_DO = "a file that is no recording has to leave the folder; then its rank counts as one without a recording"


class RecordingError(BadInput):
    """The content of a recording is invalid."""


class RecordedIn(NamedTuple):
    """A process group as one process saw it. `me` is the process's position in the group."""

    name: str
    description: str
    ranks: tuple[int, ...]
    library: str
    me: int


class RingRecord(NamedTuple):
    """A record of a call, a step or a decision.

    `number` counts the records of the process from 1. `peer` is the root of a collective, or the position of a
    transfer's peer; -1 without one. `input_size` is the number of elements that the rank contributes, or the number of
    a step. `output_size` is the number of elements that it receives.
    """

    number: int
    kind: int
    op: str
    thread: str
    dtype: str
    reduction: str
    group: int
    place: CallPlace
    seq: int
    peer: int
    input_size: int
    output_size: int
    start: int
    end: int
    label: str
    value: str


class ProcessRecording(NamedTuple):
    """The recording of one process.

    `alive` is its last sign of life, in ns of its clock, and `moved` the last change of the library's counts. `end` is
    a word of ENDS. `counted` is the number of collectives that the library counts, by group. `waits` is the number of
    the record whose Work the program waits for. `wrapped`: the ring buffer has lost records. `machine` and `begun_at`
    identify the process (dpsim.contract.machine), and `job` is the id that all ranks share.
    """

    path: Path
    rank: int
    size: int
    pid: int
    machine: str
    begun_at: int
    job: str
    began: int
    alive: int
    moved: int
    main: int
    end: str
    error: str
    missed: int
    dropped: int
    waits: int
    groups: dict[int, RecordedIn]
    counted: dict[int, int]
    records: list[RingRecord]
    wrapped: bool


def read_recording(path: Path) -> ProcessRecording:
    """Returns the content of a file. Raises a RecordingError that names the file."""
    name = middle_cut(path, 200)
    size = path.stat().st_size
    if size > LARGEST:
        raise RecordingError(f"{name}: {size:,} bytes; expected a recording of at most {LARGEST:,}. {TO_DO}")
    data = path.read_bytes()
    if len(data) < layout.HEADER_BYTES or not data.startswith(layout.MAGIC):
        raise RecordingError(f"{name}: does not begin as a recording of dpsim does. {TO_DO}")
    _, version, table, slots, rank, ranks, pid, began, main = layout.HEAD.unpack_from(data, 0)
    if version != layout.VERSION:
        raise RecordingError(f"{name}: of version {version}; expected {layout.VERSION}, of the same dpsim as this one")
    first = layout.HEADER_BYTES + table
    if len(data) != first + slots * layout.SLOT.size or not slots:
        raise RecordingError(f"{name}: {len(data):,} bytes, which its header does not say; was it cut off? {TO_DO}")
    if not 0 <= rank < RANKS or not 0 <= ranks <= RANKS:
        raise RecordingError(f"{name}: rank {rank} of {ranks}; expected a rank from 0. {TO_DO}")
    texts = _Texts(data, table, name)
    records, wrapped = _records(data, first, slots, texts)
    how, error = layout.END.unpack_from(data, layout.END_AT)
    if how >= len(layout.ENDS):
        raise RecordingError(f"{name}: the program ended in way {how}; expected 0 to {len(layout.ENDS) - 1}. {TO_DO}")
    groups = texts.groups()
    system, begun, job = texts.process()
    counted = {one: _word(data, layout.CALLS_AT + one * 8) for one in groups if one < layout.GROUPS}
    return ProcessRecording(
        path=path,
        rank=rank,
        size=ranks,
        pid=pid,
        machine=system,
        begun_at=begun,
        job=job,
        began=began,
        alive=_word(data, layout.ALIVE_AT),
        moved=_word(data, layout.MOVED_AT),
        main=main,
        end=layout.ENDS[how],
        error=texts.plain(error),
        missed=_word(data, layout.MISSED_AT),
        dropped=_word(data, layout.TABLE_AT + 8),
        waits=_word(data, layout.WAITS_AT),
        groups=groups,
        counted=counted,
        records=records,
        wrapped=wrapped,
    )


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _records(data: bytes, first: int, slots: int, texts: _Texts) -> tuple[list[RingRecord], bool]:
    """Returns the records in order, and whether the ring buffer has lost any."""
    found = []
    for at, slot in enumerate(layout.SLOT.iter_unpack(memoryview(data)[first:])):
        number = slot[-1]
        if number and number % slots == at and slot[0] in (layout.CALL, layout.STEP, layout.DECISION):
            found.append(slot)
    found.sort(key=lambda slot: slot[-1])
    if len(found) == slots:  # the oldest slot may be half-written by a killed process
        found = found[1:]
    return [_record(slot, texts) for slot in found], bool(found) and found[0][-1] > 1


def _record(slot: tuple[int, ...], texts: _Texts) -> RingRecord:
    kind, op, thread, dtype, how, group, place, seq, peer, input_size, output_size, start, end, number = slot
    decides = kind == layout.DECISION
    return RingRecord(
        number=number,
        kind=kind,
        op=layout.OPS[op] if op < len(layout.OPS) else f"operation {op}",
        thread=texts.plain(thread),
        dtype=texts.plain(dtype),
        reduction=texts.plain(how),
        group=group,
        place=texts.place(place),
        seq=seq,
        peer=peer,
        input_size=input_size,
        output_size=output_size,
        start=start,
        end=end,
        label=texts.plain(peer) if decides else "",
        value=texts.plain(input_size) if decides else "",
    )


class _Texts:
    """The table of texts of a recording."""

    def __init__(self, data: bytes, table: int, name: str) -> None:
        self.name = name
        self.texts: list[tuple[int, str]] = []
        used = min(_word(data, layout.TABLE_AT), table)
        at, stop = layout.HEADER_BYTES, layout.HEADER_BYTES + used
        while at + layout.TEXT.size <= stop:
            size, kind = layout.TEXT.unpack_from(data, at)
            at += layout.TEXT.size
            if at + size > stop:
                raise RecordingError(f"{name}: text {len(self.texts)} goes beyond the table. {TO_DO}")
            self.texts.append((kind, data[at : at + size].decode(errors="replace")))
            at += size
        self._places: dict[int, CallPlace] = {}

    def plain(self, number: int) -> str:
        return self.texts[number][1] if 0 <= number < len(self.texts) else ""

    def place(self, number: int) -> CallPlace:
        """Returns the lines of the user's program that led to a call."""
        known = self._places.get(number)
        if known is None:
            known = self._places[number] = self._lines(number)
        return known

    def _lines(self, number: int) -> CallPlace:
        if not 0 < number < len(self.texts) or self.texts[number][0] != layout.PLACE:
            return NOWHERE
        try:
            lines = loads(self.texts[number][1].encode())
            chain = tuple((middle_cut(function, 60), middle_cut(line, 160)) for function, line in lines)
        except (ValueError, TypeError, RecursionError):
            raise RecordingError(f"{self.name}: text {number} has no lines of a program. {TO_DO}") from None
        return CallPlace(chain[0][1], chain) if chain else NOWHERE

    def groups(self) -> dict[int, RecordedIn]:
        """Returns the process groups by the number of their text."""
        found = {}
        for number, (kind, text) in enumerate(self.texts):
            if kind == layout.GROUP:
                found[number] = self._group(number, text)
        return found

    def _group(self, number: int, text: str) -> RecordedIn:
        try:
            about: Any = loads(text.encode())
            ranks = tuple(about["ranks"])
            words = about["name"], about["desc"], about["library"]
            if not all(type(rank) is int and 0 <= rank < RANKS for rank in (*ranks, about["me"])):
                raise ValueError("a rank is no number")
            if not all(type(word) is str for word in words):
                raise ValueError("a name is no text")
        except (ValueError, TypeError, KeyError, RecursionError, AttributeError) as error:
            raise RecordingError(f"{self.name}: text {number} is no group: {middle_cut(error)}. {TO_DO}") from None
        name, description, library = (middle_cut(word, 80) for word in words)
        return RecordedIn(name, description, ranks, library, about["me"])

    def process(self) -> tuple[str, int, str]:
        """Returns the machine of the process, when it began, and its job; empty if the recording lacks them."""
        try:
            about = json.loads(self.texts[1][1])
            return str(about["machine"]), int(about["begun_at"]), str(about.get("job", ""))
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return "", 0, ""
