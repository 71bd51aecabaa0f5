"""A journal in a file, as a rank writes it. The parent can read it while the rank is stuck or dead.

The journal file is mapped into memory. It begins with the number of *committed* bytes, and the highest step tag that
the program has set. The records follow; after each one the file has its time and its length. To write a record, the
rank first copies its bytes, and then stores the new committed length as 8 aligned bytes. So the file contains each
record completely or not at all, even if the writer is killed. A stored record belongs to the page cache and not to the
process. So the parent can read it while the writer is stuck in a call of a driver, holds Python's lock or is dead
(`journal_reader`).

Before the journal maps a part of the file, it allocates the disk space (`posix_fallocate`). A store to a page without
space would raise SIGBUS. If a rank cannot write a record, it cannot continue: it raises `NoJournal`, which no protocol
may catch, and each later write raises it again.

Records are MessagePack, which msgspec writes in a tenth of the time of JSON. Values of a program (a decision, a
message) use a strict JSON writer, since msgspec would write a set as a list. JSON also serves values that MessagePack
lacks (an integer of more than 64 bits, half a surrogate pair). The first byte of a record shows its format.

    file = JournalFile(path)
    file.write(("probe", 4, "main", "late", 0, "dpsim/contract/ops.py:88"))
    read_journal(path) == [("probe", 4, "main", "late", 0, "dpsim/contract/ops.py:88")]

One thread writes a journal at a time. A processor that reorders stores (not x86) may show a reader the length before
the bytes, for nanoseconds. The progress line reads the journal while the rank runs, so it may miss a step once.

Rejected: an `os.write` per record, a system call that costs noticeable time between two calls of CUDA. Also rejected:
JSON by msgspec, which silently writes an infinite number as null.
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
"""The size of the part of the file that is mapped at a time."""

HEAD = 16
"""The size of the head: the committed length, and the highest step that the program has set."""

MOST = (1 << 63) - 1
"""The highest step that fits into the head."""

LENGTH = struct.Struct("<I")
"""The length of a record, stored after it, so that a reader finds the last one from the end."""

TAIL = struct.Struct("<qI")
"""Stored after a record: its time, in ns of CLOCK_MONOTONIC, and its length."""

GIVEN = {"post": -1, "learned": -1, "decision": DECISION_VALUE, "raised": -1, "store": -1}
"""The index of the program's value in records that have one. Most are plain values, which need no check."""


class NoJournal(BaseException):
    """The journal could not write a record."""


class JournalFile:
    """The writing end. `write` is a closure for speed: it has all its values in local variables."""

    write: Callable[[RawRecord], None]
    reach: Callable[[int], None]
    """Writes a step tag that the program has set. If the rank dies before its first op in this step, no record shows
    the step.
    """

    def __init__(self, path: str) -> None:
        """Raises OSError if there is no room for a first window."""
        self.failed = ""
        """Why the journal could not write a record."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            self.write, self.reach = self._writer()
        except BaseException:
            os.close(self._file)
            raise
        self._chains = ChainFile(path)

    def close(self) -> None:
        """Ends writing."""
        self._chains.close()
        os.close(self._file)
        self._file = -1  # another file may have the number by now
        del self.write, self.reach

    def _writer(self) -> tuple[Callable[[RawRecord], None], Callable[[int], None]]:
        from msgspec.msgpack import Encoder  # imported here, since the backends can be imported without it

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
                room = -1  # if this record has no room, no later record is written
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
        """Returns the mapped memory of the next record, its offset in the file, the record's offset in it, its size."""
        first = begin - begin % mmap.ALLOCATIONGRANULARITY
        room = -(-(begin - first + size) // WINDOW) * WINDOW
        take_room(self._file, first, room)
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)  # otherwise each page costs a fault within some op
        return mmap.mmap(self._file, room, flags=flags, offset=first), first, begin - first, room


def strict(record: RawRecord) -> bytes:
    """Raises TypeError for a value that is no plain data."""
    return json.dumps(record, separators=(",", ":")).encode()


def take_room(file: int, first: int, size: int) -> None:
    """Allocates disk space for these bytes of a file. Raises OSError if there is none."""
    if sys.platform != "darwin":
        os.posix_fallocate(file, first, size)
    elif os.pwrite(file, bytes(size), first) != size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
