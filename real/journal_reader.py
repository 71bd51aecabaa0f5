"""Reads the journal file of a rank in the parent, even while the rank runs, is stuck or is dead.

The head of a journal file contains the number of committed bytes (`journal_file`); the size of the file is irrelevant.
Bytes after the committed ones belong to a record that a kill cut short, or to none. The reader reads the head as the
writer writes it, 8 aligned bytes of mapped memory at once.

    read_journal(path)          # all complete records
    last_step(path)             # the step of the last one: for the progress line
    step_set(path)              # the highest step that the program has set, perhaps without an op
    standing(path)              # where the rank waits, if it makes no progress

Neither MessagePack nor JSON has tuples. The writer turns them into arrays, and the reader turns all arrays into tuples
again. This restores the record, since records contain only plain data (`dpsim.backend.journal.plain`).
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from dpsim.contract.kinds import learns, timeout_ns
from dpsim.contract.ops import (
    INJECTED_WHAT,
    KIND,
    MAIN,
    ORDINAL,
    SLEEP_NS,
    STEP,
    TAKE_HOW,
    THREAD,
    THREAD_HOW,
    THREAD_NAME,
    RawRecord,
)
from dpsim.contract.times import ActorTimes
from real.journal_file import HEAD, LENGTH, TAIL

JSON = b"["
"""The first byte of a JSON record; no MessagePack array begins with it."""


def read_journal(path: Path) -> list[RawRecord]:
    """Returns all complete records of a journal; none if the file does not exist (yet)."""
    return read_timed_journal(path)[0]


def read_timed_journal(path: Path) -> tuple[list[RawRecord], list[int]]:
    """As `read_journal`, with the time of each record, in ns of CLOCK_MONOTONIC."""
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
    """Returns the journals of all ranks, and their times."""
    read = [read_timed_journal(path) for path in paths]
    return [records for records, _ in read], tuple(ActorTimes(written) for _, written in read)


def journal_size(path: Path) -> int:
    """Returns the number of bytes of complete records."""
    try:
        with path.open("rb") as file:
            return _committed(file) - HEAD
    except FileNotFoundError:
        return 0


def last_step(path: Path) -> int | None:
    """Returns the step of the last complete record, or None if there is none."""
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
    """Returns the highest step that the program has set; -1 if the file does not exist (yet)."""
    try:
        with path.open("rb") as file:
            return _head(file)[1]
    except FileNotFoundError:
        return -1


def _committed(file: BinaryIO) -> int:
    """Returns the offset at which the last complete record ends."""
    return max(HEAD, _head(file)[0])


def _head(file: BinaryIO) -> tuple[int, int]:
    try:
        mapped = mmap.mmap(file.fileno(), HEAD, access=mmap.ACCESS_READ)
    except ValueError:  # the rank has created the file and written nothing
        return HEAD, -1
    with mapped, memoryview(mapped) as head, head.cast("q") as numbers:
        return numbers[0], numbers[1]


def _record(data: bytes) -> RawRecord:
    from msgspec import msgpack

    record: RawRecord = tuples(json.loads(data) if data[:1] == JSON else msgpack.decode(data))
    return record


class Unmoving(NamedTuple):
    """Where a rank without progress waits: only in idle gets, or in a sleep or a wait with a time-out of `pause_ns`."""

    idle: bool
    pause_ns: int


def unmoving_state(path: Path, main_is_over: bool = False) -> Unmoving:
    """Returns where a rank waits, from the last records of its journal. A rank is idle if it waits in an idle get and
    has no other unfinished call. A rank that never awaits a call which it started is not idle. With several host
    threads, all that have not ended have to be idle; the journal does not show that main has ended.
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
            repeated.add(address)  # a fault repeated the call; the program awaits the second one
        elif kind == "learned":
            pending.pop(address, None)
        elif learns(record) and address not in repeated and record[ORDINAL] >= 0:  # no program awaits an inserted call
            pending[address] = record
    idle = all(record[KIND] == "take" and record[TAKE_HOW] == "idle" for record in pending.values())
    idle = idle and {record[THREAD] for record in pending.values()} == threads
    return Unmoving(idle, max(map(_pause_ns, pending.values()), default=0))


def _pause_ns(record: RawRecord) -> int:
    """Returns how long a host may wait there without any fault."""
    return int(record[SLEEP_NS]) if record[KIND] == "sleep" else timeout_ns(record) or 0


def died_as_planned(path: Path) -> bool:
    """Whether the scenario planted the rank's death at this op."""
    return any(record[KIND] == "injected" and record[INJECTED_WHAT] == "die" for record in read_journal(path))


def tuples(value: Any) -> Any:
    """Returns the value with tuples in place of a reader's arrays."""
    return tuple(tuples(item) for item in value) if isinstance(value, list) else value
