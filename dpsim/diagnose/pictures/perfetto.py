"""Perfetto: writes a picture as trace events in JSON, which ui.perfetto.dev and chrome://tracing read.

    trace_events(picture)       # {"traceEvents": [...], "otherData": {...}}

A rank is a process of the trace, and a lane is a thread. An op is a complete event (`ph` X), and its waiting is another
event within it. A tick is shown as one microsecond. A flow connects the parts of a collective, a transfer or a message.
It has `ph` s at the first part, and `t` and `f` at the others. A missing call is an event named "MISSING ...".

Format: Trace Event Format (Google, 2016), sections "complete events" and "flow events".
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from dpsim.contract.words import middle_cut, printable
from dpsim.diagnose.pictures.op import DrawnOp, Hole, Key, Picture
from dpsim.diagnose.pictures.rows import LONGEST, lanes_of, typical

TAIL = 8
"""Ops that never end are drawn this number of ops beyond the last op that ends."""

COLOURS = {"moves": "good", "waits": "bad", "never": "terrible"}
"""Colour names of the viewer's palette."""


def trace_events(picture: Picture) -> dict[str, Any]:
    """Returns the events as plain data."""
    events: list[dict[str, Any]] = []
    parts: dict[Key, list[tuple[int, int, int]]] = defaultdict(list)
    until, lanes = picture.last + TAIL * typical(picture), lanes_of(picture)
    for rank, name in enumerate(picture.actors):
        mark = "  CULPRIT" if rank in picture.culprits else ""
        events.append(_meta("process_name", rank, 0, _text(f"{name}{mark}")))
        events.append({"ph": "M", "name": "process_sort_index", "pid": rank, "tid": 0, "args": {"sort_index": rank}})
        for thread, (lane, (ops, holes)) in enumerate(lanes.get(rank, {}).items()):
            events.append(_meta("thread_name", rank, 2 * thread, _text(lane)))
            for op in ops:
                if op.begin is not None:
                    events += _op(op, 2 * thread, until)
                    if op.key is not None:
                        parts[op.key].append((op.begin, rank, 2 * thread))
            if holes:
                events.append(_meta("thread_name", rank, 2 * thread + 1, _text(f"{lane}: missing")))
            events += [_hole(hole, 2 * thread + 1, until) for hole in holes]
    for number, own in enumerate(parts.values()):
        events += _flow(number, sorted(own))
    clock = "logical: a tick is shown as 1 us" if picture.unit == "tick" else "of the run"
    if picture.unit == "ns":
        events = [_in_us(event) for event in events]
    said = {"clock": clock, "report": [_text(line) for line in picture.lines]}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"title": _text(picture.title), **said}}


def _in_us(event: dict[str, Any]) -> dict[str, Any]:
    """Returns an event with its times in microseconds, as the format needs them."""
    return event | {key: event[key] / 1_000 for key in ("ts", "dur") if key in event}


def _text(text: str) -> str:
    return printable(middle_cut(text, LONGEST))


def _meta(name: str, rank: int, thread: int, said: str) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": rank, "tid": thread, "args": {"name": said}}


def _op(op: DrawnOp, thread: int, until: int) -> list[dict[str, Any]]:
    """Returns the event of an op, and the event of its waiting."""
    assert op.begin is not None
    end = until if op.end is None else op.end
    colour = COLOURS["never" if op.end is None else "waits" if (op.arrival or 0) > op.begin else "moves"]
    words = {"op": op.said, "address": op.address, "where": op.where, "waits": op.label}
    args: dict[str, Any] = {key: _text(text) for key, text in words.items() if text}
    if op.step >= 0:
        args["step"] = op.step
    if op.marked:
        args["culprit"] = True
    if op.turning:
        args["turning"] = _text(op.turning)
    place = {"pid": op.rank, "tid": thread}
    whole = {"ts": op.begin, "dur": end - op.begin, "name": _text(op.site), "cname": colour, "args": args}
    events = [{"ph": "X", **place, **whole}]
    waits = (until if op.arrival is None else op.arrival) - op.begin
    if waits:
        name = _text(f"waits: {op.label}" if op.label else "waits")
        events.append({"ph": "X", **place, "ts": op.begin, "dur": waits, "name": name, "cname": COLOURS["waits"]})
    return events


def _hole(hole: Hole, thread: int, until: int) -> dict[str, Any]:
    begin, end = hole.op.begin or 0, until if hole.op.end is None else hole.op.end
    args = {"op": _text(hole.op.said), "peers": _text(hole.op.where), "culprit": hole.culprit}
    name = _text(f"MISSING {hole.op.address}")
    place = {"pid": hole.rank, "tid": thread}
    return {"ph": "X", **place, "ts": begin, "dur": end - begin, "name": name, "cname": "terrible", "args": args}


def _flow(number: int, parts: list[tuple[int, int, int]]) -> list[dict[str, Any]]:
    """Returns arrows from the first part over the others to the last one."""
    last = len(parts) - 1
    return [
        {
            "ph": "s" if not at else "f" if at == last else "t",
            "bp": "e",
            "id": number,
            "pid": rank,
            "tid": thread,
            "ts": begin,
            "name": "meets",
            "cat": "meets",
        }
        for at, (begin, rank, thread) in enumerate(parts)
        if last
    ]
