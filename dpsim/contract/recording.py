"""The layout of a recording: one file for each process of a job, which the recorder writes and `dpsim explain` reads.

    header 4096 bytes: the writer, its progress, and the number of calls of each group
    table      texts, each written once: lines of the program, groups, types, labels
    slots      64 bytes a record, a ring: the newest record takes the place of the oldest

The file is mapped into memory, so what a process wrote stays when the process is killed. Each integer is little-endian.
The number of a record comes last in its slot: a slot that a kill left half-written still has the number of before.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

MAGIC: Final = b"dpsim-recording\n"
VERSION: Final = 1
NAME: Final = "rank_{rank}.{pid}.recording"
STACKS: Final = ".stacks"
"""Behind the name of a recording: the file with the lines at which the process stood when it made no call."""

HEADER_BYTES: Final = 4096
TABLE_BYTES: Final = 1 << 20
SLOTS: Final = 1 << 16

HEAD = Struct("<16sIIIiiIQQ")
"""Magic, version, bytes of the table, slots, rank, ranks, process id, start in ns, the main thread's number."""
ALIVE_AT: Final = 64
ALIVE = Struct("<Q")
"""When the process last said that it lives, in ns of its clock."""
TABLE_AT: Final = 72
TABLE = Struct("<QQ")
"""Bytes of the table in use, and texts for which it had no room."""
END_AT: Final = 88
END = Struct("<II")
"""How the program ended (see ENDS), and the text of an exception."""
MISSED_AT: Final = 96
MISSED = Struct("<Q")
"""Calls that the recorder could not describe."""
WAITS_AT: Final = 104
WAITS = Struct("<Q")
"""The record whose Work the program waits for, or last waited for."""
MOVED_AT: Final = 112
MOVED = Struct("<Q")
"""When the library's counts last changed, in ns of the process's clock: calls of C++ have no record."""
CALLS_AT: Final = 256
CALLS = Struct("<Q")
GROUPS: Final = (HEADER_BYTES - CALLS_AT) // CALLS.size
"""Groups that the header has room for: how many calls the library itself counts in each."""

TEXT = Struct("<IB")
"""Bytes of a text of the table, and its kind."""
PLAIN, PLACE, GROUP = 0, 1, 2
"""Kinds of text: a word; lines of the program as JSON; a group as JSON."""

SLOT = Struct("<BBHHHIIIiQQQQQ")
"""A record: kind, operation, thread, dtype, reduction, group, place, number in the group, root or peer.

Then elements in and out, start and end in ns of the process's clock, number of the record from 1. A text is its number
in the table.
"""
SLOT_END: Final = 48
"""Where in a slot the end is."""
RAISED: Final = 1
"""In place of an end: the call raised an exception."""
CALL, STEP, DECISION = 1, 2, 3
"""Kinds of slot. A step has its number in place of the elements in. A decision has the text of its label in place of
the peer, and that of its value in place of the elements in.
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
