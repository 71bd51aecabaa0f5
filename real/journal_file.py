"""A journal in a file, which the parent can read while the rank that writes it is stuck or dead.

One record a line, each a JSON array: the raw record. A line is written through with one `os.write`, so what a rank
did is on the disk (or rather in the page cache, which outlives the process) before it does the next thing. 5 us a
record. A rank that cannot write goes no further: `NoJournal`, which no protocol may catch, and which every later write
raises again.

JSON knows no tuples: the writer turns them into arrays, and the reader turns all arrays back into tuples, which gives
the record that was written, since records hold nothing but plain data (`dpsim.backend.plain`). A last line
without its end is a record that was cut short by a kill, and is left out.

    file = JournalFile(path)
    file.write(("probe", 4, "main", "late", 0, "dpsim/ops.py:88"))
    read_journal(path) == [("probe", 4, "main", "late", 0, "dpsim/ops.py:88")]
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from dpsim.ops import INJECTED_WHAT, KIND, ORDINAL, SLEEP_NS, STEP, STREAM, TAKE_HOW, THREAD, RawRecord

TAIL = 4096
"""Bytes at the end of a journal in which its last record is looked for."""


class NoJournal(BaseException):
    """A record could not be written, or not as a whole."""


class JournalFile:
    """The writing end."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.failed = ""
        """Why a record could not be written."""

    def write(self, record: RawRecord) -> None:
        line = f"{json.dumps(record, separators=(',', ':'))}\n".encode()
        try:
            written = -1 if self.failed else os.write(self._file, line)
        except OSError as error:
            written, self.failed = -1, f"the journal could not be written: {(error.strerror or str(error)).lower()}"
        if written != len(line):
            self.failed = self.failed or f"the journal could not be written: {written} of {len(line)} bytes"
            raise NoJournal(self.failed)

    def close(self) -> None:
        os.close(self._file)


def read_journal(path: Path) -> list[RawRecord]:
    """All complete records of a journal; none if the file does not exist (yet)."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    return [tuples(json.loads(line)) for line in text.split(b"\n")[:-1]]


def journal_size(path: Path) -> int:
    """Bytes written so far."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def last_step(path: Path) -> int | None:
    """The step of the last complete record, or None if there is none near the end of the file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return None
    # The first piece may be the end of a long line, the last one is a line without its end.
    for line in reversed(lines[:-1]):
        try:
            return int(json.loads(line)[STEP])
        except ValueError:
            return None
    return None


class Standing(NamedTuple):
    """Where a rank stands that does not move: in idle gets alone, or in a sleep of so long."""

    idle: bool
    sleep_ns: int


def standing(path: Path) -> Standing:
    """What the last records of a journal tell. A rank is idle if nothing else has been started that has yet to
    return; one that never awaits what it started is not called so.
    """
    pending: dict[tuple[Any, ...], RawRecord] = {}
    repeated = set()
    for record in read_journal(path):
        address, kind = record[THREAD : ORDINAL + 1], record[KIND]
        if kind == "injected" and record[INJECTED_WHAT] == "repeat":
            repeated.add(address)  # of the two the program awaits the second
        elif kind == "learned":
            pending.pop(address, None)
        elif _learns(record) and address not in repeated:
            pending[address] = record
    idle = bool(pending) and all(record[KIND] == "take" and record[TAKE_HOW] == "idle" for record in pending.values())
    sleeps = [record[SLEEP_NS] for record in pending.values() if record[KIND] == "sleep"]
    return Standing(idle, max(sleeps, default=0))


def died_as_planned(path: Path) -> bool:
    """Whether the scenario wanted the rank to die where it is."""
    return any(record[KIND] == "injected" and record[INJECTED_WHAT] == "die" for record in read_journal(path))


def _learns(record: RawRecord) -> bool:
    return record[KIND] in ("read", "ask", "take", "sleep") or (
        record[KIND] in ("collective", "transfer") and record[STREAM] is None
    )


def tuples(value: Any) -> Any:
    """What was written, from what JSON made of it."""
    return tuple(tuples(item) for item in value) if isinstance(value, list) else value
