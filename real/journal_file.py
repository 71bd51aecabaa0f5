"""A journal in a file, as the rank writes it: the parent can read it while the rank is stuck or dead.

The file is mapped into memory. At its beginning stands how much of it is *committed*, and the highest step tag that the
program has set. Behind that the records follow one another, each with its time and its length behind it. To write a
record is one copy and one store: first its bytes, then the new committed length, 8 aligned bytes at once. So a record
is there as a whole or not at all, wherever its writer is killed. A stored record belongs to the page cache and not to
the process. A reader of the file sees it while the writer is stuck in a call of a driver, holds Python's lock or is
dead (`journal_reader`).

The journal takes space on the disk before it maps a window of the file (`posix_fallocate`). A store to a page without
space would raise SIGBUS. A rank that cannot write goes no further: `NoJournal`, which no protocol may catch, and which
every later write raises again.

Records are MessagePack, which msgspec makes in a tenth of the time that JSON takes. Values of a program (a decision, a
message) go through the strict writer of JSON: msgspec would take a set and give a list back. So does what MessagePack
lacks (an integer of more than 64 bits, half a surrogate pair). The first byte of a record says which of the two it is.

    file = JournalFile(path)
    file.write(("probe", 4, "main", "late", 0, "dpsim/contract/ops.py:88"))
    read_journal(path) == [("probe", 4, "main", "late", 0, "dpsim/contract/ops.py:88")]

One thread writes at a time. A processor that reorders stores (not x86) may show a reader the length before the bytes,
for nanoseconds. So the step for the progress line, which the parent reads while the rank runs, may be missing once.

Rejected: an `os.write` a record, a system call whose time shows between two calls of CUDA. Also rejected: JSON through
msgspec, in which an infinite number becomes null without a word.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Callable

from dpsim.backend.journal.plain import PLAIN
from dpsim.contract.ops import DECISION_VALUE, KIND, RawRecord
from real.chain_file import ChainFile

WINDOW = 1 << 20
"""So much of the file is mapped at a time."""

HEAD = 16
"""Bytes at the beginning of the file: of the committed length, and of the highest step that the program has set."""

MOST = (1 << 63) - 1
"""The highest step that fits there."""

LENGTH = struct.Struct("<I")
"""Of a record, behind it: so the last one is found from the end."""

TAIL = struct.Struct("<qI")
"""What is behind a record: when it was written, in ns of CLOCK_MONOTONIC, and its length."""

GIVEN = {"post": -1, "learned": -1, "decision": DECISION_VALUE, "raised": -1, "store": -1}
"""Where the field of the program is, in kinds of records that have one. A plain value, which most are, needs no check.
"""


class NoJournal(BaseException):
    """A record could not be written."""


class JournalFile:
    """The writing end. `write` is a closure, with all it needs at hand."""

    write: Callable[[RawRecord], None]
    reach: Callable[[int], None]
    """The program has set this step tag. A rank that dies before its first op there leaves no other trace of it."""

    def __init__(self, path: str) -> None:
        """Raises OSError where there is no room for a first window."""
        self.failed = ""
        """Why a record could not be written."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            self.write, self.reach = self._writer()
        except BaseException:
            os.close(self._file)
            raise
        self._chains = ChainFile(path)

    def close(self) -> None:
        """Nothing more is written."""
        self._chains.close()
        os.close(self._file)
        self._file = -1  # the number may be another file's by now
        del self.write, self.reach

    def _writer(self) -> tuple[Callable[[RawRecord], None], Callable[[int], None]]:
        from msgspec.msgpack import Encoder  # not above: importing the backends must work where it is not installed

        encode, put_tail, more, now = Encoder().encode, TAIL.pack_into, TAIL.size, time.monotonic_ns
        memory, first, at, room = self._window(HEAD, 0)
        head = memoryview(mmap.mmap(self._file, HEAD)).cast("q")
        head[1] = -1
        head[0] = HEAD

        def write(record: RawRecord) -> None:
            nonlocal memory, first, at, room
            if record[KIND] in GIVEN and type(record[GIVEN[record[KIND]]]) not in PLAIN:
                data = strict(record)
            else:
                try:
                    data = encode(record)
                except (TypeError, OverflowError, UnicodeEncodeError):
                    data = strict(record)
            size = len(data)
            end = at + size
            if end + more > room:
                room = -1  # where there is none for this record, none is written after it
                memory, first, at, room = self._next_window(first + at, size + more)
                end = at + size
            memory[at:end] = data
            put_tail(memory, end, now(), size)
            at = end + more
            head[0] = first + at

        def reach(step: int) -> None:
            if step > head[1]:
                head[1] = min(step, MOST)

        return write, reach

    def _next_window(self, begin: int, size: int) -> tuple[mmap.mmap, int, int, int]:
        if not self.failed:
            try:
                return self._window(begin, size)
            except OSError as error:
                self.failed = f"the journal could not be written: {(error.strerror or str(error)).lower()}"
        raise NoJournal(self.failed)

    def _window(self, begin: int, size: int) -> tuple[mmap.mmap, int, int, int]:
        """The part of the file in which a record of that size begins there. Gives the mapped memory, its place in the
        file, where in it the record begins, and its size.
        """
        first = begin - begin % mmap.ALLOCATIONGRANULARITY
        room = -(-(begin - first + size) // WINDOW) * WINDOW
        take_room(self._file, first, room)
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)  # else each page is a fault within some op
        return mmap.mmap(self._file, room, flags=flags, offset=first), first, begin - first, room


def strict(record: RawRecord) -> bytes:
    """Raises TypeError for what is no plain data."""
    return json.dumps(record, separators=(",", ":")).encode()


def take_room(file: int, first: int, size: int) -> None:
    """Have the disk keep room for these bytes of a file. Raises OSError where it has none."""
    if sys.platform != "darwin":
        os.posix_fallocate(file, first, size)
    elif os.pwrite(file, bytes(size), first) != size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
