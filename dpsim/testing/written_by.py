"""Which line of a program made a call, and which calls write a record.

line_of(raw)            # 'group.barrier(site="agree")'
calls_of(raw)           # "barrier", as a pattern: the line has to call that
"""

from __future__ import annotations

import linecache
import sys

from dpsim.contract.ops import KEPT_CALL, KEPT_FIELDS, KIND, OP, WHERE, RawRecord

CALLS = {
    "abort": "abort",
    "alloc": "alloc",
    "ask": "query|synchronize|capture",
    "capture": "capture",
    "decision": "decide",
    "flag": "set|clear|wait|query",
    "flag_wait": "wait_flag",
    "free": "free",
    "fresh": "alloc",
    "launch": "launch",
    "mark": "record|wait_stream|replay|capture",
    "post": "send",
    "probe": "probe",
    "group": "group",
    "look": "query|within",
    "read": "read",
    "receive_any": "recv_any",
    "replay": "replay",
    "sleep": "sleep|turn",
    "store": "open_store|join_store|set|get|add|compare_set|delete|close",
    "take": "poll|get",
    "thread": "start|join",
    "used": "record_stream",
    "wait": "wait|wait_stream|replay",
    "watch": "watch",
}
"""Kind of record -> the calls of the contract that write it; a collective or transfer is named as its call is. The
records of a replay have the lines of the capture.
"""


def calls_of(raw: RawRecord) -> str:
    """Those that write such a record, as a pattern."""
    kind, fields = raw[KIND], raw[WHERE + 1 :]
    if kind == "kept":
        kind, fields = raw[KEPT_CALL], raw[KEPT_FIELDS]
    return CALLS[kind] if kind in CALLS else rf"{fields[OP - WHERE - 1]}|group|getattr\(group, call\.name\)"


def line_of(raw: RawRecord) -> str:
    """The source at the record's place; "" if there is none."""
    path, _, number = raw[WHERE].rpartition(":")
    module = sys.modules.get(path.removesuffix(".py").replace("/", "."))
    source = getattr(module, "__file__", None) or ""
    return linecache.getline(source, int(number)).strip() if number.isdigit() else ""
