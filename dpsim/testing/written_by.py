"""Finds the source line that made a call, and the calls that may write a record.

line_of(raw)            # 'group.barrier(site="agree")'
calls_of(raw)           # "barrier", a pattern that the line must match
"""

from __future__ import annotations

import linecache
import sys

from dpsim.contract.kinds import MEETS
from dpsim.contract.ops import KEPT_CALL, KEPT_FIELDS, KIND, OP, WHERE, RawRecord

CALLS = {
    "ask": "query|synchronize|capture",
    "decision": "decide",
    "flag": "set|clear|wait|query",
    "flag_wait": "wait_flag",
    "fresh": "alloc",
    "mark": "record|wait_stream|replay|capture",
    "post": "send",
    "look": "query|within",
    "receive_any": "recv_any",
    "sleep": "sleep|turn",
    "store": "open_store|join_store|set|get|add|compare_set|delete|close",
    "take": "poll|get",
    "thread": "start|join",
    "used": "record_stream",
    "wait": "wait|wait_stream|replay",
}
"""Maps a kind of record to the calls that write it, unless they have its name. A collective or transfer names its call.
The records of a replay have the lines of the capture.
"""


def calls_of(raw: RawRecord) -> str:
    """Returns the calls that write such a record, as a regular expression."""
    kind, fields = f"{raw[KIND]}", raw[WHERE + 1 :]
    if kind == "kept":
        kind, fields = raw[KEPT_CALL], raw[KEPT_FIELDS]
    return rf"{fields[OP - WHERE - 1]}|group|getattr\(group, call\.name\)" if kind in MEETS else CALLS.get(kind, kind)


def line_of(raw: RawRecord) -> str:
    """Returns the source line at the record's place, or ""."""
    path, _, number = raw[WHERE].rpartition(":")
    module = sys.modules.get(path.removesuffix(".py").replace("/", "."))
    source = getattr(module, "__file__", None) or ""
    return linecache.getline(source, int(number)).strip() if number.isdigit() else ""
