"""Rows: turns a picture into plain data: the lanes of each rank, with equal ranks in one row.

    content(picture)["rows"][0]
    {"name": "ranks 0, 2, 3", "count": 3, "lanes": [{"name": "host", "ops": [...], "holes": []}], ...}

The data contain each text once. An op is a list of numbers in the order of `FIELDS`. Ops of one lane may overlap, if a
host began several calls together. Then the later ones get additional lanes below. If a stream has ops behind one that
never ends, the first `QUEUED` of them are drawn after the end of the picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from dpsim.contract.words import counted, middle_cut, printable
from dpsim.diagnose.pictures.op import HOST, DrawnOp, Hole, Picture

FIELDS = ("begin", "came", "end", "kind", "said", "address", "where", "step", "key", "marked", "label", "turning")
"""The numbers of an op. Kinds and texts are numbers as well. -1 stands for no value."""

KINDS = {
    "launch": 1,
    "read": 1,
    "collective": 2,
    "transfer": 3,
    "wait": 4,
    "flag_wait": 4,
    "post": 5,
    "take": 5,
    "ended": 6,
}
"""The number of each kind of op. 0 is any other call of a host."""

QUEUED = 3
LONGEST, LONGEST_LINE = 300, 1_000
"""The largest number of characters of a text, and of a line of the report, which the page wraps."""

NO_STEP = 1_000_000
"""The number from which a service counts its steps."""

AROUND = 40
"""The number of ops in the first view, if there are no steps."""


class Texts:
    """A table that contains each text once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.all: list[str] = []

    def number(self, text: str) -> int:
        known = self._numbers.get(text)
        if known is None:
            known = self._numbers[text] = len(self.all)
            self.all.append(printable(middle_cut(text, LONGEST)))
        return known


def content(picture: Picture) -> dict[str, Any]:
    """Returns all that a page shows, as plain data."""
    texts = Texts()
    keys: dict[Any, int] = {}
    numbers = {id(op): keys.setdefault(op.key, len(keys)) for op in picture.ops if op.key is not None}
    lanes = lanes_of(picture)
    rows: dict[Any, list[int]] = {}
    for rank in range(len(picture.actors)):
        own = tuple(
            (name, _encoded(picture, ops, texts, numbers), _holes(holes, texts, numbers))
            for name, (ops, holes) in lanes.get(rank, {}).items()
        )
        rows.setdefault((own, picture.ends[rank], rank in picture.culprits), []).append(rank)
    steps = _steps(picture)
    return {
        "title": printable(middle_cut(picture.title, LONGEST)),
        "lines": [printable(middle_cut(line, LONGEST_LINE)) for line in picture.lines],
        "fields": FIELDS,
        "last": picture.last,
        "unit": picture.unit,
        "openEnds": picture.open_ends,
        "typical": typical(picture),
        "steps": steps,
        "focus": focus(picture, steps),
        "near": _two_steps(picture, steps, len(steps) - 1),
        "texts": texts.all,
        "actors": [printable(middle_cut(name, 60)) for name in picture.actors],
        "undecided": picture.undecided,
        "arrows": [{"from": _place(one.op), "to": _place(one.to)} for one in picture.arrows],
        "turns": [[texts.number(op.turning or "") for op in pair] for pair in picture.turns],
        "turn": _around_turns(picture),
        "pairs": [_pair(one, other) for one, other in picture.pairs],
        "rows": [
            {
                "ranks": ranks,
                "end": printable(middle_cut(end, 60)),
                "culprit": culprit,
                "lanes": [
                    {"name": printable(middle_cut(name, 60)), "ops": ops, "holes": holes} for name, ops, holes in own
                ],
            }
            for (own, end, culprit), ranks in rows.items()
        ],
    }


def focus(picture: Picture, steps: list[tuple[int, int]]) -> tuple[int, int]:
    """Returns the times to show first.

    These are around two unordered accesses, or else the culprit's step and the one before it, or else the last two
    steps. They include the events whose swap lets the run finish.
    """
    if picture.pairs:
        begins = [op.begin or 0 for op in picture.pairs[0]]
        around = AROUND // 4 * typical(picture)
        return max(min(begins) - around, 0), max(begins) + around
    at = next((at for at, (step, _) in enumerate(steps) if step == picture.focus), len(steps) - 1)
    begin, until = _two_steps(picture, steps, at)
    turning = _turning_times(picture)
    return min([begin, *turning]), max([until, *turning])


def _around_turns(picture: Picture) -> tuple[int, int] | None:
    """Returns the times around the events whose swap lets the run finish; None without any."""
    times = _turning_times(picture)
    if not times:
        return None
    around = AROUND // 4 * typical(picture)
    return max(min(times) - around, 0), min(max(times) + around, picture.last)


def _turning_times(picture: Picture) -> list[int]:
    """Returns the begins and ends of the events whose swap lets the run finish."""
    ops = [op for op in picture.ops if op.turning and op.begin is not None]
    return [time for op in ops for time in (op.begin, op.end) if time is not None]


