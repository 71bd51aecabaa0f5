"""Infers the steps of a job whose program names none: a call that all ranks repeat begins a new step each time.

    all_reduce @train.py:42   broadcast @train.py:44   all_reduce @train.py:42   broadcast @train.py:44
    step 0                                             step 1

The call is the first one that every rank with calls makes at one line, at least FEWEST times. A job without such a call
has no steps.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from dpsim.recorded.rows import CallRow

FEWEST = 3
"""Each rank has to make the call at least this number of times."""

Place: TypeAlias = tuple[str, str, str]


def with_steps(ranks: list[list[CallRow]]) -> list[list[CallRow]]:
    """Returns the rows of each rank, with an additional row at the beginning of each step."""
    anchor = _anchor(ranks)
    return ranks if anchor is None else [_stepped(own, anchor) for own in ranks]


def _anchor(ranks: list[list[CallRow]]) -> Place | None:
    counts = [Counter(map(_place, own)) for own in ranks if own]
    first = next((own for own in ranks if own), [])
    often = [place for place in map(_place, first) if place[2] and all(own[place] >= FEWEST for own in counts)]
    return often[0] if often else None


def _stepped(own: list[CallRow], anchor: Place) -> list[CallRow]:
    rows, step = [], 0
    for row in own:
        if _place(row) == anchor:
            rows.append(CallRow("step", step=step))
            step += 1
        rows.append(row)
    return rows


def _place(row: CallRow) -> Place:
    return row.op, row.group, row.line
