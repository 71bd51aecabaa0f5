"""Pace: decides whether a job still moved when it was dumped.

A dump of a healthy job contains unfinished calls, too. Three observations show that the job moved:

* Two dumps of a rank differ, so it has begun or finished a call between them.
* A call is over on one rank although another rank has not made it, and their earlier calls agree. Then the dumps were
  written at different times, and the job moved between them.
* The newest call is not older than the job's usual pauses between calls. Its age is measured at the time of the file,
  which a copy may change: use `cp -p`, `rsync -t` or `tar`.

Without any of these, the job counts as hung, because engineers dump hung jobs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from dpsim.contract.words import duration, ranks_text
from dpsim.diagnose.dumps.job import DumpedJob, DumpGroup
from dpsim.diagnose.dumps.partings import called

SECOND = 1_000_000_000

LEAST_NS = SECOND // 4
"""If the newest call is younger than this, the job moves, whatever its pauses are."""

OLD_NS = 3600 * SECOND
"""If a file is newer than its newest call by more than this, a user copied it, or the job has hung for long."""


class Pace(NamedTuple):
    """Whether the job moved, whether that is certain, the reason, and lines about the age of its newest call."""

    moving: bool
    sure: bool
    why: str
    ground: tuple[str, ...]


def pace(job: DumpedJob) -> Pace:
    """Returns whether a job moved when it was dumped."""
    moved = [rank for rank, dump in job.dumps.items() if dump.moved]
    if moved:
        return Pace(True, True, f"two dumps of {ranks_text(moved)} differ: it went on between them", ())
    for group in job.groups.values():
        ahead = _ahead(group)
        if ahead:
            return Pace(True, True, ahead, ())
    quiet = _quiet_ns(job)
    if quiet is None:
        return Pace(False, False, "", ())
    usual = _longest_pause_ns(job)
    if quiet < max(LEAST_NS, min(usual, OLD_NS)):
        why = f"the newest call is {duration(quiet)} older than the dump, and pauses of {duration(usual)} came before"
        return Pace(True, False, why, ())
    ground = (f"no rank called anything in the {duration(quiet)} before the dump",) if quiet < OLD_NS else ()
    return Pace(False, False, "", ground)


def _ahead(group: DumpGroup) -> str:
    """Returns a line about a call that is over on one rank and not made on another, or an empty text."""
    calls = {rank: own for rank, own in group.calls.items() if own}
    if len(calls) < 2 or {*calls} != {*group.members}:
        return ""
    over = {rank: max((call.seq for call in own if call.over), default=0) for rank, own in calls.items()}
    first = max(over, key=lambda rank: over[rank])
    last = min(calls, key=lambda rank: calls[rank][-1].seq)
    seq = over[first]
    if calls[last][-1].seq >= seq:
        return ""
    mine = {call.seq: called(call.shape) for call in calls[first]}
    if any(mine.get(call.seq, called(call.shape)) != called(call.shape) for own in calls.values() for call in own):
        return ""
    if not mine[seq].op.startswith(("all", "_all", "barrier")):
        return ""
    return (
        f"#{seq} on {group.name} is over at rank {first}, and rank {last}, without which it cannot end, "
        f"shows #{calls[last][-1].seq} as its last: the dumps are of different times"
    )


def _quiet_ns(job: DumpedJob) -> int | None:
    """Returns the time from the newest call to the first dump; None if the files do not show it."""
    newest = max((call.created for own in job.calls.values() for call in own[-1:]), default=0)
    written = min((dump.written_ns for dump in job.dumps.values()), default=0)
    return written - newest if 0 < newest <= written else None


def _longest_pause_ns(job: DumpedJob) -> int:
    """Returns the longest time without a call of any rank, in the newer half of the calls."""
    times = sorted(call.created for own in job.calls.values() for call in own[-200:])
    newer = times[len(times) // 2 :]
    return max((after - before for before, after in pairwise(newer)), default=0)
