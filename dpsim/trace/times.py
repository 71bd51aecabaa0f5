"""When ops began and ended, as a section of a trace. The digest of the trace does not cover this section.

    {"section":"times","times":{"written":[[1500,0,137000],...],"over":[[0,6500],...]}}

All times are in ns. `written` has a list for each rank and service, with one number for each record. The first number
counts from the first record of the run, and each later one from the record before it. `over` has a list for each of
them, too. In it, the place of an op in the journal and the time of its end alternate. These times count from the first
record of the run.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

from dpsim.contract.ops import KIND
from dpsim.contract.times import ActorTimes, fits
from dpsim.contract.world import Run
from dpsim.trace.form import UNWRITTEN

LONGEST = 1 << 62


def content_of(run: Run) -> dict[str, Any]:
    """Returns the section of a run; an empty dict for a run without times."""
    if not fits(run.times, run.journals):
        return {}
    shown = [[at for at, raw in enumerate(own) if raw[KIND] != UNWRITTEN] for own in run.journals]
    first = min((own.written[at] for own, places in zip(run.times, shown, strict=True) for at in places[:1]), default=0)
    written, over = [], []
    for own, places in zip(run.times, shown, strict=True):
        at_ns = [own.written[at] - first for at in places]
        written.append([*at_ns[:1], *[max(later - one, 0) for one, later in pairwise(at_ns)]])
        ends = [(number, own.over[at] - first) for number, at in enumerate(places) if at in own.over]
        over.append([number for pair in ends for number in pair])
    return {"written": written, "over": over}


def are_times(value: Any, actors: int) -> bool:
    """Returns whether the value is a section of this form for the given number of actors."""
    if not isinstance(value, dict) or value.keys() != {"written", "over"}:
        return False
    lists = [*_lists(value["written"], actors), *_lists(value["over"], actors)]
    return len(lists) == 2 * actors and all(len(own) % 2 == 0 for own in lists[actors:])


def _lists(value: Any, actors: int) -> list[list[int]]:
    fits = isinstance(value, list) and len(value) == actors
    return [
        own
        for own in (value if fits else ())
        if isinstance(own, list) and all(type(number) is int and 0 <= number < LONGEST for number in own)
    ]


def times_of(content: dict[str, Any]) -> tuple[ActorTimes, ...]:
    """Returns the times of a section, counted from the first record of the run."""
    return tuple(
        ActorTimes(tuple(accumulate(written)), dict(zip(over[::2], over[1::2], strict=True)))
        for written, over in zip(content["written"], content["over"], strict=True)
    )
