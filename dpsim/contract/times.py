"""When the ops of a run began and ended, in nanoseconds of the run's own clock.

    times = run.times[1]                # of rank 1
    times.written[4]                    # when it wrote its fifth record: the call began
    times.over[4]                       # when that op ended on its stream, if the backend knows it

A rank writes the record of a call before the call has an effect, and a record "learned" when an awaited call returns.
So these two records give the begin and the end of each awaited call. An op on a stream ends later. The simulation knows
when; a real backend does not query its device for this, so it reports no such ends.

The clock of the simulation begins at 0. All ranks of a real backend run on one host and read its CLOCK_MONOTONIC, which
all its processes share. Clocks of several hosts differ, so a run on several hosts has no times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class ActorTimes(NamedTuple):
    """The times of one rank or service, in ns. `written`: when it wrote each record of its journal. `over`: the end of
    ops on streams, by the index of their record in the journal.
    """

    written: Sequence[int]
    over: Mapping[int, int] = {}


def fits(times: Sequence[ActorTimes], journals: Sequence[Sequence[Any]]) -> bool:
    """Whether these times belong to those journals: each record has one."""
    return len(times) == len(journals) > 0 and all(
        len(one.written) == len(own) and all(0 <= at < len(own) for at in one.over)
        for one, own in zip(times, journals, strict=True)
    )
