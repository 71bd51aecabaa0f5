"""A journal in a file, as the parent reads it, also while the rank that writes it runs, is stuck or is dead.

The head of the file says how much of it counts (`journal_file`); its size does not. What lies behind the committed
length is a record that was cut short by a kill, or nothing at all. The reader reads the head as it is written, 8
aligned bytes of mapped memory at once.

    read_journal(path)          # all complete records
    last_step(path)             # of the last one: for the progress line
    step_set(path)              # the highest that the program has set, perhaps with no op in it
    standing(path)              # where the rank stands, if it does not move

Neither MessagePack nor JSON knows tuples. The writer turns them into arrays, and the reader turns all arrays into
tuples again. That gives the written record, since records hold nothing but plain data (`dpsim.backend.journal.plain`).
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from dpsim.contract.ops import (
    FLAG_HOW,
    INJECTED_WHAT,
    KIND,
    LOOK_TIMEOUT,
    MAIN,
    ORDINAL,
    SLEEP_NS,
    STEP,
    STORE_HOW,
    STORE_VALUE,
    STREAM,
    TAKE_HOW,
    TAKE_TIMEOUT,
    THREAD,
    THREAD_HOW,
    THREAD_NAME,
    RawRecord,
)
from dpsim.contract.times import ActorTimes
from real.journal_file import HEAD, LENGTH, TAIL

JSON = b"["
"""What such a record begins with, and no array of MessagePack does."""


def read_journal(path: Path) -> list[RawRecord]:
    """All complete records of a journal; none if the file does not exist (yet)."""
    return read_timed_journal(path)[0]


def read_timed_journal(path: Path) -> tuple[list[RawRecord], list[int]]:
    """The same, and for each record when it was written, in ns of CLOCK_MONOTONIC."""
    try:
        with path.open("rb") as file:
            end = _committed(file)
            file.seek(HEAD)
            data = file.read(end - HEAD)
    except FileNotFoundError:
        return [], []
    records, times, end = list[RawRecord](), list[int](), len(data)
    while end:
        end -= TAIL.size
        written, size = TAIL.unpack_from(data, end)
        records.append(_record(data[end - size : end]))
        times.append(written)
        end -= size
    records.reverse()
    times.reverse()
    return records, times


def read_timed_journals(paths: Iterable[Path]) -> tuple[list[list[RawRecord]], tuple[ActorTimes, ...]]:
    """Those of all ranks, and their times."""
    read = [read_timed_journal(path) for path in paths]
    return [records for records, _ in read], tuple(ActorTimes(written) for _, written in read)


def journal_size(path: Path) -> int:
    """Bytes of the records that have been written so far."""
    try:
        with path.open("rb") as file:
            return _committed(file) - HEAD
    except FileNotFoundError:
        return 0


def last_step(path: Path) -> int | None:
    """The step of the last complete record, or None if there is none."""
    try:
        with path.open("rb") as file:
            end = _committed(file) - LENGTH.size
            if end < HEAD:
                return None
            file.seek(end)
            [size] = LENGTH.unpack(file.read(LENGTH.size))
            end -= TAIL.size - LENGTH.size
            file.seek(max(HEAD, end - size))
            return int(_record(file.read(size))[STEP])
    except (FileNotFoundError, LookupError, TypeError, ValueError):  # its bytes may come later than the length
        return None


def step_set(path: Path) -> int:
    """The highest step that the program has set; -1 if the file does not exist (yet)."""
    try:
        with path.open("rb") as file:
            return _head(file)[1]
    except FileNotFoundError:
        return -1


def _committed(file: BinaryIO) -> int:
    """Where the last complete record ends."""
    return max(HEAD, _head(file)[0])


def _head(file: BinaryIO) -> tuple[int, int]:
    try:
        mapped = mmap.mmap(file.fileno(), HEAD, access=mmap.ACCESS_READ)
    except ValueError:  # the file has been made, and nothing else
        return HEAD, -1
    with mapped, memoryview(mapped) as head, head.cast("q") as numbers:
        return numbers[0], numbers[1]


def _record(data: bytes) -> RawRecord:
    from msgspec import msgpack

    record: RawRecord = tuples(json.loads(data) if data[:1] == JSON else msgpack.decode(data))
    return record


class Unmoving(NamedTuple):
    """Where a rank stands that does not move: in idle gets alone, or in a sleep or with a time-out of `pause_ns`."""

    idle: bool
    pause_ns: int


def standing(path: Path, main_is_over: bool = False) -> Unmoving:
    """Where a rank stands by the last records of its journal. A rank is idle if nothing else has been started that has
    yet to return. A rank that never awaits what it started is not idle. With several host threads, all that have not
    ended have to stand so; the journal does not show that main has ended.
    """
    pending: dict[tuple[Any, ...], RawRecord] = {}
    repeated, threads = set(), set[str]() if main_is_over else {MAIN}
    for record in read_journal(path):
        address, kind = record[THREAD : ORDINAL + 1], record[KIND]
        if kind == "thread" and record[THREAD_HOW] == "start":
            threads.add(record[THREAD_NAME])
        elif kind == "ended":
            threads.discard(record[THREAD])
        if kind == "injected" and record[INJECTED_WHAT] == "repeat":
            repeated.add(address)  # of the two the program awaits the second
        elif kind == "learned":
            pending.pop(address, None)
        elif _learns(record) and address not in repeated:
            pending[address] = record
    idle = all(record[KIND] == "take" and record[TAKE_HOW] == "idle" for record in pending.values())
    idle = idle and {record[THREAD] for record in pending.values()} == threads
    return Unmoving(idle, max(map(_pause_ns, pending.values()), default=0))


def _pause_ns(record: RawRecord) -> int:
    """How long a host may stand there without any fault."""
    if record[KIND] == "sleep":
        return int(record[SLEEP_NS])
    if record[KIND] == "take":
        return int(record[TAKE_TIMEOUT] or 0)
    if record[KIND] == "look":
        return int(record[LOOK_TIMEOUT] or 0)
    return int(record[STORE_VALUE] or 0) if record[KIND] == "store" else 0


def died_as_planned(path: Path) -> bool:
    """Whether the scenario wanted the rank to die where it is."""
    return any(record[KIND] == "injected" and record[INJECTED_WHAT] == "die" for record in read_journal(path))


def _learns(record: RawRecord) -> bool:
    if record[KIND] in ("flag", "thread"):
        return (record[FLAG_HOW] if record[KIND] == "flag" else record[THREAD_HOW]) in ("wait", "query", "join")
    if record[KIND] == "store":
        return record[STORE_HOW] in ("open", "join", "get")
    return record[KIND] in ("read", "ask", "take", "sleep", "look") or (
        record[KIND] in ("collective", "transfer") and record[STREAM] is None
    )


def tuples(value: Any) -> Any:
    """What was written, from what a reader made of its tuples."""
    return tuple(tuples(item) for item in value) if isinstance(value, list) else value
