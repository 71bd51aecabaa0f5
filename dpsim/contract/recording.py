"""The layout of a recording: one file per process of a job. The recorder of `real/record` writes it, and `dpsim
explain` reads it.

    header 4096 bytes: the process, its progress, and the number of calls of each group
    table      texts, each written once: lines of the program, groups, types, labels
    slots      64 bytes per record, a ring: the newest record overwrites the oldest

The recorder maps the file of a recording into memory, so its contents remain if the process is killed. Integers are
little-endian. The recorder writes the number of a record last. So if a kill interrupts the write of a slot, the slot
still has the number of the old record.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

MAGIC: Final = b"dpsim-recording\n"
VERSION: Final = 1
NAME: Final = "rank_{rank}.{pid}.recording"
STACKS: Final = ".stacks"
"""The suffix of the file beside a recording that lists where the process was when it made no call."""

HEADER_BYTES: Final = 4096
TABLE_BYTES: Final = 1 << 20
SLOTS: Final = 1 << 16

HEAD = Struct("<16sIIIiiIQQ")
"""Magic, version, bytes of the table, slots, rank, ranks, process id, start in ns, the main thread's number."""
ALIVE_AT: Final = 64
ALIVE = Struct("<Q")
"""When the process last reported that it is alive, in ns of its clock."""
TABLE_AT: Final = 72
TABLE = Struct("<QQ")
"""Bytes of the table in use, and the number of texts that did not fit."""
END_AT: Final = 88
END = Struct("<II")
"""How the program ended (see ENDS), and the text of an exception."""
MISSED_AT: Final = 96
MISSED = Struct("<Q")
"""Calls that the recorder could not describe."""
WAITS_AT: Final = 104
WAITS = Struct("<Q")
"""The number of the record whose Work the program waits for, or last waited for."""
MOVED_AT: Final = 112
MOVED = Struct("<Q")
"""When the counts of the communication library last changed, in ns of the process's clock. Calls made in C++ have no
record, but change these counts.
"""
CALLS_AT: Final = 256
CALLS = Struct("<Q")
GROUPS: Final = (HEADER_BYTES - CALLS_AT) // CALLS.size
"""The number of groups for which the header has room. For each, it contains how many calls the library itself
counted.
"""

TEXT = Struct("<IB")
"""Bytes of a text of the table, and its kind."""
PLAIN, PLACE, GROUP, PROCESS = 0, 1, 2, 3
"""Kinds of text: a word; lines of the program, a group, and the process (text 1) as JSON."""
LONGEST_WORD: Final = 2_000
"""The recorder cuts a longer word to this number of bytes. It never cuts JSON, which no reader could read."""

SLOT = Struct("<BBHHHIIIiQQQQQ")
"""A record: kind, operation, thread, dtype, reduction, group, place, number in the group, root or peer.

Then elements in and out, start and end in ns of the process's clock, number of the record from 1. A text is its number
in the table.
"""
SLOT_END: Final = 48
"""The offset of the end time in a slot."""
RAISED: Final = 1
"""Replaces the end time if the call raised an exception."""
CALL, STEP, DECISION = 1, 2, 3
"""Kinds of slot. A step has its number in the field "elements in". A decision has its label in the field "peer" and its
value in "elements in", both as numbers of texts.
"""

ENDS: Final = ("runs", "ended", "raised")

OPS: Final = (
    "",
    "all_reduce",
    "all_reduce_coalesced",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_gather",
    "all_gather_coalesced",
    "reduce_scatter",
    "reduce_scatter_coalesced",
    "all_to_all",
    "barrier",
    "send",
    "recv",
)
"""Operations, by their number in a slot."""
