"""The file of a recording, as the recorder writes it: a mapped ring of records and a table of texts.

    file = RecordingFile(folder, rank=2, size=8, slots=65536)
    number = file.call(op, group, place, ...)      # a call begins
    file.end(number)                               # it returns

A record is one store of 64 bytes into mapped memory, and the file contains each text once. The recorder flushes
nothing, since the kernel keeps what a killed process wrote. (A power failure loses it.) If the table of texts is full,
a new text gets the number 0, and the header counts it.
"""

from __future__ import annotations

import itertools
import mmap
import os
import threading
import time
from pathlib import Path

from dpsim.contract import recording as layout

SUFFIX_NEW = ".new"


class RecordingFile:
    """The recording of one process."""

    def __init__(self, folder: Path, rank: int, size: int, slots: int = layout.SLOTS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / layout.NAME.format(rank=rank, pid=os.getpid())
        self.slots = slots
        self._first = layout.HEADER_BYTES + layout.TABLE_BYTES
        new = self.path.with_name(self.path.name + SUFFIX_NEW)
        try:
            with new.open("w+b") as file:
                os.posix_fallocate(file.fileno(), 0, self._first + slots * layout.SLOT.size)  # fails on a full disk
                self.memory = mmap.mmap(file.fileno(), 0)
        except OSError:
            new.unlink(missing_ok=True)
            raise
        main = threading.main_thread().ident or 0
        head = layout.VERSION, layout.TABLE_BYTES, slots, rank, size, os.getpid(), time.time_ns(), main
        layout.HEAD.pack_into(self.memory, 0, layout.MAGIC, *head)
        new.rename(self.path)
        self._numbers = itertools.count(1)
        self.last = 0
        self._texts: dict[tuple[int, bytes], int] = {}
        self._used = self._dropped = 0
        self._lock = threading.Lock()
        self._put, self._put_end = layout.SLOT.pack_into, layout.CALLS.pack_into
        self.text("")
        self.alive()

    def text(self, text: str, kind: int = layout.PLAIN) -> int:
        """Returns the number of a text; 0 if the table has no room for it."""
        data = text.encode(errors="replace")[: layout.LONGEST_WORD if kind == layout.PLAIN else None]
        key = kind, data
        with self._lock:
            known = self._texts.get(key)
            if known is not None:
                return known
            needed = layout.TEXT.size + len(data)
            if self._used + needed > layout.TABLE_BYTES or len(self._texts) >= 0xFFFF:
                self._dropped += 1
                layout.TABLE.pack_into(self.memory, layout.TABLE_AT, self._used, self._dropped)
                return 0
            at = layout.HEADER_BYTES + self._used
            layout.TEXT.pack_into(self.memory, at, len(data), kind)
            self.memory[at + layout.TEXT.size : at + needed] = data
            self._used += needed
            layout.TABLE.pack_into(self.memory, layout.TABLE_AT, self._used, self._dropped)
            return self._texts.setdefault(key, len(self._texts))

    def put(
        self,
        kind: int,
        op: int,
        thread: int,
        dtype: int,
        reduce: int,
        group: int,
        place: int,
        seq: int,
        peer: int,
        input_size: int,
        output_size: int,
    ) -> int:
        """Writes a record; returns its number."""
        self.last = number = next(self._numbers)
        at = self._first + number % self.slots * 64
        start = time.time_ns()
        self._put(
            self.memory,
            at,
            kind,
            op,
            thread,
            dtype,
            reduce,
            group,
            place,
            seq,
            peer,
            input_size,
            output_size,
            start,
            0,
            number,
        )
        return number

    def end(self, number: int) -> None:
        """The call of a record has returned. If a newer record has overwritten the slot, this does nothing."""
        if self.last - number < self.slots:
            self._put_end(self.memory, self._first + number % self.slots * 64 + layout.SLOT_END, time.time_ns())

    def failed(self, number: int) -> None:
        """The call of a record has raised."""
        if self.last - number < self.slots:
            at = self._first + number % self.slots * layout.SLOT.size + layout.SLOT_END
            layout.CALLS.pack_into(self.memory, at, layout.RAISED)

    def waits(self, number: int) -> None:
        """The program waits for the Work of a record."""
        self._put_end(self.memory, layout.WAITS_AT, number)

    def counted(self, group: int, calls: int) -> None:
        """Stores how many calls of a group the library counts."""
        if group < layout.GROUPS:
            layout.CALLS.pack_into(self.memory, layout.CALLS_AT + group * layout.CALLS.size, calls)

    def moved(self) -> None:
        """The library's counts have changed."""
        layout.MOVED.pack_into(self.memory, layout.MOVED_AT, time.time_ns())

    def alive(self) -> None:
        layout.ALIVE.pack_into(self.memory, layout.ALIVE_AT, time.time_ns())

    def missed(self, calls: int) -> None:
        layout.MISSED.pack_into(self.memory, layout.MISSED_AT, calls)

    def ended(self, how: str, text: str = "") -> None:
        """Stores how the program ended: a word of ENDS, and the text of an exception."""
        self.alive()
        layout.END.pack_into(self.memory, layout.END_AT, layout.ENDS.index(how), self.text(text[:300]))
