"""When the ops of a run began and ended, in nanoseconds of the run's own clock.

    times = run.times[1]                # of rank 1
    times.written[4]                    # when it wrote its fifth record: the call began
    times.over[4]                       # when that op of a stream ended, where the backend knows it

A rank writes the record of a call before the call does anything, and a record "learned" when the call returned. So
these two have the begin and the end of each call that a host awaits. A stream ends its ops later. The simulation knows
when. A real backend does not ask its device, and says nothing of that.

The clock of the simulation begins at 0. All ranks of a real backend are on one host and read its CLOCK_MONOTONIC, which
is one clock for all its processes. Clocks of several hosts differ, so a source that has several of them has no times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class ActorTimes(NamedTuple):
    """Of one rank or service. `written`: for each record of its journal, in ns. `over`: of ops on streams the end, by
    the place of their record in the journal.
    """

    written: Sequence[int]
    over: Mapping[int, int] = {}


def fits(times: Sequence[ActorTimes], journals: Sequence[Sequence[Any]]) -> bool:
    """Whether these are the times of those journals: each record has one."""
    return len(times) == len(journals) > 0 and all(
        len(one.written) == len(own) and all(0 <= at < len(own) for at in one.over)
        for one, own in zip(times, journals, strict=True)
    )