def typical(picture: Picture) -> int:
    """Returns the typical length of an op: one tick, or the length of the run divided by the ops of its longest lane,
    in ns.
    """
    if picture.unit == "tick":
        return 1
    counts = Counter((op.rank, op.lane) for op in picture.ops)
    return max(picture.last // max(counts.values(), default=1), 1)


def _two_steps(picture: Picture, steps: list[tuple[int, int]], at: int) -> tuple[int, int]:
    """Returns the times of a step and the one before it. Without steps, the times around the first hole."""
    last = picture.last
    if not steps:
        first = min((hole.op.begin or 0 for hole in picture.holes), default=last)
        around = AROUND // 4 * typical(picture)
        return max(min(first, last - 2 * around) - around, 0), last
    until = steps[at + 1][1] if at + 1 < len(steps) else last
    open_begins = [op.begin for op in picture.ops if op.end is None and op.begin is not None]
    return steps[max(at - 1, 0)][1], max([until, *open_begins])


def lanes_of(picture: Picture) -> dict[int, dict[str, tuple[list[DrawnOp], list[Hole]]]]:
    """Returns rank -> lane -> its ops and holes. Host threads come first."""
    found: dict[int, dict[str, tuple[list[DrawnOp], list[Hole]]]] = {}
    for op in picture.ops:
        found.setdefault(op.rank, {}).setdefault(op.lane, ([], []))[0].append(op)
    for hole in picture.holes:
        found.setdefault(hole.rank, {}).setdefault(hole.op.lane, ([], []))[1].append(hole)
    for rank, lanes in found.items():
        ordered = sorted(lanes, key=lambda name: (name != HOST, not name.startswith("thread ")))
        found[rank] = {}
        for name in ordered:
            ops, holes = lanes[name]
            for number, some in enumerate(_apart(ops)):
                found[rank][f"{name} ({number + 1})" if number else name] = some, [] if number else holes
    return found


def _apart(ops: list[DrawnOp]) -> list[list[DrawnOp]]:
    """Returns the ops in several lists, none of which contains overlapping ops."""
    lists: list[list[DrawnOp]] = [[]]
    ends = [0]
    waiting = [op for op in ops if op.begin is None]
    for op in sorted((op for op in ops if op.begin is not None), key=lambda op: op.begin or 0):
        at = next((number for number, end in enumerate(ends) if end <= (op.begin or 0)), len(ends))
        if at == len(ends):
            ends.append(0)
            lists.append([])
        ends[at] = 1 << 60 if op.end is None else op.end
        lists[at].append(op)
    lists[0] += waiting
    return lists


def _encoded(picture: Picture, ops: list[DrawnOp], texts: Texts, numbers: dict[int, int]) -> tuple[int, ...]:
    row: list[int] = []
    queued = 0
    for op in ops:
        begin, label = op.begin, op.label
        if begin is None:
            queued += 1
            if queued > QUEUED:
                continue
            left = sum(one.begin is None for one in ops) - QUEUED
            begin, label = picture.last + 1 + queued, "behind an op that did not end"
            if queued == QUEUED and left > 0:
                label += f", as are {counted(left, 'more op')}"
        row += (
            begin,
            -1 if op.arrival is None else op.arrival,
            -1 if op.end is None else op.end,
            KINDS.get(op.kind, 0),
            texts.number(op.said),
            texts.number(op.address),
            texts.number(op.where),
            op.step,
            numbers.get(id(op), -1),
            int(op.marked),
            texts.number(label),
            -1 if op.turning is None else texts.number(op.turning),
        )
    return tuple(row)


def _holes(holes: Iterable[Hole], texts: Texts, numbers: dict[int, int]) -> tuple[tuple[int, ...], ...]:
    """Returns begin, end, text, address, place, key and "is the culprit's" of each hole."""
    return tuple(
        (
            hole.op.begin or 0,
            -1 if hole.op.end is None else hole.op.end,
            texts.number(hole.op.said),
            texts.number(hole.op.address),
            texts.number(hole.op.where),
            numbers.get(id(hole.op), -1),
            int(hole.culprit),
        )
        for hole in holes
    )


def _place(op: DrawnOp) -> tuple[int, str, int]:
    """Returns rank, lane and begin of an op."""
    return op.rank, printable(middle_cut(op.lane, 60)), op.begin or 0


def _pair(one: DrawnOp, other: DrawnOp) -> dict[str, Any]:
    both = one, other
    return {
        "rank": one.rank,
        "lanes": [op.lane for op in both],
        "begins": [op.begin or 0 for op in both],
        "middles": [((op.begin or 0) + (op.end or op.begin or 0)) / 2 for op in both],
        "names": [printable(middle_cut(op.address, 60)) for op in both],
    }


def _steps(picture: Picture) -> list[tuple[int, int]]:
    """Returns each step, with the first time at which a rank is in it."""
    first: dict[int, int] = {}
    for op in picture.ops:
        if op.begin is not None and 0 <= op.step < NO_STEP:
            first[op.step] = min(first.get(op.step, op.begin), op.begin)
    steps: list[tuple[int, int]] = []
    for step, begin in sorted(first.items()):
        steps.append((step, max(begin, steps[-1][1]) if steps else begin))
    return steps
